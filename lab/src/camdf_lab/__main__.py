"""`python -m camdf_lab` is the command `camdf-lab`."""

import sys

from camdf_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())

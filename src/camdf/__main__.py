"""`python -m camdf` is the command `camdf`."""

import sys

from camdf.cli import main

if __name__ == "__main__":
    sys.exit(main())

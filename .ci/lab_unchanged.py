"""Is the lab, with all that its figures depend on, what it was when its tests passed? Then CI need not run them again.

python .ci/lab_unchanged.py            exit 1 where something changed
python .ci/lab_unchanged.py --store    after lab/tests and `camdf-lab check --all` have passed
"""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = ("lab", *(f"src/camdf/{part}" for part in ("core", "datasets", "evaluation", "policies")))
STORED = ROOT / "lab" / "results" / "tested.sha256"


def digest() -> str:
    """Of every file that git has there, by name and content."""
    listed = subprocess.run(["git", "ls-files", *READ], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = sha256()
    for name in sorted(listed.splitlines()):
        if ROOT / name != STORED:
            found.update(f"{name} {sha256((ROOT / name).read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


if __name__ == "__main__":
    if "--store" in sys.argv:
        STORED.write_text(digest() + "\n")
    raise SystemExit(0 if STORED.is_file() and STORED.read_text().strip() == digest() else 1)

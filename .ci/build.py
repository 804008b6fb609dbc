"""Wheel and sdist of the product, of what reads traces and of the lab, built twice: `python .ci/build.py dist`.

They are built here, and once more from a copy of what git has, in another folder. Both must be the same to the byte.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]


def git(*arguments: str) -> str:
    """What git says of this repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def build(source: Path, output: Path) -> dict[str, str]:
    """The digests of all six, by their names. Each wheel is built from its sdist."""
    clock = os.environ | {"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct").strip()}
    for folder in (source, source / "traces", source / "lab"):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(folder)]
        run = subprocess.run(command, env=clock, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert run.returncode == 0, run.stdout
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(output.glob("camdf*"))}


def copy(target: Path) -> Path:
    """What git has of this folder, as it is now."""
    for name in git("ls-files").splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


if __name__ == "__main__":
    dist = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first"
        again = Path(folder) / "again"
        built = build(ROOT, first)
        assert len(built) == 6, built
        assert built == build(copy(Path(folder) / "copy"), again), "The same commit gave other bytes."
        dist.mkdir(parents=True, exist_ok=True)
        for name, digest in built.items():
            shutil.copy(first / name, dist)
            print(f"{digest}  {name}")

"""The image of deploy/Containerfile, built and run where no registry can be reached.

sudo python benchmarks/image.py --json results/image.json      about five minutes; needs buildah and debootstrap

The base is Debian by debootstrap in place of a slim image of Python. The image is run as it says it wants to be (its
user, its entry point, its settings) with a root file system that is read-only, in a mount namespace of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
PACKAGES = "ca-certificates,python3,python3-venv"
CONFIGURATION = (
    '[server]\nport = 0\n\n[gate]\npolicy = "cold-start"\ncost_pressure = 0.06\nallow_cuts_without_search = true\n'
)
ASKED = {"ranking": [{"name": "search", "score": 0.9}, {"name": "mail", "score": 0.1}]}

ENTER = """
set -e
mount --bind "$1" "$1"
mount --bind "$2" "$1/etc/camdf"
mount --bind "$3" "$1/var/lib/camdf"
mount -o remount,bind,ro "$1"
mount -o remount,bind,ro "$1/etc/camdf"
root="$1" user="$4" && shift 4
exec chroot --userspec="$user" "$root" env -i "$@"
"""
"""Root, configuration, state, user, and then settings and a command."""


class Buildah:
    """Builds in a folder of its own, and leaves the machine's images alone."""

    def __init__(self, folder: Path) -> None:
        self._options = ["--storage-driver", "vfs", "--root", f"{folder}/store", "--runroot", f"{folder}/run"]

    def __call__(self, command: str, *arguments: str) -> str:
        run = subprocess.run(["buildah", *self._options, command, *arguments], stdout=subprocess.PIPE, text=True)
        if run.returncode:
            raise SystemExit(f"buildah {command} failed.")
        return run.stdout.strip()


def measured(folder: Path, mirror: str) -> dict[str, Any]:
    """Build a base and the image, run it, and ask it."""
    buildah = Buildah(folder)
    base = folder / "base"
    context = folder / "context"
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(base), mirror]
    subprocess.run(command, check=True, stdout=sys.stderr)
    buildah("copy", buildah("from", "scratch"), str(base), "/")
    buildah("commit", "-q", "working-container", "localhost/base")
    wheel = [sys.executable, "-m", "build", "--wheel", "--outdir", str(context / "dist"), str(ROOT)]
    subprocess.run(wheel, check=True, stdout=sys.stderr)
    (context / "deploy").mkdir()
    (context / "deploy" / "requirements.txt").write_bytes((ROOT / "deploy" / "requirements.txt").read_bytes())
    options = ["--isolation", "chroot", "--network", "host", "--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
    options += ["--build-arg", "BASE=localhost/base", "-f", str(CONTAINERFILE), "-t", "localhost/camdf"]
    buildah("build", "-q", *options, str(context))
    wants = json.loads(buildah("inspect", "--type", "image", "localhost/camdf"))["OCIv1"]["config"]
    sizes = {each["names"][0]: each["size"] for each in json.loads(buildah("images", "--json")) if each.get("names")}
    root = buildah("mount", buildah("from", "localhost/camdf"))
    return {
        "containerfile": sha256(CONTAINERFILE.read_bytes()).hexdigest(),
        "user": wants["User"],
        "base": sizes["localhost/base:latest"],
        "image": sizes["localhost/camdf:latest"],
        **run(folder, root, wants),
    }


def run(folder: Path, root: str, wants: dict[str, Any]) -> dict[str, Any]:
    """What the image answers, as the user that it names, and whether it could write to its root."""
    configuration = folder / "configuration"
    state = folder / "state"
    configuration.mkdir()
    (configuration / "camdf.toml").write_text(CONFIGURATION, encoding="utf-8")
    state.mkdir()
    user = wants["User"]
    os.chown(state, *map(int, user.split(":")))
    enter = ["unshare", "--mount", "sh", "-c", ENTER, "sh", root, str(configuration), str(state), user, *wants["Env"]]
    writes = subprocess.run([*enter, "touch", "/opt/camdf/written"], capture_output=True, check=False)
    service = subprocess.Popen([*enter, *wants["Entrypoint"], *wants["Cmd"]], stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    try:
        address = service.stdout.readline().split()[-1]
        body = json.dumps(ASKED).encode()
        asked = urllib.request.Request(f"{address}/v1/decide", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            kept = json.load(answer)["kept"]
        owner = Path(f"/proc/{service.pid}/status").read_text(encoding="utf-8")
        (number,) = re.findall(r"^Uid:\s+(\d+)", owner, flags=re.M)
    finally:
        service.send_signal(signal.SIGTERM)
        code = service.wait(60)
    return {
        "ran as": int(number),
        "root file system": "read-only" if b"Read-only file system" in writes.stderr else "could be written",
        "kept": kept,
        "ended with": code,
        "state": sorted(each.name for each in state.iterdir()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="of Debian (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where to store what was measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        found = measured(Path(place), options.mirror)
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

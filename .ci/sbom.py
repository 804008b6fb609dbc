"""Write a bill of materials in CycloneDX's JSON: what the wheel and its extras install.

`make sbom` writes dist/camdf.cdx.json. It needs `pip install uv cyclonedx-bom`. The versions are the newest that all
extras can share, for the platform and the Python that it runs on. `dev` and `site`, which are for work on the package,
are left out.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

output = Path(sys.argv[1])
output.parent.mkdir(exist_ok=True)
programs = Path(sys.executable).parent
project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in {"dev", "site"}}

with tempfile.TemporaryDirectory() as folder:
    locked = Path(folder) / "requirements.txt"
    chosen = [word for name in extras for word in ("--extra", name)]
    quiet = ["--quiet", "--no-header", "--no-annotate", "--output-file", str(locked)]
    subprocess.run([programs / "uv", "pip", "compile", "pyproject.toml", *chosen, *quiet], check=True)
    about = ["--pyproject", "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
    subprocess.run([programs / "cyclonedx-py", "requirements", *about, "-o", output, locked], check=True)

bom = json.loads(output.read_text(encoding="utf-8"))
bom["metadata"]["component"]["version"] = runpy.run_path("src/camdf/_version.py")["__version__"]
named = {re.split(r"[\[<>=;! ]", need)[0] for needs in [project["dependencies"], *extras.values()] for need in needs}
references = {component["name"]: component["bom-ref"] for component in bom["components"]}
(root,) = (each for each in bom["dependencies"] if each["ref"] == bom["metadata"]["component"]["bom-ref"])
root["dependsOn"] = sorted(references[name] for name in named - {"camdf"})  # one that was not resolved is an error
output.write_text(json.dumps(bom, indent=2) + "\n", encoding="utf-8")
print(f"{output}: {len(bom['components'])} components, {len(root['dependsOn'])} of them named in pyproject.toml")

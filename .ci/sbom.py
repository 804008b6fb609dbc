"""Write a bill of materials in CycloneDX's JSON: what the wheel and its extras install.

`make sbom` writes dist/camdf.cdx.json, once it is valid by CycloneDX's schema. It needs what is in
`.github/release-requirements.txt`. Each extra is resolved by itself, to the newest versions for the platform and the
Python that it runs on: frameworks disagree about versions, so a package may be there more than once. camdf-traces comes
from dist, where `make build` has put it. `dev` and `site`,
which are for work on the package, are left out.
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

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

output = Path(sys.argv[1])
output.parent.mkdir(exist_ok=True)
programs = Path(sys.executable).parent
project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in {"dev", "site"}}

resolved = set[str]()
for name in extras:
    command = [programs / "uv", "pip", "compile", "pyproject.toml", "--extra", name, "--find-links", "dist", "--quiet"]
    command += ["--no-header", "--no-annotate"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    resolved |= {line for line in told.splitlines() if not line.startswith("camdf==")}

with tempfile.TemporaryDirectory() as folder:
    locked = Path(folder) / "requirements.txt"
    locked.write_text("\n".join(sorted(resolved)), encoding="utf-8")
    about = ["--pyproject", "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
    subprocess.run([programs / "cyclonedx-py", "requirements", *about, "-o", output, locked], check=True)

bom = json.loads(output.read_text(encoding="utf-8"))
bom["metadata"]["component"]["version"] = runpy.run_path("src/camdf/_version.py")["__version__"]
named = {re.split(r"[\[<>=;! ]", need)[0] for needs in [project["dependencies"], *extras.values()] for need in needs}
components = {component["name"] for component in bom["components"]}
assert named - {"camdf"} <= components, f"not resolved: {named - {'camdf'} - components}"
(root,) = (each for each in bom["dependencies"] if each["ref"] == bom["metadata"]["component"]["bom-ref"])
root["dependsOn"] = sorted(component["bom-ref"] for component in bom["components"] if component["name"] in named)
text = json.dumps(bom, indent=2) + "\n"
refused = JsonStrictValidator(SchemaVersion.from_version(bom["specVersion"])).validate_str(text)
assert refused is None, refused
output.write_text(text, encoding="utf-8")
print(f"{output}: {len(bom['components'])} components, {len(root['dependsOn'])} of them named in pyproject.toml, valid")

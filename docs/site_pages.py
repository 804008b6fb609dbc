"""Pages of the site that stand elsewhere or are generated: README, the reference from docstrings, files of code."""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from collections.abc import Iterator
from os.path import normpath, relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
ELSEWHERE |= {"SECURITY.md": "security.md", "lab/README.md": "lab/index.md", "traces/README.md": "traces/index.md"}
"""Pages of the repository, and where the site has them."""

FOLDERS = {"docs/": "", "lab/docs/": "lab/", "traces/docs/": "traces/"}
"""Folders of pages and pictures, and where the site has them; the first is the site's own."""

ADAPTERS = {
    f"camdf.integrations.{path.stem}": "ToolGate"
    for path in sorted((ROOT / "src" / "camdf" / "integrations").glob("[!_]*.py"))
    if path.stem != "chat"
}
ADAPTERS["camdf.integrations.fastmcp"] = "ToolGate Authorized"
ADAPTERS["camdf.integrations.llama_index"] = "ToolGate Retrieved"

REFERENCE = {
    "Gate": {
        "camdf.gate.gate": "Gate",
        "camdf.gate.decision": "GateDecision",
        "camdf.gate.settings": "Guards Limits Rollout Records",
        "camdf.gate.ranking": "Ranked",
        "camdf.gate.worth": "worth Conversation Cost",
        "camdf.runtime.breaker": "Breaker",
    },
    "Adapters": ADAPTERS | {"camdf.integrations.conformance": "check_adapter"},
    "Service": {"camdf.service.config": "", "camdf.service.shapes": ""},
    "Scorers and prices": {
        "camdf.scorers.start": "Start",
        "camdf.scorers.bm25": "BM25 word_parts",
        "camdf.scorers.embeddings": "Embeddings",
        "camdf.scorers.necessity": "Necessity",
        "camdf.scorers.fusion": "Fusion",
        "camdf.scorers.trust_aware": "TrustAware",
        "camdf.prices": "Prices ToolStatistics",
        "camdf.tools": "Tool view",
    },
    "Policies": {
        "camdf.policies.by_set": "ExpectedPayoffBySet",
        "camdf.policies.cold_start": "cold_start",
        "camdf.policies.camdf": "CAMDF CAMDFLite",
        "camdf.policies.rules": "",
        "camdf.policies.pressure": "pressure_for_sufficiency pressure_for_budget pressure_for_tools",
        "camdf.core.rankings": "Rankings LoggedTasks",
        "camdf.core.payoff": "Payoff",
        "camdf.core.decisions": "Decisions",
    },
    "Data and evaluation": {
        "camdf.datasets.files": "",
        "camdf.datasets.sample": "",
        "camdf.evaluation.assess": "assess Assessment",
        "camdf.evaluation.compare": "compare",
        "camdf.evaluation.shadow": "shadow_report",
        "camdf.errors": "",
    },
}
"""The modules of the reference, a page each, with the names that users call; all of them where none are named."""

CODE = tuple(
    f"{folder}/" for folder in ("src", "lab/src", "traces/src", "examples", "tests", "benchmarks", "scripts", "deploy")
)
"""Folders whose files the site shows where a page links to them."""

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)]*)?\)")


def on_config(config: Any) -> Any:
    """Add the addresses of pyproject.toml, and the pages of the reference to their part of the navigation.

    With a version in SITE_VERSION the site is one of several, each in its folder, and offers the others.
    """
    addresses = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    config.site_url = addresses["Documentation"]
    config.repo_url = addresses["Source"]
    config.repo_name = "Source"
    config.edit_uri = "edit/main/docs/"
    if version := os.environ.get("SITE_VERSION"):
        config.site_url += f"{version}/"
        config.extra["version"] = {"provider": "mike"}
    (entries,) = (part["Reference"] for part in config.nav if "Reference" in part)
    entries[2:2] = [{group: list(map(_page_of_module, modules))} for group, modules in REFERENCE.items()]
    return config


def _page_of_module(module: str) -> str:
    return f"reference/{module}.md"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that do not stand in `docs`."""
    others = (*sorted(ROOT.glob("lab/docs/**/*.*")), *sorted(ROOT.glob("traces/docs/*.md")))
    for path in (*map(ROOT.joinpath, ELSEWHERE), *others):
        source = path.relative_to(ROOT).as_posix()
        if path.suffix == ".md":
            content = _linked(path.read_text(encoding="utf-8"), source)
            files.append(_generated(config, _place(source), source, content=content))
        else:
            files.append(_generated(config, _place(source), source, abs_src_path=str(path)))
    parts = ["# Reference", "What a gate takes, and the keys of the service's file, are on [Settings](../settings.md)."]
    for group, modules in REFERENCE.items():
        parts.append(f"## {group}\n")
        for module in modules:
            parts.append(f"- [`{module}`]({module}.md): {_first_line(module)}")
            content = f"# {module}\n\n::: {module}\n"
            if names := modules[module]:
                content += f"    options:\n      members: [{', '.join(names.split())}]\n"
            source = _file_of_module(module).relative_to(ROOT).as_posix()
            files.append(_generated(config, _page_of_module(module), source, content=content))
        parts.append("")
    written_here = Path(__file__).relative_to(ROOT).as_posix()
    files.append(_generated(config, "reference/index.md", written_here, content="\n".join(parts) + "\n"))
    folders = ("docs/**/*.md", "lab/docs/*.md", "traces/docs/*.md")
    written = (*(path for folder in folders for path in ROOT.glob(folder)), *map(ROOT.joinpath, ELSEWHERE))
    for name in sorted({name for page in written for name in _linked_code(page)}):
        content = _notebook(name) if name.endswith(".ipynb") else _listing(name)
        files.append(_generated(config, _code(name), name, content=content))
    return files


def _generated(config: Any, place: str, source: str, **content: str) -> File:
    """A page or picture at this place of the site, which is edited where the repository has its source."""
    from mkdocs.structure.files import File

    file = File.generated(config, place, **content)
    file.edit_uri = f"../{source}"
    return file


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to what stands outside of `docs` lead to the site's own copies."""
    if page.file.generated_by is not None:
        return markdown
    return _linked(markdown, f"docs/{page.file.src_uri}")


def on_post_page(output: str, **_: Any) -> str:
    """The link to the repository stays, and its script, which would ask GitHub for the count of stars, is not begun."""
    return output.replace(' data-md-component="source"', "")


on_post_template = on_post_page


def _linked_code(page: Path) -> Iterator[str]:
    """The files of code that a page of the repository links to, by their paths in it."""
    for linked in re.findall(r"\]\(([^)#\s:]+)", page.read_text(encoding="utf-8")):
        name = relpath(page.parent / linked, ROOT)
        if name.startswith(CODE) and (ROOT / name).is_file():
            yield name


def _file_of_module(module: str) -> Path:
    path = ROOT / "src" / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _first_line(module: str) -> str:
    """What a module is for, as its docstring begins."""
    tree = ast.parse(_file_of_module(module).read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def _linked(markdown: str, source: str) -> str:
    """The text of a page of the repository, with links between places of the site."""
    here = Path(_place(source)).parent

    def target(match: re.Match[str]) -> str:
        name = normpath(Path(source).parent / match[1])
        found = _place(name)
        if not found:
            return match[0]
        anchor = match[2] or ""
        if found.startswith("code/") or not found.endswith(".md"):
            anchor = ""
        return f"]({relpath(found, here)}{anchor})"

    return LINK.sub(target, re.sub(r"^```(\w+) no-run", r"```\1", markdown, flags=re.M))


def _place(name: str) -> str:
    """Where the site has a file of the repository; nowhere if there is no such file."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    for folder, there in FOLDERS.items():
        if name.startswith(folder):
            return there + name.removeprefix(folder)
    if (ROOT / name).is_file():
        return _code(name)
    return ""


def _code(name: str) -> str:
    return f"code/{name}.md"


def _listing(name: str) -> str:
    languages = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".js": "javascript", ".json": "json"}
    content = (ROOT / name).read_text(encoding="utf-8")
    kind = languages.get(Path(name).suffix, "text")
    return f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n````{kind}\n{content}\n````\n"


def _notebook(name: str) -> str:
    """A notebook as a page: its words, its code, and what the code printed and drew."""
    parts = ["---\nsearch: {exclude: true}\n---"]
    for cell in json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "markdown":
            source = f"```python\n{source}\n```"
        parts.append(source)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text" in output:
                parts.append(f"```text\n{''.join(output['text'])}```")
            elif "image/svg+xml" in data:
                parts.append(f"<div>{''.join(data['image/svg+xml'])}</div>")
            elif "image/png" in data:
                png = "".join(data["image/png"]).replace("\n", "")
                parts.append(f"![What the code above draws](data:image/png;base64,{png})")
    return "\n\n".join(parts) + "\n"

"""Documents that say where things are: every file that they name, every link between pages, drawings and tables."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import pytest

from camdf.gate import Limits, Rollout
from camdf.runtime.settings import Settings
from camdf.service.config import GateSettings, RolloutOfFile

ROOT = Path(__file__).parents[2]
CONTRIBUTING, GLOSSARY = ROOT / "CONTRIBUTING.md", ROOT / "docs" / "glossary.md"
THEORY, DRAWING = ROOT / "lab" / "docs" / "theory.md", ROOT / "docs" / "pictures" / "layers.svg"
PAGES = [*(page for folder in (ROOT, ROOT / "lab", ROOT / "traces") for page in sorted(folder.glob("*.md")))]
PAGES += [page for folder in ("docs", "lab/docs", "traces/docs") for page in sorted((ROOT / folder).rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
OURS = re.compile(r"(?:lab|traces|src|tests|docs|examples|scripts|benchmarks|\.ci)/[\w./*-]+|[\w-]+\.(?:md|toml)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_every_file_that_contributing_names_is_there() -> None:
    code = [code for code in re.findall(r"`([^`\n]+)`", text(CONTRIBUTING)) if "PAGE" not in code]
    named = {name for each in code for name in OURS.findall(each)}
    assert len(named) > 15
    assert [name for name in sorted(named) if not any(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_on_the_page_leads_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(text(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != CONTRIBUTING], ids=lambda page: page.stem)
def test_code_on_a_page_fits_80_columns(page: Path) -> None:
    blocks = re.findall(r"^```(\w*).*?\n(.*?)^```", text(page), flags=re.M | re.S)
    code = [lines for language, lines in blocks if language != "text" and not lines.startswith("$ ")]
    wide = [line for lines in code for line in lines.splitlines() if len(line) > 80]
    assert wide == []


def anchors(page: Path) -> set[str]:
    """What a link to a heading of the page may name."""
    heads = re.findall(r"^#+ (.+)$", text(page), flags=re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


# The drawing of the layers.


def layers_of(part: ElementTree.Element, package: str = "camdf") -> dict[str, list[str]]:
    """The layers that a drawing shows, by package, as import-linter writes them; read from boxes and names alone."""
    found, layers = dict[str, list[str]](), list[str]()
    for layer in part.findall("{*}g[@class='layer']"):
        boxes = []
        for box in layer.findall("{*}g[@class='box']"):
            (name,) = box.findall("{*}text[@class='name']")
            boxes.append((name.text or "").removesuffix("/").removesuffix(".py").replace(", ", " : "))
            found |= layers_of(box, f"{package}.{boxes[-1]}")
        layers.append(" | ".join(boxes))
    return {package: layers, **found} if layers else {}


def test_the_drawing_shows_the_layers_of_the_import_contracts_and_no_others() -> None:
    contracts = tomllib.loads(text(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = {each["containers"][0]: each["layers"] for each in contracts if "containers" in each}
    for other in ("camdf_lab", "camdf_traces"):  # a drawing of the product
        layers.pop(other)
    assert len(layers) > 2
    assert layers_of(ElementTree.fromstring(text(DRAWING))) == layers


def test_the_tables_of_settings_are_what_the_code_says() -> None:
    page = text(ROOT / "docs" / "settings.md")
    written = runpy.run_path(str(ROOT / "docs" / "settings_table.py"))["written"]
    assert page == written(page), "python docs/settings_table.py writes them"
    assert GateSettings.limits == Limits(seconds=2.0), "the page names what the service sets otherwise"
    assert "`limits.seconds` is 2.0" in page


def test_every_class_of_settings_stands_once_among_the_tables() -> None:
    tables = runpy.run_path(str(ROOT / "docs" / "settings_table.py"))["TABLES"]
    drawn = [kind.__name__ for kinds in tables.values() for kind in kinds.values()]
    parts = {"ToolStatistics": "what traces say", "RolloutOfFile": "the page has one table for both"}
    made = [kind.__name__ for kind in descendants(Settings) if kind.__module__.startswith("camdf.")]
    assert sorted([*drawn, *parts]) == sorted(made)


def descendants(kind: type[Settings]) -> list[type[Settings]]:
    """Every class that inherits from one."""
    children = kind.__subclasses__()
    return [*children, *(each for child in children for each in descendants(child))]


def test_a_file_and_a_program_have_the_same_defaults_of_a_rollout() -> None:
    in_file, in_code = ({field.name: field.default for field in fields(kind)} for kind in (RolloutOfFile, Rollout))
    assert in_code == in_file, "the page has one table for both"


def test_the_drawing_is_what_its_script_draws_and_each_layer_stands_below_the_one_before() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "layers_picture.py"))["picture"]()
    assert ElementTree.canonicalize(text(DRAWING)) == ElementTree.canonicalize(drawn)
    for part in ElementTree.fromstring(text(DRAWING)).iter():
        tops = [float(layer[0].attrib["y"]) for layer in part.findall("{*}g[@class='layer']")]
        assert tops == sorted(set(tops))


def test_the_pictures_of_evidence_are_drawn_from_what_is_stored() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "evidence_pictures.py"))
    for name, drawn in script["DRAWN"].items():
        assert text(ROOT / "docs" / "pictures" / f"{name}.svg") == drawn(), name


# The reference.


def called(module: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """What users call of a module, with the docstring that says what it takes: functions, classes, `Gate`'s methods."""
    path = ROOT / "src" / module.replace(".", "/")
    tree = ast.parse(text(path / "__init__.py" if path.is_dir() else path.with_suffix(".py")))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    if method.name == "__init__":
                        yield node.name, method, ast.get_docstring(node) or ""
                    elif node.name == "Gate" and not method.name.startswith("_"):
                        yield "Gate", method, ast.get_docstring(method) or ""


def test_the_reference_says_what_every_parameter_is() -> None:
    reference = runpy.run_path(str(ROOT / "docs" / "site_pages.py"))["REFERENCE"]
    unnamed = [
        f"{module}: {name} ({call.name}) does not say what {argument.arg} is"
        for modules in reference.values()
        for module, names in modules.items()
        for name, call, said in called(module)
        if name in names.split() and not said.startswith(("`decide`", "`find`", "The old name"))
        for argument in (*call.args.args, *call.args.kwonlyargs)
        if argument.arg not in ("self", "cls") and not re.search(rf"`{argument.arg}\b|^ *{argument.arg}: ", said, re.M)
    ]
    assert unnamed == [], unnamed


def test_every_name_of_the_reference_is_there() -> None:
    for modules in runpy.run_path(str(ROOT / "docs" / "site_pages.py"))["REFERENCE"].values():
        for module, names in modules.items():
            path = ROOT / "src" / module.replace(".", "/")
            code = text(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
            assert [name for name in names.split() if not re.search(rf"\b{name}\b", code)] == [], module


def test_the_page_of_prices_says_what_the_lab_measured() -> None:
    measured, said = text(ROOT / "lab" / "docs" / "prices.md"), " ".join(text(ROOT / "docs" / "prices.md").split())
    first = measured.partition("descriptions       tools")[2]
    every, kept = (re.search(rf"^{name} .*", first, re.M) for name in ("all 190", "camdf"))
    assert every
    assert kept
    before, after = (row[0].split()[-3] for row in (every, kept))
    assert f"{float(before):.4f} dollars a task become {float(after):.4f}" in said
    assert kept[0].split()[-2] == "100.0%"
    ratios = [float(ratio) for ratio in re.findall(r"^[a-z-]+ +(\d\.\d\d) definition$", measured, re.M)]
    assert f"{min(ratio for ratio in ratios if ratio > 1) - 1:.0%} to {max(ratios) - 1:.0%} too high" in said


# The theory.


def stated() -> dict[str, str]:
    """What the theory says below each of its statements."""
    parts = re.split(r"^#{2,3} (.+)\n", text(THEORY), flags=re.M)[1:]
    return {head: said for head, said in zip(parts[::2], parts[1::2], strict=True) if "**Statement.**" in said}


def named_files(paragraph: str) -> Iterator[tuple[Path, list[str]]]:
    """Every file that a paragraph links, with the names that stand before it: `name` and `other` in [`file`](link)."""
    names = list[str]()
    for name, shown, link in re.findall(r"`([A-Za-z_]\w*)[^`]*`(?!\])|\[`([^`]+)`\]\(([^)]+)\)", paragraph):
        if name:
            names.append(name)
        else:
            assert link in {f"../../{shown}", f"../../src/camdf/{shown}", f"../../src/camdf/policies/{shown}"}
            yield THEORY.parent / link, names
            names = []
    assert not names, "a name stands before the file that holds it"


def test_the_theory_has_every_statement_of_the_paper_under_its_number() -> None:
    numbered = re.findall(r"^### ((?:Theorem|Lemma|Proposition|Corollary) \d+): ", text(THEORY), flags=re.M)
    assert sorted(numbered) == [
        *("Lemma 1", "Lemma 2"),
        *("Proposition 1", "Proposition 2", "Proposition 3"),
        *("Theorem 1", "Theorem 2"),
    ]
    assert {head.partition(":")[0] for head in stated()} >= set(numbered)


@pytest.mark.parametrize("statement", stated())
def test_every_statement_of_the_theory_has_a_proof_the_code_that_uses_it_and_the_tests_that_try_it(
    statement: str,
) -> None:
    said = stated()[statement]
    paragraphs = {part.split("**")[1]: part for part in said.strip().split("\n\n") if part.startswith("**")}
    assert list(paragraphs) == ["In short.", "Statement.", "Proof.", "In the code.", "Checked by"]
    code, tests = (list(named_files(paragraphs[part])) for part in ("In the code.", "Checked by"))
    assert code
    assert tests
    for file, names in code:
        assert names
        for name in names:
            assert re.search(rf"\b{name}\b", text(file)), (name, file.name)
    for file, names in tests:
        assert file.resolve().is_relative_to(ROOT / "tests")
        assert names
        for name in names:
            assert f"\ndef {name}(" in text(file), (name, file.name)


def test_the_pages_that_users_read_first_link_the_glossary() -> None:
    readers = [
        ROOT / "README.md",
        *(ROOT / "docs" / f"{name}.md" for name in ("gate", "scorers", "prices")),
        *(ROOT / "docs" / "integrations").glob("*.md"),
    ]
    without = [page.name for page in readers if "glossary.md" not in text(page)]
    assert without == []


def test_the_glossary_explains_each_word_in_a_few_sentences() -> None:
    parts = re.split(r"^### (.+)\n", text(GLOSSARY), flags=re.M)[1:]
    words = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(words) * 2 == len(parts)
    for word, meaning in words.items():
        said = meaning.partition("\n## ")[0]
        assert 40 < len(said) < 420, word


def test_every_page_on_which_somebody_starts_has_one_recipe() -> None:
    adapters = [
        path for path in (ROOT / "docs" / "integrations").glob("*.md") if path.stem not in ("conformance", "vercel_ai")
    ]
    for path in (ROOT / "README.md", ROOT / "docs" / "first-day.md", ROOT / "docs" / "own-loop.md", *adapters):
        assert "Gate.start(" in text(path), path.name
        assert "Gate.for_target(" not in text(path), path.name

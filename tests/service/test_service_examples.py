"""Every configuration that pages, examples and deploy/ show starts, and so does each step that they tell to take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from camdf.service.config_file import tables_in
from camdf.service.store import ServedVersion, VersionStore
from running_service import folder_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")])
EXAMPLES = '{"text": "what is the weather", "needed": ["weather"]}\n'


def kubernetes() -> str:
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text("utf-8"))
    (data,) = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    return str(data["camdf.toml"])


def shown() -> Iterator[tuple[str, str]]:
    """Where a configuration is shown, and its text."""
    for page in PAGES:
        blocks = re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), flags=re.M | re.S)
        yield from ((f"{page.name}, {number}", block) for number, block in enumerate(blocks, start=1))
    for file in sorted(ROOT.glob("examples/**/camdf.toml")):
        if "node_modules" not in file.parts:
            yield file.parent.name, file.read_text("utf-8")
    yield "kubernetes.yaml", kubernetes()


SHOWN = dict(shown())


def started(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ServedVersion:
    """What serves a configuration, once the files and variables that it names are there."""
    folder_of(folder, text)
    configuration = tables_in(text, "camdf.toml")
    holders = [vars(configuration.server), *configuration.tenants.values()]
    for number, holder in enumerate(holders):
        if holder.get("token_variable"):
            monkeypatch.setenv(holder["token_variable"], f"the token of number {number}")
    for place in configuration.places():
        settings = configuration.settings(*place)
        rollout = settings.rollout
        files = {settings.examples: EXAMPLES, rollout.get("share"): "1.0", rollout.get("off"): "false"}
        if settings.privilege is not None:
            files[settings.privilege.file] = "{}"
        if settings.policy.endswith(".json"):
            files[settings.policy] = (folder / "policy.json").read_text("utf-8")
        for name, content in files.items():
            if isinstance(name, str) and name:
                (folder / name).write_text(content, encoding="utf-8")
    store = VersionStore(folder / "camdf.toml", folder / "state")
    assert not store.refusing
    return store.current


@pytest.mark.parametrize("where", SHOWN)
def test_every_configuration_that_is_shown_starts(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SHOWN[where]
    if where == "learning-loop.md, 1":
        text = text.replace("[learn]", "cost_pressure = 0.1\n\n[learn]")  # which a policy of camdf fit says itself
    assert started(text, tmp_path / "served", monkeypatch).places


STEPS = {
    "a route that is watched": '\n[routes.new]\nmode = "shadow"\n',
    "a tenant with a policy of its own": (
        '\n[tenants.acme]\ntoken_variable = "ACME"\n\n[tenants.globex]\ntoken_variable = "GLOBEX"\n'
        'policy = "globex.json"\ncost_pressure = 0.05\n'
    ),
    "both": (
        '\n[routes.new]\nmode = "shadow"\n\n[tenants.acme]\ntoken_variable = "ACME"\n'
        '[tenants.acme.routes.new]\npolicy = "globex.json"\ncost_pressure = 0.05\n'
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_each_next_step_from_the_example_for_kubernetes_starts(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = kubernetes().replace(
        'token_variable = "CAMDF_TOKEN"\n', "" if "tenants" in STEPS[step] else 'token_variable = "CAMDF_TOKEN"\n'
    )
    text = text.replace('host = "0.0.0.0"\n', "") + STEPS[step]
    served = started(text, tmp_path / "served", monkeypatch)
    assert {gate.settings.mode for (_, route), gate in served.places.items() if route == "new"} <= {"shadow"}

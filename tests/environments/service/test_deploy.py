"""What deploy/ holds, against the real service: the steps of the image, and all that the Kubernetes example names."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import camdf
from camdf.service.config import ServerSettings
from camdf.service.config_file import parsed
from camdf.service.learning import learn
from running_service import Running, folder_of, running

ROOT = Path(__file__).parents[3]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
IMAGE = json.loads((ROOT / "results" / "image.json").read_text("utf-8"))
TOKEN = "a token for the tests alone"


class Step(NamedTuple):
    """One instruction of the Containerfile."""

    stage: int
    does: str
    what: str


def steps() -> list[Step]:
    found, stage = list[Step](), 0
    for line in CONTAINERFILE.read_text("utf-8").replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            does, _, what = line.partition(" ")
            stage += does == "FROM"
            found.append(Step(stage, does, what))
    return found


def said(does: str, stage: int = 2) -> list[str]:
    return [each.what for each in steps() if (each.stage, each.does) == (stage, does)]


# The image.


def test_the_image_installs_only_what_is_locked_or_given_and_runs_as_nobody() -> None:
    installs = [what for what in said("RUN", 1) if "pip install" in what]
    assert len(installs) == 2
    assert all("--require-hashes" in what or "--no-deps --no-index" in what for what in installs)
    assert not [each for each in steps() if each.does == "ADD" or "http:" in each.what or "https:" in each.what]
    assert said("USER") == ["65532:65532"]
    (state,), (port,) = said("VOLUME"), said("EXPOSE")
    assert json.loads(said("CMD")[0]) == ["/etc/camdf/camdf.toml", "--state", state]
    assert int(port) == ServerSettings().port


def test_the_image_was_built_and_run_as_it_is_now() -> None:
    assert IMAGE["containerfile"] == sha256(CONTAINERFILE.read_bytes()).hexdigest(), "run benchmarks/image.py again"
    assert f"{IMAGE['ran as']}:{IMAGE['ran as']}" == IMAGE["user"] == said("USER")[0]
    assert IMAGE["root file system"] == "read-only"
    assert IMAGE["kept"] == ["search"]
    assert IMAGE["ended with"] == 0
    assert IMAGE["state"] == ["last-good.json", "outcomes.jsonl"]


def wheel(folder: Path) -> Path:
    """The package as a wheel: one that is there already (CAMDF_WHEEL), or a new one."""
    if "CAMDF_WHEEL" in os.environ:
        return Path(shutil.copy(os.environ["CAMDF_WHEEL"], folder))
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_steps_of_the_image_make_a_service_that_answers(tmp_path: Path) -> None:
    """The steps as they stand, with folders of this test in place of those of the image."""
    build, environment = tmp_path / "build", tmp_path / "environment"
    build.mkdir()
    shutil.copy(ROOT / "deploy" / "requirements.txt", build)
    wheel(build)
    for what in said("RUN", 1):
        here = what.replace("/opt/camdf", str(environment)).replace("/build", str(build))
        run = subprocess.run(["sh", "-ec", here], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
    program, serve = json.loads(said("ENTRYPOINT")[0])
    assert serve == "serve"
    clean = {"PYTHONPATH": "", "PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    folder = folder_of(
        tmp_path / "served",
        '[server]\nport = 0\n\n[gate]\npolicy = "cold-start"\ncost_pressure = 0.06\ntool_search = true\n',
    )
    with running(folder, program=(str(environment / "bin" / program),), settings=clean) as service:
        asked = {"ranking": [{"name": "search", "score": 0.9}, {"name": "mail", "score": 0.1}]}
        assert service.decide(asked)["kept"] == IMAGE["kept"]
        assert service.stop() == 0
    there = {path.name.partition("-")[0] for path in environment.rglob("*.dist-info")}
    assert not there & {"pip", "setuptools"}


# The audit.


def test_the_lock_is_audited_by_the_published_workflow() -> None:
    text = (ROOT / ".github" / "workflows" / "audit.yml").read_text("utf-8")
    workflow = yaml.safe_load(text)
    commands = [shlex.split(step["run"]) for step in workflow["jobs"]["audit"]["steps"] if "run" in step]
    (audit,) = [command for command in commands if command[0] == "pip-audit"]
    assert {"--require-hashes", "--strict"} <= set(audit)
    assert (ROOT / audit[audit.index("-r") + 1]).is_file()
    assert "schedule" in workflow[True], "'on', which YAML takes for true"


# Kubernetes.


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text("utf-8"))
    return {each["kind"]: each for each in documents}


@pytest.fixture(scope="module")
def pod(objects: dict[str, Any]) -> Any:
    return objects["StatefulSet"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod: Any) -> Any:
    (found,) = pod["containers"]
    return found


@pytest.fixture(scope="module")
def service(objects: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service of the example's own files, on a free port of this machine alone."""
    files = dict(objects["ConfigMap"]["data"])
    here = files.pop("camdf.toml").replace('host = "0.0.0.0"', "port = 0")
    folder = folder_of(tmp_path_factory.mktemp("served"), here)
    for name, content in files.items():
        (folder / name).write_text(content)
    with running(folder, settings={"CAMDF_TOKEN": TOKEN}) as service:
        yield service


def test_the_example_serves_and_its_probes_and_numbers_are_the_services(
    objects: dict[str, Any], container: Any, service: Running
) -> None:
    probes = [container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for probe in probes:
        assert service.ask(probe["path"]).status == 200
        assert probe["port"] in ports
    (outside,), (scraped,) = objects["Service"]["spec"]["ports"], objects["ServiceMonitor"]["spec"]["endpoints"]
    assert outside["targetPort"] in ports
    assert scraped["port"] == outside["name"]
    metrics = service.ask(scraped["path"])
    assert metrics.status == 200
    scaled = objects["HorizontalPodAutoscaler"]["spec"]
    named = [each["pods"]["metric"]["name"] for each in scaled["metrics"] if each["type"] == "Pods"]
    assert named
    assert all(re.search(rf"^{name} ", metrics.body, flags=re.M) for name in named)
    asked = {"ranking": [{"name": "search", "score": 0.9}, {"name": "mail", "score": 0.1}]}
    assert service.ask("/v1/decide", asked).status == 401
    answer = service.decide(asked, Authorization=f"Bearer {TOKEN}")
    assert (answer["reason"], answer["mode"], answer["tools"]) == ("decided", "drop", ["search", "mail"])


def test_the_example_names_what_is_there(objects: dict[str, Any], pod: Any, container: Any) -> None:
    assert container["args"] == json.loads(said("CMD")[0])
    (port,) = container["ports"]
    text = objects["ConfigMap"]["data"]["camdf.toml"]
    document = tomllib.loads(text)
    assert port["containerPort"] == int(said("EXPOSE")[0]) == document["server"].get("port", ServerSettings().port)
    assert [each["name"] for each in container["env"]] == [document["server"]["token_variable"]]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    path, _, state = container["args"]
    assert mounts[str(Path(path).parent)]["readOnly"]
    claims = {each["metadata"]["name"] for each in objects["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    assert mounts[state]["name"] in claims, "outcomes outlive the copy that accepted them"
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget", "ServiceMonitor", "StatefulSet"):
        selector = objects[kind]["spec"]["selector"]
        assert selector.get("matchLabels", selector) == labels, kind
    assert objects["Service"]["metadata"]["labels"] == labels, "which is what the ServiceMonitor looks for"
    target = objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("StatefulSet", objects["StatefulSet"]["metadata"]["name"])


def test_a_promotion_finds_a_folder_in_which_it_can_replace_the_policy(
    objects: dict[str, Any], pod: Any, container: Any, tmp_path: Path
) -> None:
    (first,) = pod["initContainers"]
    text = objects["ConfigMap"]["data"]["camdf.toml"]
    (named,) = re.findall(r'policy = "(/.+?)"', text)
    folder = Path(named).parent
    writable = [Path(each["mountPath"]) for each in container["volumeMounts"] if not each.get("readOnly")]
    assert any(folder.is_relative_to(mount) for mount in writable)
    assert first["volumeMounts"] == container["volumeMounts"]
    assert first["securityContext"] == container["securityContext"]
    there, state = tmp_path / "etc", tmp_path / "state"
    there.mkdir()
    state.mkdir()
    shell, options, script = first["command"]
    here = script.replace("/etc/camdf", str(there)).replace("/var/lib/camdf", str(state))
    policy = state / Path(named).relative_to("/var/lib/camdf")

    def begin() -> None:
        subprocess.run([shell, options, here], check=True)

    begin()
    assert not policy.exists(), "the ConfigMap has none"
    camdf.save(camdf.TopK(1), there / "policy.json")
    begin()
    assert policy.read_bytes() == (there / "policy.json").read_bytes()
    camdf.save(camdf.TopK(2), policy)
    begin()
    assert camdf.load(policy) == camdf.TopK(2), "what was promoted stays"
    gate = f'[gate]\npolicy = "{policy}"\ncost_pressure = 0.1\n\n[learn]\n'
    (tmp_path / "camdf.toml").write_text(gate, encoding="utf-8")
    assert "No challenger yet" in learn(tmp_path / "camdf.toml", [state]).said[0]
    (version,) = policy.with_name("policy.json.learned").glob("*.json")
    assert version.read_bytes() == policy.read_bytes()


def test_the_example_drains_before_it_is_killed(
    objects: dict[str, Any], pod: Any, container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAMDF_TOKEN", TOKEN)
    server = parsed(objects["ConfigMap"]["data"]["camdf.toml"], "camdf.toml").server
    sleep, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert int(seconds) >= 2 * container["readinessProbe"]["periodSeconds"]
    assert pod["terminationGracePeriodSeconds"] >= int(seconds) + server.drain_seconds + 5


def test_the_example_may_do_no_more_than_it_needs(pod: Any, container: Any) -> None:
    user, group = map(int, said("USER")[0].split(":"))
    whole, own = pod["securityContext"], container["securityContext"]
    assert (whole["runAsNonRoot"], whole["runAsUser"], whole["runAsGroup"], whole["fsGroup"]) == (
        True,
        user,
        group,
        group,
    )
    assert own["readOnlyRootFilesystem"]
    assert not own["allowPrivilegeEscalation"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False
    stored = json.loads((ROOT / "results" / "service.json").read_text("utf-8"))
    megabytes = max(look["mb"] for look in stored["soak"]["looks"])
    assert float(container["resources"]["requests"]["memory"].removesuffix("Mi")) > 1.5 * megabytes

"""The configuration: an error names the key, its value and the remedy; what differs by tenant and route holds."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import camdf
from camdf.checks import sample_tasks
from camdf.errors import UsageError
from camdf.service.config import PriceSettings, RolloutSettings
from camdf.service.config_file import parsed
from camdf.service.gates import prices_of
from camdf.service.store import Versions
from running_service import SECONDS, folder_of

GATE = '[gate]\npolicy = "cold-start"\ncost_pressure = 0.1\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gate", r"camdf\.toml is not TOML: .* Correct that line\."),
        ("", r"gate has no policy\. Set gate\.policy to a file that camdf fit wrote"),
        (
            GATE.replace("0.1", '"high"'),
            r"the key gate\.cost_pressure is 'high': expected `float`, got `str`\. Correct",
        ),
        (GATE.replace("0.1", "-1"), r"the key gate\.cost_pressure is -1: expected `float` >= 0"),
        (GATE + "zzz = 1\n", r"the key gate\.zzz is not known\. Known there: allow, at_least"),
        (GATE + "cost_presure = 1\n", r"the key gate\.cost_presure is not known\. Did you mean cost_pressure\?"),
        (GATE + "[sever]\nport = 1\n", r"the key sever is not known\. Did you mean server\?"),
        (GATE + "[server]\nport = 70000\n", r"the key server\.port is 70000: expected `int` <= 65535"),
        (GATE + '[server]\nhost = "0.0.0.0"\n', r"server\.host is '0\.0\.0\.0', where others can reach the service"),
        (
            GATE + '[routes.support]\nmode = "cut"\n',
            r"the key routes\.support\.mode is 'cut': it must be one of 'drop',",
        ),
        (
            GATE + '[routes.support]\nscorer = "bm52"\n',
            r"is 'bm52': it must be one of 'bm25', 'start', 'none'\. Correct",
        ),
        (GATE + "[tenants.acme]\nexplore = 2\n", r"the key tenants\.acme\.explore is 2"),
        (GATE + "[tenants.acme]\npinned = []\n", r"tenants\.acme has no token.* Set tenants\.acme\.token_variable"),
        (GATE + '[tenants.acme]\ntoken_variable = "NO_SUCH"\n', r"'NO_SUCH'.* at least 16 characters\. It holds 0"),
        (GATE + '[server]\ntoken_sha256 = "a secret"\n', r"server\.token_sha256 is '\(not shown\)'"),
        (GATE + "[tenants]\nacme = 1\n", r"tenants must hold tables, as \[tenants\.support\]\. 'acme' is none"),
        (GATE + '["routes"."a b"]\n', r"routes has the name 'a b'"),
        (GATE + "task_worth = 0.4\n", r"gate has both cost_pressure and task_worth"),
        (
            GATE + '[gate.scorer]\nkind = "llm"\n',
            r"gate\.scorer asks a language model at url '' and model ''. Name both",
        ),
        (GATE + "[gate.rollout]\nshare = 2\n", r"the key gate\.rollout\.share is 2: expected `float` <= 1"),
        (GATE + "[gate.rollout]\nshare = true\n", r"gate\.rollout\.share is True: expected `.*`, got `bool`"),
        (GATE + "[gate.rollout]\noff = 1\n", r"gate\.rollout\.off is 1: expected `.*`, got `int`"),
        (GATE + "[routes.a.rollout]\nshares = 1\n", r"routes\.a\.rollout\.shares is not known\. Did you mean share\?"),
        (GATE + "[gate.rollout]\nevery_seconds = 0\n", r"gate\.rollout\.every_seconds is 0: expected `float` > 0"),
        (
            GATE + '[routes.a]\nmode = "shadow"\n[gate.rollout]\nshare = 0.2\n',
            r"routes\.a has mode 'shadow', which cuts for nobody, and a rollout.* Leave one of them out",
        ),
        (GATE + "[learn]\npatiense = 1\n", r"the key learn\.patiense is not known\. Did you mean patience\?"),
        (GATE + "[gate.prices]\ncashed = 1\n", r"the key gate\.prices\.cashed is not known\. Did you mean cached\?"),
    ],
)
def test_an_error_names_the_key_its_value_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parsed(text, "camdf.toml")


def test_the_most_special_setting_decides_and_allow_lists_all_hold() -> None:
    text = (
        GATE
        + 'allow = ["a", "b", "c"]\n'
        + "[routes.support]\ncost_pressure = 0.2\n"
        + f'[tenants.acme]\ntask_worth = 0.5\nallow = ["b", "d"]\ntoken_sha256 = "{"0" * 64}"\n'
        + '[tenants.acme.routes.support]\nmode = "shadow"\nallow = ["b", "a"]\n'
    )
    found = parsed(text, "camdf.toml")
    assert found.places() == [("acme", ""), ("acme", "support")]
    settings = found.settings("acme", "support")
    assert (settings.task_worth, settings.mode, settings.allow) == (0.5, "shadow", ["b"])
    assert repr(settings.cost_pressure) == "UNSET"


def test_prices_that_are_left_out_are_those_of_the_library() -> None:
    settings = parsed(GATE + "[gate.prices]\nuncached = 5.0\nmisuse = 0\n", "camdf.toml").settings("", "")
    assert settings.prices == PriceSettings(uncached=5.0, misuse=0.0)
    assert prices_of(settings.prices) == camdf.Prices(uncached=5.0, misuse=0.0)
    assert PriceSettings().said() == {}


def test_a_share_on_a_route_leaves_the_kill_switch_of_all_in_place() -> None:
    text = (
        GATE
        + '[gate.rollout]\noff = "gate-off"\nsalt = "first"\n'
        + "[routes.support.rollout]\nshare = 0.2\n"
        + '[tenants.acme]\ntoken_sha256 = "'
        + "0" * 64
        + '"\n'
        + '[tenants.acme.routes.support.rollout]\nsalt = "second"\n'
    )
    rollout = parsed(text, "camdf.toml").settings("acme", "support").rollout
    assert rollout == RolloutSettings(share=0.2, off="gate-off", salt="second")


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ('[gate]\npolicy = "missing.json"\n', "Cannot read the policy missing.json: No such file"),
        ('[gate]\npolicy = "policy.json"\nsha256 = "' + "0" * 64 + '"\n', "Put the file there that was meant"),
        ('[gate]\npolicy = "camdf.toml"\n', "This file is not a usable policy: it is not JSON"),
        ('[gate]\npolicy = "cold-start"\n', "gate.cost_pressure is not set"),
        ('[gate]\npolicy = "memory://nothing.json"\n', "Cannot read the policy memory://nothing.json"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path, configuration: str, said: str) -> None:
    folder = folder_of(tmp_path / "served", configuration)
    with pytest.raises(camdf.CamdfError, match=said):
        Versions(folder / "camdf.toml", folder / "state")


def test_a_policy_may_stand_behind_a_url_of_the_operator(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    text = f'[gate]\npolicy = "file://{folder / "policy.json"}"\ncost_pressure = 0.06\n'
    (folder / "camdf.toml").write_text(text, encoding="utf-8")
    store = Versions(folder / "camdf.toml", folder / "state")
    assert store.current.places["", ""].gate.policy.kind == "expected-payoff-by-set"


def test_one_policy_serves_with_the_defaults_at_the_payoff_that_it_was_fitted_for(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    camdf.save(camdf.CAMDF().fit(sample_tasks(1), camdf.Payoff(0.3)), folder / "own.json")
    store = Versions(folder / "own.json", folder / "state")
    assert store.current.places["", ""].gate.payoff == camdf.Payoff(0.3)
    assert store.current.configuration.server.host == "127.0.0.1"
    with pytest.raises(UsageError, match=r"gate\.cost_pressure is not set"):
        Versions(folder / "policy.json", folder / "elsewhere")


ASYNCIO = (
    sys.executable,
    "-c",
    "import sys; sys.modules['uvloop'] = None; from camdf.cli import main; sys.exit(main())",
)
"""The command where uvloop is not installed."""


def refusal(folder: Path, program: Sequence[str] = (sys.executable, "-m", "camdf")) -> str:
    """The one line that the command says where it does not start."""
    command = [*program, "serve", "camdf.toml"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert run.returncode == 2, run.stderr
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    return line


def test_the_command_says_in_a_line_why_it_does_not_start(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", GATE.replace("0.1", '"high"'))
    assert refusal(folder).startswith("camdf: camdf.toml: the key gate.cost_pressure is 'high'")


@pytest.mark.parametrize("program", [(sys.executable, "-m", "camdf"), ASYNCIO], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("listens", [True, False])
def test_a_port_that_is_taken_is_said_with_the_remedy(tmp_path: Path, program: Sequence[str], listens: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen()
        port = taken.getsockname()[1]
        folder = folder_of(tmp_path / "served", f"{GATE}[server]\nport = {port}\n")
        assert refusal(folder, program) == (
            f"camdf: Port {port} of 127.0.0.1 is taken. Stop what listens there, or configure another server.port."
        )


@pytest.mark.parametrize(
    ("host", "why"), [("192.0.2.1", "Cannot assign requested address"), ("no.such.host.invalid", ".+")]
)
def test_a_host_that_is_not_here_is_said_with_the_remedy(tmp_path: Path, host: str, why: str) -> None:
    server = f'[server]\nhost = "{host}"\ntoken_sha256 = "{"0" * 64}"\n'
    said = refusal(folder_of(tmp_path / "served", GATE + server))
    assert re.fullmatch(rf"camdf: Cannot listen on port 8080 of {host}: {why}\. Correct server\.host or .+\.", said), (
        said
    )

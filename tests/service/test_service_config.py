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
from camdf.gate.append import channel_of
from camdf.policies.training import Training
from camdf.prices import Prices
from camdf.service.config_file import parsed
from camdf.service.gates import gate_of
from camdf.service.store import VersionStore
from running_service import SECONDS, folder_of
from saying import refuses, says

GATE = '[gate]\npolicy = "cold-start"\ncost_pressure = 0.1\ntool_search = true\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gate", "camdf.toml is not TOML: … Correct that line."),
        (
            GATE.replace("0.1", '"high"'),
            "gate.cost_pressure … number … 0 … high",
        ),
        (GATE.replace("0.1", "-1"), "gate.cost_pressure … number … 0 … -1"),
        (GATE + "zzz = 1\n", "gate.zzz … allow_cuts_without_search"),
        (GATE + "cost_presure = 1\n", "gate.cost_presure … cost_pressure"),
        (GATE + "[sever]\nport = 1\n", "key sever … not known … mean server"),
        (GATE + "[server]\nport = 70000\n", "server.port … whole number … 0 … 65535 … 70000"),
        (GATE + '[server]\nhost = "0.0.0.0"\n', "server.host … 0.0.0.0"),
        (
            GATE + '[routes.support]\nmode = "cut"\n',
            "routes.support.mode … drop … append … defer … allow … shadow … cut",
        ),
        (
            GATE + '[routes.support]\nscorer = "bm52"\n',
            "routes.support.scorer … start … bm25 … none … None … bm52",
        ),
        (GATE + "[tenants.acme.rollout]\nexplore = 2\n", "key … tenants.acme.rollout.explore … share"),
        (
            GATE + "[tenants.acme]\nguards.pinned = []\n",
            "[tenants.acme] has no token … Set token_variable",
        ),
        (GATE + '[tenants.acme]\ntoken_variable = "NO_SUCH"\n', "NO_SUCH … 16 characters … 0"),
        (
            GATE + '[server]\ntoken_sha256 = "a secret"\n',
            "token_sha256 … 64 hexadecimal … digits … not",
        ),
        (GATE + "[tenants]\nacme = 1\n", "tables … tenants.support … acme"),
        (GATE + '["routes"."a b"]\n', "routes … a … b"),
        (GATE + "task_worth = 0.4\n", "[gate] has both cost_pressure and task_worth"),
        (
            GATE + '[gate.scorer]\nkind = "llm"\n',
            "gate.scorer … asks … language model",
        ),
        (
            GATE + "[gate.rollout]\nshare = 2\n",
            "gate.rollout.share … share … 0 … 1 … file … 2",
        ),
        (GATE + "[gate.rollout]\nshare = true\n", "gate.rollout.share must be a share … Got True"),
        (GATE + "[gate.rollout]\noff = 1\n", "gate.rollout.off … true … false … 1"),
        (GATE + "[routes.a.rollout]\nshares = 1\n", "routes.a.rollout.shares … not known … mean share"),
        (
            GATE + "[gate.rollout]\nevery = 0\n",
            "number … seconds above … 0 … 3600 … 0",
        ),
        (
            GATE + 'mode = "shadow"\n[routes.a.rollout]\nshare = 0.2\n',
            "routes.a … shadow",
        ),
        (GATE + "[learn]\npatiense = 1\n", "key … learn.patiense … not known"),
        (GATE + "[gate.prices]\ncashed = 1\n", "key … gate.prices.cashed … not known"),
    ],
)
def test_an_error_names_the_key_its_value_and_the_remedy(text: str, said: str) -> None:
    with refuses(UsageError, said):
        parsed(text, "camdf.toml")


def test_the_most_special_setting_decides_and_allow_lists_all_hold() -> None:
    text = (
        GATE
        + 'guards.allow = ["a", "b", "c"]\n'
        + "[routes.support]\ncost_pressure = 0.2\n"
        + f'[tenants.acme]\ntask_worth = 0.5\nguards.allow = ["b", "d"]\ntoken_sha256 = "{"0" * 64}"\n'
        + '[tenants.acme.routes.support]\nmode = "shadow"\nguards.allow = ["b", "a"]\n'
    )
    found = parsed(text, "camdf.toml")
    assert found.places() == [("acme", ""), ("acme", "support")]
    settings = found.settings("acme", "support")
    assert (settings.task_worth, settings.mode, settings.guards.allow) == (0.5, "shadow", {"b"})
    assert settings.cost_pressure is None


TENANT = f'[tenants.acme]\ntoken_sha256 = "{"0" * 64}"\n'


def test_a_table_takes_nothing_over_of_what_it_unsets() -> None:
    text = (
        GATE
        + 'examples = "past.jsonl"\nguards.pinned = ["help"]\nrollout.share = 0.2\nrollout.off = "gate-off"\n'
        + "[gate.prices]\nuncached = 5.0\n"
        + TENANT
        + 'unset = ["prices", "rollout", "cost_pressure", "examples"]\nrollout.salt = "own"\ntask_worth = 2.0\n'
        + '[tenants.acme.routes.chat]\nunset = ["task_worth"]\ncost_pressure = 0.3\n'
    )
    configuration = parsed(text, "camdf.toml")
    own = configuration.settings("acme", "")
    assert (own.prices, own.rollout, own.examples) == (None, {"salt": "own"}, "")
    assert (own.cost_pressure, own.task_worth, own.guards.pinned) == (None, 2.0, {"help"})
    chat = configuration.settings("acme", "chat")
    assert (chat.cost_pressure, chat.task_worth, chat.prices) == (0.3, None, None)


@pytest.mark.parametrize("unset", ['"prices"', "true", '["price"]', '["guards"]', '["unset"]', "[1]", '[["prices"]]'])
def test_what_can_be_unset_is_named(unset: str) -> None:
    with refuses(UsageError, "routes.a.unset", "list of keys", "policy"):
        parsed(f"{GATE}[routes.a]\nunset = {unset}\n", "camdf.toml")
    with refuses(UsageError, "key", "gate.unset", "not known"):
        parsed(f"{GATE}unset = {unset}\n", "camdf.toml")


@pytest.mark.parametrize(
    ("text", "table"),
    [
        (
            "[gate]\nmean_tools = 3\n[routes.chat]\nguards.pinned = []\n[gate.prices]\n" + TENANT + "task_worth = 1\n",
            "",
        ),
        ("[gate]\ncost_pressure = 1\ntask_worth = 1\n" + TENANT, "gate"),
        (TENANT + "[routes.chat]\ncost_pressure = 1\ntask_worth = 1\n", "routes.chat"),
        (TENANT + 'policy = "own.json"\nmean_tools = 3\n', "tenants.acme"),
        (TENANT + '[tenants.acme.routes.chat]\nmode = "shadow"\nrollout.share = 0.5\n', "tenants.acme.routes.chat"),
        ('[gate]\nmode = "shadow"\n[routes.chat.rollout]\noff = true\n' + TENANT, "routes.chat"),
        (
            '[gate]\nexamples = "e"\n' + TENANT + '[tenants.acme.routes.chat]\nscorer = "none"\n',
            "tenants.acme.routes.chat",
        ),
        (TENANT + "tool_search = false\n", "tenants.acme"),
        (TENANT + '[tenants.acme.routes.chat.scorer]\nkind = "llm"\n', "tenants.acme.routes.chat.scorer"),
    ],
)
def test_an_error_names_the_table_in_which_the_fault_stands(text: str, table: str) -> None:
    if not table:
        parsed(text, "camdf.toml")
        return
    with pytest.raises(UsageError, match=rf"^camdf\.toml: \[{re.escape(table)}\] "):
        parsed(text, "camdf.toml")


def test_a_file_that_cannot_be_used_is_named_with_its_table(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    for key, said in {
        'policy = "none.json"': r"Cannot read the policy none\.json: .* Correct tenants\.acme\.routes\.chat\.policy",
        'policy = "camdf.toml"': r"\[tenants\.acme\.routes\.chat\] policy = 'camdf\.toml': This file is not a usable",
        'rollout.off = "none"': r"tenants\.acme\.routes\.chat\.rollout\.off is the file 'none', which cannot be read",
        'policy = "policy.json"': r"\[tenants\.acme\.routes\.chat\] .*cost_pressure is not set",
    }.items():
        (folder / "camdf.toml").write_text(f"{TENANT}[tenants.acme.routes.chat]\n{key}\n", encoding="utf-8")
        with pytest.raises(UsageError, match=rf"^camdf\.toml: {said}"):
            VersionStore(folder / "camdf.toml", folder / "state")


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        parsed("[gate]\nmode = 1\nzzz = 2\n[server]\nport = -1\n", "camdf.toml")
    assert [line.partition(" must")[0].partition(" is not")[0] for line in str(refused.value).splitlines()] == [
        *("camdf.toml: the key server.port", "camdf.toml: the key gate.mode", "camdf.toml: the key gate.zzz")
    ]


def test_the_smallest_configuration_is_the_recipe_of_all_pages() -> None:
    settings = parsed("", "camdf.toml").settings("", "")
    assert (settings.policy, settings.scorer, settings.searches) == ("start", None, True)
    assert parsed("[gate]\nmean_tools = 5\n", "camdf.toml").settings("", "").mean_tools == 5


@pytest.mark.parametrize("policy", ["start", "cold-start"])
def test_nothing_that_learned_from_no_labels_cuts_without_a_search_unless_that_is_allowed(policy: str) -> None:
    text = f'[gate]\npolicy = "{policy}"\ncost_pressure = 0.1\ntool_search = false\n'
    with refuses(UsageError, "gate", "no search", "allow_cuts_without_search"):
        parsed(text, "camdf.toml")
    for rest in ("allow_cuts_without_search = true\n", 'mode = "shadow"\n'):
        assert not parsed(text + rest, "camdf.toml").settings("", "").searches
    llm = '[gate.scorer]\nkind = "llm"\nurl = "http://localhost/v1"\nmodel = "m"\n'
    assert parsed(text + llm, "camdf.toml").settings("", "").policy == policy
    assert not parsed('[gate]\npolicy = "fitted.json"\n', "camdf.toml").settings("", "").searches


@pytest.mark.parametrize(("made_up", "refused"), [(40, True), (39, False)])
def test_a_policy_of_made_up_labels_alone_cuts_no_more_than_one_without_labels(
    tmp_path: Path, made_up: int, refused: bool
) -> None:
    logged = sample_tasks(40)
    policy = camdf.ExpectedPayoffBySet().fit(logged, camdf.Payoff(0.1))
    folder = folder_of(tmp_path / "served", '[gate]\npolicy = "policy.json"\ncost_pressure = 0.1\n')
    training = Training(logged.digest(), len(logged), len(logged), made_up=made_up)
    camdf.save(policy, folder / "policy.json", training)
    if refused:
        with refuses(UsageError, "gate", "policy.json", "made-up labels"):
            VersionStore(folder / "camdf.toml", folder / "state")
        with (folder / "camdf.toml").open("a", encoding="utf-8") as file:
            file.write("tool_search = true\n")
    assert VersionStore(folder / "camdf.toml", folder / "state").current.places["", ""].gate.policy == policy


def test_models_of_other_names_take_tools_where_the_configuration_says_so() -> None:
    text = GATE + 'mode = "append"\n[gate.channels]\nour-claude = "anthropic"\n"gpt-4" = "none"\n'
    settings = parsed(text, "camdf.toml").settings("", "")
    gate = gate_of(settings, camdf.cold_start(), "")
    names = ("our-claude-5", "gpt-4o", "gpt-5", "claude-opus-5")
    channels = [channel_of(name, gate.channels) for name in names]
    assert channels == ["anthropic", "note", "openai_responses", "anthropic"]
    with refuses(UsageError, "gate.channels", "table", "names", "anthropic"):
        parsed(text.replace('"none"', '"chat"'), "camdf.toml")


def test_prices_that_are_left_out_are_those_of_the_library() -> None:
    settings = parsed(GATE + "[gate.prices]\nuncached = 5.0\nmisuse = 0\n", "camdf.toml").settings("", "")
    assert settings.prices == Prices(uncached=5.0, misuse=0.0)


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
    assert rollout == {"share": 0.2, "off": "gate-off", "salt": "second"}


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ('[gate]\npolicy = "missing.json"\n', "Cannot read … policy … missing.json"),
        ('[gate]\npolicy = "policy.json"\nsha256 = "' + "0" * 64 + '"\n', "file … meant"),
        ('[gate]\npolicy = "camdf.toml"\n', "file … not … JSON"),
        ('[gate]\npolicy = "cold-start"\ntool_search = true\n', "gate.cost_pressure is not set"),
        ('[gate]\npolicy = "memory://nothing.json"\n', "Cannot read the policy memory://nothing.json"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path, configuration: str, said: str) -> None:
    folder = folder_of(tmp_path / "served", configuration)
    with refuses(camdf.CamdfError, said):
        VersionStore(folder / "camdf.toml", folder / "state")


def test_a_policy_may_stand_behind_a_url_of_the_operator(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    text = f'[gate]\npolicy = "file://{folder / "policy.json"}"\ncost_pressure = 0.06\n'
    (folder / "camdf.toml").write_text(text, encoding="utf-8")
    store = VersionStore(folder / "camdf.toml", folder / "state")
    assert store.current.places["", ""].gate.policy.kind == "expected-payoff-by-set"


def test_one_policy_serves_with_the_defaults_at_the_payoff_that_it_was_fitted_for(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    camdf.save(camdf.CAMDF().fit(sample_tasks(1), camdf.Payoff(0.3)), folder / "own.json")
    store = VersionStore(folder / "own.json", folder / "state")
    assert store.current.places["", ""].gate.payoff == camdf.Payoff(0.3)
    assert store.current.configuration.server.host == "127.0.0.1"
    with pytest.raises(UsageError, match=r"gate\.cost_pressure is not set"):
        VersionStore(folder / "policy.json", folder / "elsewhere")


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
    assert says(refusal(folder), "camdf.toml", "gate.cost_pressure", "number")


@pytest.mark.parametrize("program", [(sys.executable, "-m", "camdf"), ASYNCIO], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("listens", [True, False])
def test_a_port_that_is_taken_is_said_with_the_remedy(tmp_path: Path, program: Sequence[str], listens: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen()
        port = taken.getsockname()[1]
        folder = folder_of(tmp_path / "served", f"{GATE}[server]\nport = {port}\n")
        assert says(refusal(folder, program), port, "127.0.0.1", "taken", "server.port")


@pytest.mark.parametrize(
    ("host", "why"), [("192.0.2.1", "Cannot assign requested address"), ("no.such.host.invalid", ".+")]
)
def test_a_host_that_is_not_here_is_said_with_the_remedy(tmp_path: Path, host: str, why: str) -> None:
    server = f'[server]\nhost = "{host}"\ntoken_sha256 = "{"0" * 64}"\n'
    said = refusal(folder_of(tmp_path / "served", GATE + server))
    assert re.fullmatch(rf"camdf: .* port 8080 of {host}: {why}\. Correct server\.host or .+\.", said), said

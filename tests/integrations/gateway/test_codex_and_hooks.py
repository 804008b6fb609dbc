"""The gateway in Codex's TOML, and the hook on prompts: the text of the user stays, and comes back byte by byte."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.cli import parser
from camdf.cli.mcp_codex import toml_tables
from camdf.cli.parser import run_command
from camdf.integrations.gateway.config import read_servers, served_file
from killed import at_every_step
from saying import says

COMMANDS = parser()

CONFIG = '''# My Codex.
model = "gpt-5"   # the usual one

# Servers.
[mcp_servers.mail]
command = "mail-server" # of the team
args = ["--text", """
[mcp_servers.fake]
"""]
env_vars = ["MAIL_KEY"]
tool_timeout_sec = 90

[mcp_servers.mail.env]
DEBUG = "1"

# Providers.
[model_providers.local]
base_url = "http://127.0.0.1:1/v1"

[[profiles]]
name = 'a'

  [mcp_servers."web search"]
  url = "https://example.com/mcp"
  bearer_token_env_var = "WEB_TOKEN"
# The end.
'''

HOOKS = '{\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]} // mine\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a home and a folder to work in."""
    for name in ("home/.codex", "home/.claude", "work"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def asks(*words: str) -> int:
    return run_command(COMMANDS, ["mcp", *words, "--yes"])


def files_of(*folders: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def hooked_commands(path: Path) -> list[str]:
    groups = json.loads(path.read_text())["hooks"].get("UserPromptSubmit", [])
    return [handler["command"] for group in groups for handler in group["hooks"]]


def test_codex_gets_the_gateway_and_its_file_keeps_every_other_line(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.write_text(CONFIG)
    assert asks("install", "codex") == 0
    document = tomllib.loads(path.read_text())
    gateway = document["mcp_servers"].pop("camdf")
    assert document.pop("mcp_servers") == {}
    assert document == {name: value for name, value in tomllib.loads(CONFIG).items() if name != "mcp_servers"}
    assert gateway["env_vars"] == ["MAIL_KEY", "WEB_TOKEN"]
    assert gateway["tool_timeout_sec"] == 90
    assert gateway["env"] == {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    kept = [line for line in CONFIG.splitlines() if line.startswith("#") or "profiles" in line or "model" in line]
    assert [line for line in path.read_text().splitlines() if line in kept] == kept
    assert [server.name for server in read_servers(served_file(path))] == ["mail", "web_search"]
    assert asks("install", "codex") == 2, "it is there already"
    assert asks("uninstall", "codex") == 0
    assert files_of(home) == {path: CONFIG.encode()}
    assert asks("uninstall", "codex") == 2


def test_what_changed_in_codexs_file_since_stays(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.write_text(CONFIG)
    assert asks("install", "codex") == 0
    path.write_text(path.read_text().replace('"gpt-5"', '"gpt-6"') + '\n# new\n[mcp_servers.new]\ncommand = "new"\n')
    assert asks("uninstall", "codex") == 0
    text = path.read_text()
    expected = tomllib.loads(CONFIG)
    expected["model"] = "gpt-6"
    expected["mcp_servers"]["new"] = {"command": "new"}
    assert tomllib.loads(text) == expected
    assert "# of the team" in text
    assert "# new" in text
    assert not list((home.parent / "state").rglob("*.toml"))


@pytest.mark.parametrize(
    "content",
    [
        'mcp_servers = {mail = {command = "x"}}\n',
        'mcp_servers.mail.command = "x"\n',
        '[mcp_servers]\nmail.command = "x"\n[other]\nmcp_servers = 1\n[mcp_servers.a]\nnested = {a = 1}\n',
    ],
)
def test_servers_in_another_form_are_taken_whole_or_the_file_is_refused(content: str, home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.write_text(content)
    before = files_of(home)
    if asks("install", "codex") == 0:
        assert [*tomllib.loads(path.read_text())["mcp_servers"]] == ["camdf"]
        assert asks("uninstall", "codex") == 0
    assert files_of(home) == before


def test_a_file_of_codex_that_is_no_toml_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".codex" / "config.toml").write_text("[mcp_servers")
    assert asks("install", "codex") == 2
    assert says(capsys.readouterr().err, "config.toml", "TOML")


blocks = st.sampled_from(
    [
        "# a comment",
        "",
        "[table]\nkey = 'value'",
        '[other.inner]\ntext = """\n[mcp_servers.not]\n# not a comment\n"""',
        "[[rows]]\nlist = [\n  [1],\n  # inside\n  ['[mcp_servers.no]'],\n]",
        "  [spaced]  # here\n  a.b = 1",
        '["quoted.name"]\nx = 2026-11-19',
    ]
)
servers = st.sampled_from(["one", "two", '"three 3"', "four"])


@settings(deadline=None, max_examples=20)
@given(
    parts=st.lists(st.one_of(blocks, servers), max_size=8),
    end=st.sampled_from(["", "\n"]),
    line=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_stands_around_the_servers_comes_through_and_back(parts: list[str], end: str, line: str) -> None:
    once = list(dict.fromkeys(part for part in parts if part and not part.startswith("[[")))
    texts = []
    for part in once:
        name = part if part in ("one", "two", '"three 3"', "four") else ""
        texts.append(f'[mcp_servers.{name}]\ncommand = "x" # why\n[mcp_servers.{name}.env]\nA = "b"' if name else part)
    content = ("\n".join(texts) + end).replace("\n", line).encode()
    before = tomllib.loads(content.decode())
    path = Path.home() / ".codex" / "config.toml"
    path.write_bytes(content)
    installed = asks("install", "codex")
    assert installed == (0 if "mcp_servers" in before else 2)
    if installed == 0:
        after = tomllib.loads(path.read_bytes().decode())
        assert [*after.pop("mcp_servers")] == ["camdf"]
        assert after == {name: value for name, value in before.items() if name != "mcp_servers"}
        assert asks("uninstall", "codex") == 0
    assert path.read_bytes() == content
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]), ignore_errors=True)


@given(st.text("[]\"'#a.=\n\\", max_size=40))
def test_the_tables_of_any_text_lie_in_it(text: str) -> None:
    for table in toml_tables(text):
        assert 0 <= table.begins < table.ends <= len(text)
        assert text[table.begins :].lstrip().startswith("[")


def test_codexs_words_are_read_as_those_of_other_clients(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[mcp_servers.web]\nurl = "https://a/mcp"\nhttp_headers = {A = "1"}\nenv_http_headers = {B = "KEY"}\n'
        'bearer_token_env_var = "TOKEN"\ntool_timeout_sec = 2.5\nenabled_tools = ["a", "b"]\ndisabled_tools = ["b"]\n'
        '[mcp_servers.off]\ncommand = "x"\nenabled = false\n'
        '[mcp_servers.git]\ncommand = "git-server"\nenv_vars = ["KEY", "NONE"]\nenv = {OWN = "1"}\n'
    )
    web, git = read_servers(path, {"KEY": "k", "TOKEN": "t"})
    assert web.entry["headers"] == {"A": "1", "B": "k", "Authorization": "Bearer t"}
    assert web.entry["timeout"] == 2500
    assert [tool for tool in ("a", "b", "c") if web.lets_through(tool)] == ["a"]
    assert git.entry["env"] == {"KEY": "k", "NONE": "", "OWN": "1"}
    assert git.lets_through("anything")
    (lacking, _) = read_servers(path, {})
    assert says(lacking.problem, "KEY, TOKEN")


def test_codex_home_is_where_codex_looks(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    assert asks("install", "codex", "--hook") == 0
    assert hooked_commands(tmp_path / "elsewhere" / "hooks.json")
    assert not files_of(home)


# The hook.


class Hooked:
    """A client's files, before and after."""

    def __init__(self, client: str, root: Path, present: bool) -> None:
        self.client = client
        self.folders = (root / "home", root / "work")
        if client == "codex":
            (root / "home/.codex/config.toml").write_text(CONFIG)
            self.settings = root / "home/.codex/hooks.json"
        elif client == "claude-code":
            (root / "home/.claude.json").write_text(json.dumps({"mcpServers": {"git": {"command": "git-server"}}}))
            self.settings = root / "home/.claude/settings.json"
        else:
            (root / "work/.mcp.json").write_text(json.dumps({"mcpServers": {"git": {"command": "git-server"}}}))
            self.settings = root / "work/.claude/settings.local.json"
        if present:
            self.settings.parent.mkdir(exist_ok=True)
            self.settings.write_text(HOOKS)
        self.before = files_of(*self.folders)

    @property
    def name(self) -> str:
        return self.client.partition(" ")[0]


@pytest.fixture(params=["codex", "claude-code", "claude-code here"])
def hooked(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bool], Hooked]:
    return lambda present: Hooked(request.param, tmp_path, present)


@pytest.mark.parametrize("present", [True, False])
def test_the_hook_is_written_as_clients_document_it_and_taken_out_to_the_byte(
    hooked: Callable[[bool], Hooked], present: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    user = hooked(present)
    assert asks("install", user.name, "--hook", "900") == 0
    told = capsys.readouterr().out
    assert "UserPromptSubmit" in told, "the change is shown"
    assert says(told, "/hooks") is (user.name == "codex"), "how a hook is trusted"
    document = json.loads(user.settings.read_text())
    assert ("Stop" in document["hooks"]) is present
    (group,) = document["hooks"]["UserPromptSubmit"]
    (handler,) = group["hooks"]
    assert {name: type(value) for name, value in handler.items()} == {"type": str, "command": str, "timeout": int}
    assert handler["type"] == "command"
    done = subprocess.run(handler["command"], shell=True, input=b'{"prompt": "a"}', capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), "no gateway runs"
    program = Path(shlex.split(handler["command"])[3])
    assert program.stat().st_mode & 0o777 == 0o600
    assert asks("install", user.name, "--hook") == 2, "it is there already"
    assert asks("uninstall", user.name) == 0
    assert files_of(*user.folders) == user.before
    assert not program.exists()


def test_the_gateway_of_a_hook_hears_of_prompts_and_no_other_does(tmp_path: Path) -> None:
    user = Hooked("claude-code", tmp_path, present=False)
    assert asks("install", "claude-code") == 0
    path = tmp_path / "home/.claude.json"
    assert "--hook" not in json.loads(path.read_text())["mcpServers"]["camdf"]["args"]
    assert asks("install", "claude-code", "--hook") == 2, "the gateway has to be taken out first"
    assert not user.settings.exists()
    assert asks("uninstall", "claude-code") == 0
    assert asks("install", "claude-code", "--hook") == 0
    arguments = json.loads(path.read_text())["mcpServers"]["camdf"]["args"]
    assert arguments[arguments.index("--hook") + 1] == "1500"


def test_what_changed_in_the_settings_since_stays(tmp_path: Path) -> None:
    user = Hooked("claude-code", tmp_path, present=True)
    assert asks("install", "claude-code", "--hook") == 0
    document = json.loads(user.settings.read_text())
    document["hooks"]["UserPromptSubmit"].append({"hooks": [{"type": "command", "command": "mine"}]})
    document["model"] = "opus"
    user.settings.write_text(json.dumps(document))
    assert asks("uninstall", "claude-code") == 0
    assert hooked_commands(user.settings) == ["mine"]
    assert json.loads(user.settings.read_text())["model"] == "opus"


@pytest.mark.parametrize(("words", "named"), [(("cursor", "--hook"), "codex"), (("codex", "--hook", "50"), "10,000")])
def test_a_hook_that_cannot_be_is_refused(
    words: tuple[str, ...], named: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"git": {"command": "x"}}}))
    (home / ".codex/config.toml").write_text(CONFIG)
    before = files_of(home)
    assert asks("install", *words) == 2
    assert named in capsys.readouterr().err
    assert files_of(home) == before


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_a_kill_at_any_step_leaves_what_uninstall_takes_out(action: str, tmp_path: Path) -> None:
    def begin() -> Hooked:
        for name in ("home", "state"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / "home/.codex").mkdir(parents=True)
        user = Hooked("codex", tmp_path, present=False)
        if action == "uninstall":
            assert asks("install", "codex", "--hook") == 0
        return user

    def act() -> int:
        return asks("install", "codex", "--hook") if action == "install" else asks("uninstall", "codex")

    user = begin()

    def look(step: int) -> None:
        state: dict[str, Any] = tomllib.loads((tmp_path / "home/.codex/config.toml").read_text())
        assert asks("uninstall", "codex") == (0 if "camdf" in state["mcp_servers"] else 2)
        assert files_of(*user.folders) == user.before
        assert not files_of(tmp_path / "state")
        begin()

    assert at_every_step(act, look) > 12

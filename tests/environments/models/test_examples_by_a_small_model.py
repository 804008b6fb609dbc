"""Examples by a real model, SmolLM2-135M behind its endpoint: they are poor, the checks say so, and nothing breaks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from camdf.cli import main
from camdf.datasets import read_examples
from local_llm import local_llm

TOOLS = {
    "weather": {"get_forecast": "Weather forecast for a city."},
    "mail": {"send_email": "Send an email to a person."},
}


def test_a_small_model_writes_what_can_be_used_and_the_rest_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        {"server": server, "tool": {"name": name, "description": told, "parameters": {}}}
        for server, tools in TOOLS.items()
        for name, told in tools.items()
    ]
    names = {f"{server}/{name}" for server, tools in TOOLS.items() for name in tools}
    tools, output = tmp_path / "tools.json", tmp_path / "examples.jsonl"
    tools.write_text(json.dumps(entries), encoding="utf-8")
    wishes = ["--per-tool", "2", "--languages", "en,ja", "--none", "0", "--max-tokens", "80"]
    with local_llm() as url:
        command = ["examples", str(tools), "-o", str(output), "--endpoint", url, "--model", "smollm2", *wishes]
        code = main([*command, "--json"])
    written = json.loads(capsys.readouterr().out)
    assert code == 1, "a model of this size writes no Japanese"
    assert any("ja" in languages for languages in written["lacking"].values())
    assert {"in another language", "repetitions", "copied from the prompt"} & written["refused"].keys()
    examples = read_examples(output)
    assert len(examples) == written["examples"]
    assert {name for example in examples for name in example.right} <= names
    assert len({example.text.casefold() for example in examples}) == len(examples)
    assert main(["examples", "--check", str(output), "--tools", str(tools), "--languages", "en,ja"]) == 1
    assert "Tools that lack examples: " in capsys.readouterr().out

"""How long the tools of the domains are, in characters and tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from camdf import Prices
from camdf.tools import Tool
from camdf_lab import domains

SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_every_tool_of_every_domain_has_a_size_and_more_text_has_more_tokens() -> None:
    for domain in domains.DOMAINS:
        bare, whole = (domains.sizes(domain.name, part) for part in ("description", "definition"))
        assert tuple(bare) == tuple(whole) == domains.tools(domain.name)
        assert all(bare[name].tokens < whole[name].tokens <= whole[name].characters for name in whole)
    full = domains.sizes("bfcl-multi-turn", "schema")
    assert all(full[name].tokens > size.tokens for name, size in domains.sizes("bfcl-multi-turn").items())
    assert max(size.characters for size in domains.sizes("mcp-atlas", "description").values()) == 400
    with pytest.raises(ValueError, match=r"description, definition\. Got 'schema'"):
        domains.sizes("mcp-atlas", "schema")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the descriptions do not ship")
@pytest.mark.parametrize("domain", [domain.name for domain in domains.DOMAINS])
def test_shipped_characters_are_those_of_the_source_and_give_the_estimate(domain: str) -> None:
    described = json.loads((SHARED / domain / "tools.json").read_bytes())
    sizes = domains.sizes(domain)
    assert {name: size.characters for name, size in domains.sizes(domain, "description").items()} == {
        name: len(text) for name, text in described.items()
    }
    for name, text in described.items():
        assert len(Tool(name, text).definition()) == sizes[name].characters
        assert Prices().count(Tool(name, text)) == max(1, round(sizes[name].characters / 4))
    assert np.mean([size.tokens for size in sizes.values()]) > 20

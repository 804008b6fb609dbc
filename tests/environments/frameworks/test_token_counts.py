"""Cached tokens, as real tracers write the counts of two providers: they are part of the input in all of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import anthropic
import pytest
from langchain_openai import ChatOpenAI
from openai import OpenAI
from traced.tracers import instrumented, langfuse_client

from camdf.integrations.conformance import scripted_model as scripted
from camdf_traces.readers import read_spans
from scripted import ScriptedModel

READ, CACHED, WRITTEN = 8020, 8000, 5


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    details = {"prompt_tokens_details": {"cached_tokens": CACHED}}
    total = {"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN, **details}
    apart = {"input_tokens": READ - CACHED, "output_tokens": WRITTEN, "cache_read_input_tokens": CACHED}
    monkeypatch.setattr(scripted, "_USAGE", total)
    monkeypatch.setattr(scripted, "_ANTHROPIC_USAGE", apart)
    with ScriptedModel() as served:
        yield served


def counts(file: Path) -> list[tuple[int | None, ...]]:
    found = list(read_spans(file))
    return [(each.input_tokens, each.cached_tokens, each.output_tokens) for each in found if each.kind == "model"]


@pytest.mark.parametrize("tracer", ["openinference", "opentelemetry"])
def test_instrumentors_count_the_cached_tokens_of_both_providers_among_the_input(
    tracer: str, model: ScriptedModel, tmp_path: Path
) -> None:
    asked: list[Any] = [{"role": "user", "content": "Weather in Bern?"}]
    for provider, name in (("openai", "OpenAIInstrumentor"), ("anthropic", "AnthropicInstrumentor")):
        file = tmp_path / f"{provider}.jsonl"
        with instrumented(getattr(import_module(f"{tracer}.instrumentation.{provider}"), name)(), file):
            if provider == "openai":
                OpenAI(api_key="none", base_url=model.url).chat.completions.create(model="scripted", messages=asked)
            else:
                client = anthropic.Anthropic(api_key="none", base_url=model.url.removesuffix("/v1"))
                client.messages.create(model="scripted", max_tokens=9, messages=asked)
        assert counts(file) == [(READ, CACHED, WRITTEN)]


def test_langfuse_counts_them_apart_and_is_read_alike(model: ScriptedModel, tmp_path: Path) -> None:
    from langfuse.langchain import CallbackHandler

    file = tmp_path / "langfuse.jsonl"
    with langfuse_client(file) as client:
        chat = ChatOpenAI(model="scripted", api_key="none", base_url=model.url)
        chat.invoke("Weather in Bern?", {"callbacks": [CallbackHandler(public_key=client.key)]})
    assert counts(file) == [(READ, CACHED, WRITTEN)]

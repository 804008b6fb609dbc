"""What `Gate.start` takes where nothing is given: a policy and a scorer that need nothing but the tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from warnings import warn

from camdf.core.payoff import Payoff
from camdf.datasets.examples import past_tasks
from camdf.errors import UsageError
from camdf.gate.scoring import recalling
from camdf.gate.settings import Guards
from camdf.gate.worth import cutting_pays
from camdf.policies.base import Policy
from camdf.policies.rules import USUAL_TOOLS, AcquireAll, FirstDay, TopK
from camdf.scorers.base import Scorer
from camdf.scorers.named import scorer_for_tools, scorer_record
from camdf.scorers.with_examples import GivenExamples, tool_examples
from camdf.tools import Tool, tools_by_key

WORDS_JOIN = (
    "What the tools of these servers say of themselves joins the user's turns: {}. Name the servers that you trust: "
    "guards=Guards(trusted=[...])."
)
"""What is said where a gate starts with servers that nobody vouches for."""


def settings_to_start(
    tools: Sequence[Any] | Mapping[str, Sequence[Any]],
    mean_tools: int | None,
    policy: Policy | None,
    scorer: Scorer | None,
    examples: GivenExamples | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """All that a gate for these tools is made with: what was given, and for the rest what the first day needs."""
    if policy is not None and mean_tools is not None:
        raise UsageError("For a policy of yours and a number of tools, take Gate.for_target, with some requests.")
    if examples is not None and scorer is not None:
        raise UsageError("Give the examples to that scorer: Start, BM25 and Embeddings take 'examples', too.")
    listed = list(tools_by_key(tools)[0].values())
    payoff = settings.get("payoff")
    if policy is None:
        policy = _policy_for_tools(listed, mean_tools, settings.get("prices"))
        payoff = payoff or Payoff(0.0)
    if examples is not None:
        examples = tool_examples(examples)
    scorer = scorer or scorer_for_tools(listed, examples, scorer_record(policy))
    if examples is not None:
        policy = recalling(policy, past_tasks(examples.given), scorer)
    chosen = {"tool_search": True, "mode": "append", **settings, "policy": policy, "scorer": scorer, "payoff": payoff}
    unvouched = settings.get("guards", Guards()).unvouched(listed)
    if unvouched and chosen["mode"] == "append" and not isinstance(policy, AcquireAll):
        warn(WORDS_JOIN.format(", ".join(unvouched)), stacklevel=3)  # where Gate.start was called
    return chosen


def _policy_for_tools(tools: Sequence[Tool], mean_tools: int | None, prices: object) -> Policy:
    """So many of the best; or those near the best, where cutting such a list costs less than it saves."""
    if mean_tools is not None:
        return TopK(mean_tools)
    if cutting_pays(tools, USUAL_TOOLS, prices):
        return FirstDay()
    return AcquireAll()

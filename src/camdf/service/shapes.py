"""What the service is sent and what it answers, as types: checked while a body is read, and the OpenAPI document.

Numbers are finite and within bounds, names are not empty, and an unknown field is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from camdf.errors import needs
from camdf.gate.ranking import Ranked

with needs("serve"):
    from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

LARGEST = 1e9
"""No score and no cost is larger: sums of a hundred thousand of them are still exact to seven digits."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Names = Annotated[list[Name], Meta(max_length=10_000)]
Score = Annotated[float, Meta(ge=0, le=LARGEST)]
Cost = Annotated[float, Meta(ge=1e-9, le=LARGEST)]
JsonObject = dict[str, Any]


class Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """Something that is sent."""


class Candidate(Body, gc=False):
    """A tool with the score that a ranker of yours gave it."""

    name: Name
    """Its name, which the answer repeats."""

    score: Score
    """How well it fits, from 0 on."""

    cost: Cost | UnsetType = UNSET
    """What offering it costs; left out, what the service's own prices say."""


class DecideRequest(Body):
    """Which of these tools are worth giving to the agent? Either a `ranking`, or `messages` with `tools`."""

    ranking: list[Candidate] | UnsetType = UNSET
    """The tools with scores of your own."""

    messages: list[JsonObject] | UnsetType = UNSET
    """The conversation as the model gets it: OpenAI chat, OpenAI Responses, Anthropic or Vercel AI SDK."""

    tools: list[JsonObject] | UnsetType = UNSET
    """As the model gets them: OpenAI, Anthropic or MCP definitions."""

    keep: Names = []
    """Tools that stay in every request."""

    forced: Names = []
    """Tools that this request's `tool_choice` names."""

    tool_search: bool | UnsetType = UNSET
    """Whether the agent can search for a tool that it was not given; left out, what the configuration says."""

    model: Annotated[str, Meta(max_length=256)] = ""
    """The model that gets the tools. In mode "append" tools join in its provider's channel, or in a note."""

    conversation: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    """The conversation's name, by which it is explored or rolled out to. "" has one made up: the answer says which, to
    be sent with the turns that follow."""

    user: Annotated[str, Meta(max_length=256)] = ""
    """The id of whoever asks: a policy that was fitted so knows what this user has needed before."""

    permitted: Names | UnsetType = UNSET
    """Where the messages are another agent's words and not the user's: what may run beside what is free, as `may_run`
    of that agent's decision. For a gate with a privilege."""

    route: Annotated[str, Meta(max_length=64)] = ""
    """One of the routes in the service's configuration."""

    explain: bool = False
    """Whether to say what each tool's evidence is."""

    def __post_init__(self) -> None:
        """Either shape, and not both."""
        ranked = self.ranking is not UNSET
        talked = (self.messages is not UNSET, self.tools is not UNSET)
        if (ranked and any(talked)) or (not ranked and not all(talked)):
            raise ValueError("Give either a 'ranking', or 'messages' together with 'tools'")


RankedTool = defstruct("RankedTool", list(get_type_hints(Ranked).items()), namespace={"__doc__": Ranked.__doc__})
"""The fields of `Ranked`, which is a tuple: JSON has them by name."""


class JoiningTools(Struct, kw_only=True):
    """Tools that join a conversation after one of its messages."""

    after: int
    """The place of that message among those that were sent, from 0."""

    message: JsonObject
    """What to send after it, from this call of the model on."""


class ChangedMessage(Struct, kw_only=True):
    """A message that is not sent as it came."""

    place: int
    """Its place among those that were sent, from 0."""

    message: JsonObject | None
    """What to send in its place; null where nothing of it may be sent."""


class Decision(Struct, kw_only=True, omit_defaults=True):
    """The tools to hand over, and why these."""

    id: str
    """Name it in the outcome."""

    kept: list[str]
    """The tools that are worth their cost, or that stay whatever they cost."""

    cut: list[str]
    """The tools that are not."""

    refused: list[str]
    """The tools that may not be offered."""

    reason: str
    """Why these: "decided", "decided before", "explored" or "nothing needed"; or why nothing was decided."""

    mode: str
    """What became of what was cut: "drop", "append", "defer", "allow" or "shadow"."""

    open: bool
    """Whether nothing was decided, now or before."""

    explored: bool
    """Whether this conversation sees every tool, so that what it calls can be learned from."""

    conversation: str
    """Its name; "" where it has none."""

    needs_name: bool
    """Whether it was neither explored nor split by a rollout, since it has no name."""

    error: str
    """What went wrong, by its type; "" where nothing did."""

    cost_pressure: float | None
    """What a tool's cost counted next to what the task is worth; null where no policy's word was followed."""

    policy: str
    """The digest of the policy that decided."""

    tools: list[str | JsonObject]
    """What to hand to the model, as it was sent; of a ranking, the names. In mode "shadow" these are all. In mode
    "append" these are the same in every request, and more tools are in `changed` or `appended`."""

    search: list[JsonObject] = []
    """Definitions of the tool search in the shape of your tools, where something was cut and the agent can search: hand
    them to the model after `tools`, and send its calls to /v1/answer."""

    appended: list[JoiningTools] = []
    """In mode "append": tools that turns bring, as messages of a channel that the request's `model` has. Keep them in
    the history or leave them out: every answer has those that the messages lack."""

    changed: list[ChangedMessage] = []
    """Messages that are not sent as they came: they bring tools which may not be offered, or, in mode "append", a note
    of more tools joins them. Keep the note in the history or leave it out."""

    betas: list[str] = []
    """What Anthropic has to be told in `betas` for these messages."""

    may_run: list[str] | UnsetType = UNSET
    """Where the gate has a privilege: the closed set of the tools that may run. Send it to /v1/answer with every call
    that the model writes, and run nothing else."""

    brought: list[str] | UnsetType = UNSET
    """Those of them that may run since the user's own words ask for them; a ranking has no words."""

    ranking: list[RankedTool] | UnsetType = UNSET  # type: ignore[valid-type]
    """Where `explain` asked for it: each tool with its evidence, the best first."""


class FindRequest(Body):
    """A search for tools that an agent was not given."""

    query: Annotated[str, Meta(max_length=10_000)]
    """What is wanted, in words; a tool's name finds that tool alone."""

    tools: list[JsonObject]
    """All that there are, as the model gets them."""

    most: Annotated[int, Meta(ge=1, le=50)] = 5
    """How many it finds at most; 5 where it is left out."""

    route: Annotated[str, Meta(max_length=64)] = ""
    """One of the routes in the service's configuration."""


class Found(Struct, kw_only=True):
    """The tools that a search finds, the best first."""

    tools: list[JsonObject]
    """As they were sent."""

    text: str
    """The same in words, as `find_tool` answers a model."""


class AnswerRequest(Body):
    """A call that a model wrote, to be read."""

    call: JsonObject
    """The call as your client has it: OpenAI chat or Responses, Anthropic or MCP."""

    tools: list[JsonObject]
    """All that there are, as the model gets them."""

    may_run: Names | UnsetType = UNSET
    """That of the latest decision of the conversation, where the gate has a privilege; left out, what is free may
    run."""

    route: Annotated[str, Meta(max_length=64)] = ""
    """One of the routes in the service's configuration."""


class ToolRun(Struct, kw_only=True):
    """A tool to run."""

    name: str
    """One of the tools that were sent."""

    arguments: JsonObject
    """What the model wants it to be run with; not checked against its schema."""


class Answered(Struct, kw_only=True):
    """Run a tool and answer the model with its result, or answer with words. Nothing was run."""

    id: str
    """The call's own, which the answer to the model has to name."""

    run: ToolRun | None
    """The tool to run; null where there is none."""

    text: str
    """The answer, where nothing is to be run."""


class OutcomeRequest(Body):
    """What became of a task: which tools it called, and whether it was solved."""

    decision: Annotated[str, Meta(min_length=1, max_length=64)]
    """The `id` of the decision."""

    called: Names
    """The tools that the task called."""

    success: bool
    """Whether it was solved."""


class Accepted(Struct, kw_only=True):
    """Outcomes that are on disk now, by their sequence numbers."""

    first: int
    """The number of the first."""

    last: int
    """The number of the last."""


class PolicyOfRoute(Struct, kw_only=True):
    """What decides on one route."""

    route: str
    """Its name; "" is what has no route."""

    kind: str
    """The policy's kind."""

    sha256: str
    """The digest of its file; "" where it has none."""

    cost_pressure: float
    """What a tool's cost counts next to what a task is worth."""

    value: str
    """What a set is worth that lacks a tool: "exact" for nothing, "partial" for a part."""

    mode: str
    """What becomes of what is cut."""

    scorer: str
    """What ranks the tools of a conversation; "none" where every request brings its ranking."""

    fitted_scorer: str
    """What the policy was fitted with, as far as its file says."""

    share: float
    """Of conversations that are cut for."""

    off: bool
    """Whether the kill switch is on, so that nothing is cut."""


class PolicyAnswer(Struct, kw_only=True):
    """What decides now."""

    configuration: str
    """Its digest."""

    routes: list[PolicyOfRoute]
    """What decides on each."""

    refused: str
    """Why the files as they are now are not used; empty where they are."""


class Status(Struct, kw_only=True):
    """Whether the service is well."""

    status: str
    """"alive", "ready" or "draining"."""


class Problem(Struct, kw_only=True):
    """Why there is no answer."""

    error: str
    """What must be, what it is, and what to do."""

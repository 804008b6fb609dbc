"""The tool search over HTTP: which tools a query finds, and what a call means that a model wrote."""

from __future__ import annotations

from functools import partial

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import listing
from camdf.service import shapes
from camdf.service.calls import HttpAnswer, HttpCall, parsed_body
from camdf.service.deciding import FEWEST, served_on
from camdf.service.limits import RefusedError, check_depth

with needs("serve"):
    import msgspec


class Searching:
    """Answers searches and calls, on threads: nothing is run here."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._finds = msgspec.json.Decoder(shapes.FindRequest)
        self._answers = msgspec.json.Decoder(shapes.AnswerRequest)

    async def find(self, call: HttpCall) -> HttpAnswer:
        """The tools that a query finds."""
        request = await call.read(partial(parsed_body, decoder=self._finds))
        gate = served_on(call, request.route).gate
        tools = _entered(call, request.tools)
        return HttpAnswer(self._encode(await call.run(partial(_found, gate, request, tools))))

    async def answer(self, call: HttpCall) -> HttpAnswer:
        """What a call means: which tool to run with which arguments, or what to answer."""
        request = await call.read(partial(parsed_body, decoder=self._answers))
        gate = served_on(call, request.route).gate
        tools = _entered(call, [request.call, *request.tools])[1:]
        answer = await call.run(lambda: gate.answer(request.call, tools))
        run = None if answer.run is None else shapes.ToolRun(name=answer.run.name, arguments=dict(answer.run.arguments))
        return HttpAnswer(self._encode(shapes.Answered(id=answer.id, run=run, text=answer.text)))


def _found(gate: Gate, request: shapes.FindRequest, tools: list[shapes.JsonObject]) -> shapes.Found:
    """What a query finds; where it finds nothing, names of what may be offered."""
    matches = gate.find(request.query, tools, request.most)
    return shapes.Found(tools=matches, text=listing(matches, () if matches else gate.may_be_offered(tools)))


def _entered(call: HttpCall, sent: list[shapes.JsonObject]) -> list[shapes.JsonObject]:
    """What was sent, once it is within the limits and under way."""
    if len(sent) > call.limits.tools:
        raise RefusedError(422, f"'tools' may have {call.limits.tools} entries. Got {len(sent)}.")
    check_depth([sent], call.limits.depth + 1)
    call.enter(max(len(sent), FEWEST))
    return sent

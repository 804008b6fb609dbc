"""The OpenAPI document, generated from the types that bodies are read into and answers are written from."""

from __future__ import annotations

from typing import Any

from camdf._version import __version__
from camdf.errors import needs
from camdf.service.config import LimitSettings
from camdf.service.shapes import (
    Accepted,
    Answered,
    AnswerRequest,
    DecideRequest,
    Decision,
    FindRequest,
    Found,
    OutcomeRequest,
    PolicyAnswer,
    Problem,
    Status,
)

with needs("serve"):
    import msgspec

PROBLEMS = {
    400: "The body is not JSON.",
    401: "The token is missing or not known.",
    404: "There is no such route.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    422: "The body is JSON, and not as it should be.",
    503: "The service is at its capacity, or cannot write. Try again after the time in Retry-After.",
}
READING = (400, 401, 408, 413, 415, 422, 503)
"""What may come of a request with a body."""

EITHER = {"RankingRequest": ("ranking",), "ConversationRequest": ("messages", "tools")}
"""The two shapes of a `DecideRequest`, and the fields that each requires and the other may not have."""


def document(limits: LimitSettings, *, tokens: bool) -> dict[str, Any]:
    """The document of a service with these limits."""
    types = (
        *(Accepted, DecideRequest, Decision, OutcomeRequest, PolicyAnswer, Problem, Status),
        *(FindRequest, Found, AnswerRequest, Answered),
    )
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    _split(schemas, limits)
    security: dict[str, Any] = {"security": [{"token": []}]} if tokens else {}
    asked = {"anyOf": [_ref(name) for name in EITHER]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "camdf",
            "version": __version__,
            "description": "Which of the ranked tools are worth giving to the agent?",
        },
        "paths": {
            "/v1/decide": {
                "post": {
                    "operationId": "decide",
                    "summary": "Decide on one request, or on each of a list.",
                    "requestBody": _body(asked, limits.batch),
                    "responses": {
                        "200": _json("The decision, or one for each request.", _one_or_many(_ref("Decision"))),
                        **_problems(*READING, 404),
                    },
                    **security,
                }
            },
            "/v1/find": {
                "post": {
                    "operationId": "find",
                    "summary": "Search for a tool that an agent was not given.",
                    "requestBody": _one(_ref("FindRequest")),
                    "responses": {"200": _json("What it finds.", _ref("Found")), **_problems(*READING, 404)},
                    **security,
                }
            },
            "/v1/answer": {
                "post": {
                    "operationId": "answer",
                    "summary": "Say what a call means that a model wrote. Nothing is run.",
                    "requestBody": _one(_ref("AnswerRequest")),
                    "responses": {"200": _json("What to do.", _ref("Answered")), **_problems(*READING, 404)},
                    **security,
                }
            },
            "/v1/outcomes": {
                "post": {
                    "operationId": "outcomes",
                    "summary": "Say what became of decisions. The answer comes once they are on disk.",
                    "requestBody": _body(_ref("OutcomeRequest"), limits.batch, least=1),
                    "responses": {"200": _json("Their sequence numbers.", _ref("Accepted")), **_problems(*READING)},
                    **security,
                }
            },
            "/v1/policy": {
                "get": {
                    "operationId": "policy",
                    "summary": "What decides now, route by route.",
                    "responses": {"200": _json("What decides.", _ref("PolicyAnswer")), **_problems(401)},
                    **security,
                }
            },
            "/healthz": {"get": _status("healthz", "Whether the process is alive.")},
            "/readyz": {"get": _status("readyz", "Whether it takes requests: not while it drains.", 503)},
            "/metrics": {
                "get": {
                    "operationId": "metrics",
                    "summary": "Numbers for Prometheus.",
                    "responses": {
                        "200": {"description": "Numbers.", "content": {"text/plain": {"schema": {"type": "string"}}}}
                    },
                }
            },
        },
        "components": {
            "schemas": schemas,
            **({"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if tokens else {}),
        },
    }


def _split(schemas: dict[str, Any], limits: LimitSettings) -> None:
    """The one type as the two shapes that it takes, so that a document says which fields go together."""
    whole = schemas.pop("DecideRequest")
    for field in ("ranking", "messages", "tools"):
        whole["properties"][field] = {**whole["properties"][field], "maxItems": limits.tools}
    for name in ("FindRequest", "AnswerRequest"):
        schemas[name]["properties"]["tools"]["maxItems"] = limits.tools - 1
    special = {field for fields in EITHER.values() for field in fields}
    for name, required in EITHER.items():
        fields = {key: schema for key, schema in whole["properties"].items() if key in required or key not in special}
        schemas[name] = {**whole, "title": name, "properties": fields, "required": list(required)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _one_or_many(schema: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "array", "items": schema, **bounds}]}


def _one(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _body(schema: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    content = {"application/json": {"schema": _one_or_many(schema, minItems=least, maxItems=most)}}
    return {"required": True, "content": content}


def _json(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _json(PROBLEMS[status], _ref("Problem")) for status in sorted(statuses)}


def _status(name: str, words: str, *also: int) -> dict[str, Any]:
    answers = {
        str(status): _json("It is." if status == 200 else "It is not.", _ref("Status")) for status in (200, *also)
    }
    return {"operationId": name, "summary": words, "responses": answers}

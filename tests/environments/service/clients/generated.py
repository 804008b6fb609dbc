"""The same by what openapi-python-client writes from the document, found in the folder that is named first."""

from __future__ import annotations

import json
import sys
from typing import Any

sys.path.insert(0, sys.argv[1])

import httpx
from generated_client import AuthenticatedClient
from generated_client.api.default import answer, decide, find, outcomes
from generated_client.models import (
    Accepted,
    Answered,
    AnswerRequest,
    ConversationRequest,
    Decision,
    FindRequest,
    Found,
    OutcomeRequest,
)

asked = json.load(sys.stdin)
messages = asked["messages"]
tools = asked["tools"]


def conversation() -> dict[str, Any]:
    client = AuthenticatedClient(base_url=asked["url"], token=asked["token"])
    request = ConversationRequest.from_dict({"messages": messages, "tools": tools})
    decision = decide.sync(client=client, body=request)
    assert isinstance(decision, Decision)
    answers = []
    for call in asked["calls"]:
        meant = answer.sync(client=client, body=AnswerRequest.from_dict({"call": call, "tools": tools}))
        assert isinstance(meant, Answered)
        answers.append({"run": meant.run.to_dict() if meant.run else None, "text": meant.text})
    outcome = OutcomeRequest(decision=decision.id, called=["book_flight"], success=True)
    accepted = outcomes.sync(client=client, body=outcome)
    found = find.sync(client=client, body=FindRequest.from_dict({"query": "play a song", "tools": tools}))
    assert isinstance(found, Found)
    refusing = AuthenticatedClient(base_url=asked["url"], token=asked["refused"])
    failed = decide.sync_detailed(client=refusing, body=request)
    told = decision.to_dict()
    sent = [*messages]
    for change in told.get("changed", []):
        sent[change["place"]] = change["message"]
    return {
        "messages": sent,
        "tools": [*told["tools"], *told.get("search", [])],
        "failure": "",
        "answers": answers,
        "reported": isinstance(accepted, Accepted),
        "refused": {
            "status": int(failed.status_code),
            "why": failed.parsed.error,
            "after": failed.headers.get("retry-after"),
        },
        "found": found.tools[0].to_dict()["name"],
    }


try:
    print(json.dumps(conversation()))
except httpx.HTTPError as error:
    print(json.dumps({"failure": repr(error)}))

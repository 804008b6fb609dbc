"""The scripted model of the conformance suite, under the name that the tests have for it."""

from camdf.integrations.conformance.scripted_model import Answer, ScriptedModel, Step
from camdf.integrations.conformance.scripted_model import ScriptedCall as Call

__all__ = ["Answer", "Call", "ScriptedModel", "Step"]

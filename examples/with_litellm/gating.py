"""The hook that config.yaml names."""

import camdf
from camdf.gate import Gate
from camdf.integrations.litellm import ToolGate


def words(text):
    return {word for word in text.lower().split() if len(word) > 3}


def shared_words(task, tools):
    """A scorer gives every tool a number of 0 or more: here, the share of its words that the task has."""
    return [len(words(task) & words(tool.text)) / len(words(tool.text)) for tool in tools]


# A fitted policy goes here, as camdf.load("policy.json"). PlugIn needs no training: it keeps score >= priced cost.
gate_hook = ToolGate(Gate(camdf.PlugIn(), shared_words, camdf.Payoff(cost_pressure=0.2)))

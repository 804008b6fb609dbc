"""The hook that config.yaml names: about four of a dozen tools, without labels."""

import sys
from pathlib import Path

import camdf
from camdf.integrations.litellm import ToolGate
from camdf.scorers import Start
from camdf.tools import Tool

sys.path.append(str(Path(__file__).parents[1]))
from travel import CATALOGUE, REQUESTS

# What clients send, and what their users ask: a sample of both, by which the gate finds how much to cut.
tools = [Tool(name, text) for name, text in CATALOGUE.items()]
gate_hook = ToolGate(camdf.Gate.for_target(camdf.cold_start(), Start(), requests=REQUESTS, tools=tools, mean_tools=4))

"""The hook that config.yaml names: about four of a dozen tools."""

import sys
from pathlib import Path

import camdf
from camdf.integrations.litellm import ToolGate
from camdf.tools import Tool

sys.path.append(str(Path(__file__).parents[1]))
from travel import CATALOGUE

# What clients send.
tools = [Tool(name, text) for name, text in CATALOGUE.items()]
gate_hook = ToolGate(camdf.Gate.start(tools, mean_tools=4))

"""Two MCP servers of made-up tools: `python mcp_servers.py NAME`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.tools import Tool

SERVERS = {
    "travel": {
        "get_weather": "Weather forecast for a city",
        "search_flights": "Search flights between two cities on a date",
        "book_flight": "Book a flight for a passenger",
        "find_hotel": "Find a hotel in a city",
        "book_hotel": "Book a hotel room",
        "convert_currency": "Convert an amount between currencies",
    },
    "office": {
        "send_email": "Send an email to a person",
        "read_email": "Read the latest email in the inbox",
        "create_event": "Create an event in the calendar",
        "translate_text": "Translate a text into another language",
        "run_sql": "Run a query against the database",
        "write_file": "Write a text to a file",
    },
}


def run() -> str:
    """What every made-up tool does."""
    return "ran"


if __name__ == "__main__":
    server = FastMCP(sys.argv[1])
    for name, description in SERVERS[sys.argv[1]].items():
        server.add_tool(
            Tool.from_function(run, name=name, description=description)
        )
    server.run(show_banner=False, log_level="ERROR")  # over stdio

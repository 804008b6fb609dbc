"""Four small MCP servers with 15 tools each, which only say what they would do: `python servers.py NAME`."""

from __future__ import annotations

import sys
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool

TOOLS = {
    "code": {
        "list_branches": "List the branches of a repository.",
        "create_branch": "Create a branch from a commit.",
        "open_pull_request": "Open a pull request that asks to merge one branch into another.",
        "merge_pull_request": "Merge a pull request that was approved.",
        "review_pull_request": "Approve a pull request, or ask for changes.",
        "create_issue": "Create an issue with a title, a text and labels.",
        "close_issue": "Close an issue, with a comment.",
        "search_issues": "Search issues and pull requests by words and labels.",
        "search_code": "Search the code of all repositories for a text.",
        "read_file": "Read one file of a repository at a commit.",
        "commit_file": "Write a file and commit it to a branch.",
        "compare_commits": "Show what changed between two commits.",
        "run_workflow": "Start a workflow of continuous integration.",
        "read_workflow_logs": "Read the logs of a workflow that failed.",
        "create_release": "Publish a release with notes from a tag.",
    },
    "office": {
        "send_email": "Send an email to one or several people.",
        "reply_to_email": "Answer an email in its thread.",
        "search_emails": "Search the mailbox by sender, words and dates.",
        "archive_email": "Move an email to the archive.",
        "create_event": "Create an event in a calendar and invite people.",
        "move_event": "Move an event of a calendar to another time.",
        "find_free_time": "Find a time at which several people are free.",
        "list_events": "List the events of a day or a week.",
        "create_document": "Create a text document.",
        "share_document": "Share a document with people.",
        "read_spreadsheet": "Read a range of cells of a spreadsheet.",
        "append_to_spreadsheet": "Add rows to a spreadsheet.",
        "create_slide": "Add a slide to a presentation.",
        "send_chat_message": "Send a message to a channel or a person in the team's chat.",
        "search_contacts": "Look up people by name, team or address.",
    },
    "travel": {
        "search_flights": "Search flights between two cities on a day.",
        "book_flight": "Book a seat on a flight.",
        "cancel_flight": "Cancel a flight that was booked.",
        "search_hotels": "Search hotels in a city for some nights.",
        "book_hotel": "Book a hotel room for a guest.",
        "search_trains": "Search train connections between two stations.",
        "book_train": "Buy a train ticket.",
        "rent_car": "Rent a car for some days.",
        "find_restaurants": "Find restaurants near a place.",
        "reserve_table": "Reserve a table in a restaurant.",
        "weather_forecast": "Forecast the weather of a city for the next days.",
        "convert_currency": "Convert an amount of money from one currency to another.",
        "translate_text": "Translate a text into another language.",
        "directions": "Find the way from one address to another.",
        "travel_insurance": "Ask what a travel insurance would cost.",
    },
    "data": {
        "run_sql": "Run a query against the warehouse.",
        "list_tables": "List the tables of a database.",
        "describe_table": "Describe the columns of a table.",
        "export_table": "Export a table as a file.",
        "create_chart": "Draw a chart from the rows of a query.",
        "create_dashboard": "Create a dashboard of several charts.",
        "schedule_query": "Run a query every day or week.",
        "detect_anomalies": "Find unusual values in a series of numbers.",
        "forecast_series": "Forecast a series of numbers for the next months.",
        "train_classifier": "Train a model that classifies rows.",
        "score_rows": "Apply a trained model to rows.",
        "list_experiments": "List experiments with their groups.",
        "read_experiment": "Read the result of an experiment.",
        "define_metric": "Define a metric by a query.",
        "alert_on_metric": "Send an alert when a metric leaves its bounds.",
    },
}


def answering(name: str) -> Any:
    """A tool that says that it ran."""

    def run(what: str, where: str = "", when: str = "", limit: int = 10, dry_run: bool = False) -> str:
        return f"{name} ran: {what}"

    return run


if __name__ == "__main__":
    server = FastMCP(sys.argv[1])
    for name, description in TOOLS[sys.argv[1]].items():
        server.add_tool(Tool.from_function(answering(name), name=name, description=description))
    server.run(show_banner=False, log_level="ERROR")

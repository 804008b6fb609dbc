"""What the protocol's conformance suite asks a server for, and how it is reached: `python conformance_server.py`.

The suite knows its tools and prompts by names such as `test_simple_text`. This server calls that one `simple_text`, so
a gateway or a proxy that calls the server `test` serves it by the suite's name. `python conformance_server.py proxy
PORT` serves it through FastMCP's bare proxy over HTTP.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server import create_proxy
from fastmcp.tools.base import Tool, ToolResult

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

server = FastMCP("conformance")

TEXT = types.TextContent(type="text", text="This is a simple text response for testing.")
IMAGE = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
AUDIO = types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")


def embedded(uri: str, text: str, kind: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    )


RESOURCE = embedded("test://embedded-resource", "This is an embedded resource content.")
MIXED = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")


def answering(name: str, *blocks: Any) -> None:
    def run() -> ToolResult:
        return ToolResult(content=list(blocks))

    server.add_tool(Tool.from_function(run, name=name, description=f"Answer with {name}."))


answering("simple_text", TEXT)
answering("image_content", IMAGE)
answering("audio_content", AUDIO)
answering("embedded_resource", RESOURCE)
answering("multiple_content_types", TEXT, IMAGE, MIXED)


@server.tool
async def tool_with_logging(context: Context) -> str:
    """Log three lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(line)
        await asyncio.sleep(0.05)
    return "logged"


@server.tool
async def tool_with_progress(context: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@server.tool
def error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
async def sampling(prompt: str, context: Context) -> str:
    """Ask the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await context.session.create_message(
        messages=[message], max_tokens=100, related_request_id=context.request_id
    )
    return f"LLM response: {getattr(answer.content, 'text', answer.content)}"


async def asked(context: Context, message: str, properties: dict[str, Any], required: list[str]) -> str:
    answer = await context.session.elicit(
        message=message,
        requested_schema={"type": "object", "properties": properties, "required": required},
        related_request_id=context.request_id,
    )
    return f"action={answer.action}, content={answer.content}"


@server.tool
async def elicitation(message: str, context: Context) -> str:
    """Ask the user."""
    fields = {name: {"type": "string", "description": f"User's {name}"} for name in ("username", "email")}
    return f"User response: {await asked(context, message, fields, list(fields))}"


@server.tool
async def elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the user, with answers that are filled in."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await asked(context, 'Yours?', fields, [])}"


@server.tool
async def elicitation_sep1330_enums(context: Context) -> str:
    """Ask the user to choose, in five ways."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    names = ["Option One", "Option Two", "Option Three"]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await asked(context, 'Which?', fields, [])}"


@server.resource("test://static-text", mime_type="text/plain", description="A text.")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png", description="A picture.")
def static_binary() -> ResourceResult:
    return ResourceResult([ResourceContent(b"png", mime_type="image/png")])


@server.resource("test://template/{id}/data", mime_type="application/json", description="A template.")
def template(id: str) -> str:
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


@server.prompt
def simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803
    """A prompt with a resource."""
    resource = embedded(resourceUri, "Embedded resource content for testing.")
    return [Message(resource), Message("Please process the embedded resource above.")]


@server.prompt
def prompt_with_image() -> list[Message]:
    """A prompt with a picture."""
    return [Message(IMAGE), Message("Please analyze the image above.")]


def main(way: str = "stdio", port: str = "0") -> None:
    quiet: dict[str, Any] = {"show_banner": False, "log_level": "ERROR"}
    if way == "stdio":
        server.run(**quiet)
    elif way == "http":
        server.run("http", port=int(port), **quiet)
    else:
        bare = FastMCP("bare")
        bare.mount(create_proxy(StdioTransport(sys.executable, [__file__])), namespace="test")
        bare.run("http", port=int(port), **quiet)


main(*sys.argv[1:])

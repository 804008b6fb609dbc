"""`camdf mcp`: one MCP server in front of all others of a client; it loads the tools worth it and finds the rest."""

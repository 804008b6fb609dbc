"""Transcripts that coding agents keep: what each MCP server, tool and skill cost on this machine, and who used it."""

"""Traces to logged tasks: spans of any tracer in one table, tasks mined from them, and an audit of their labels."""

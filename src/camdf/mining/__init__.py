"""Traces to labels: spans of any tracer in one table, tasks from spans, and whether the labels can be trusted."""

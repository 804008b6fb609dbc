"""Can these tasks be learned from? Noise, censoring, depth, drift and exploration, and a verdict that decides."""

from camdf_traces.audit.exposure import exposed_tools, exposure_text
from camdf_traces.audit.measures import audit
from camdf_traces.audit.report import audit_json, audit_text
from camdf_traces.audit.task_lists import TaskLists, read_tasks

__all__ = ["TaskLists", "audit", "audit_json", "audit_text", "exposed_tools", "exposure_text", "read_tasks"]

"""Where each trace format keeps the columns of the span table: the one list of attribute and field names.

The conventions of tracers still change, so their names are plain strings here and nowhere else. Of a column's names the
first that a span has is read. A dot goes one level down in records that are nested.
"""

from __future__ import annotations

from typing import TypeAlias

FieldNames: TypeAlias = dict[str, tuple[str, ...]]

OTEL: FieldNames = {
    "kind": ("gen_ai.operation.name", "mcp.method.name"),
    "tool": ("gen_ai.tool.name",),
    "agent": ("gen_ai.agent.name", "agent_name"),
    "chain": ("traceloop.entity.name",),
    "lc_agent_name": ("traceloop.association.properties.lc_agent_name",),
    "langgraph_node": ("traceloop.association.properties.langgraph_node",),
    "chain_output": ("traceloop.entity.output",),
    "model": ("gen_ai.request.model", "gen_ai.response.model"),
    "conversation": ("gen_ai.conversation.id", "session.id"),
    "user": ("user.id", "enduser.id"),
    "error": ("error.type",),
    "text": ("gen_ai.input.messages", "pydantic_ai.all_messages"),
    "offered": ("gen_ai.tool.definitions", "model_request_parameters.function_tools"),
    "answers": ("model_request_parameters.output_tools",),
    "requested": ("gen_ai.output.messages",),
    "call_id": ("gen_ai.tool.call.id",),
    "arguments": ("gen_ai.tool.call.arguments", "tool_arguments"),
    "answer": ("gen_ai.tool.call.result", "tool_response"),
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.details.cache_read_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
}
"""OpenTelemetry's GenAI conventions. Their older events are read too: `gen_ai.user.message`, `gen_ai.choice`,
`gen_ai.client.inference.operation.details`; and `gen_ai.evaluation.result`."""

EVENTS = (
    "camdf.decision",
    "exception",
    "gen_ai.choice",
    "gen_ai.client.inference.operation.details",
    "gen_ai.evaluation.result",
    "gen_ai.user.message",
)
"""The events of spans that are read."""

OPENINFERENCE: FieldNames = {
    "kind": ("openinference.span.kind",),
    "tool": ("tool.name",),
    "agent": ("agent.name",),
    "model": ("llm.model_name",),
    "conversation": ("session.id",),
    "user": ("user.id",),
    "text": ("llm.input_messages", "input.value"),
    "offered": ("llm.tools",),
    "requested": ("llm.output_messages",),
    "call_id": ("tool_call.id", "tool.id"),
    "arguments": ("tool_call.function.arguments", "input.value", "tool.parameters"),
    "answer": ("output.value",),
    "metadata": ("metadata",),
    "input_tokens": ("llm.token_count.prompt",),
    "cached_tokens": ("llm.token_count.prompt_details.cache_read",),
    "output_tokens": ("llm.token_count.completion",),
}

OPENINFERENCE_MARK = "openinference.span.kind"
OPENINFERENCE_KINDS = {"AGENT": "agent", "LLM": "model", "TOOL": "tool"}

LANGSMITH: FieldNames = {
    "trace_id": ("trace_id",),
    "span_id": ("id",),
    "parent_id": ("parent_run_id",),
    "kind": ("run_type",),
    "name": ("name",),
    "model": ("extra.metadata.ls_model_name", "extra.invocation_params.model"),
    "conversation": (
        "extra.metadata.session_id",
        "extra.metadata.thread_id",
        "extra.metadata.conversation_id",
    ),
    "user": ("extra.metadata.user_id",),
    "start": ("start_time",),
    "end": ("end_time",),
    "error": ("error",),
    "text": ("inputs",),
    "offered": ("extra.invocation_params.tools", "extra.invocation_params.functions", "inputs.tools"),
    "requested": ("outputs",),
    "call_id": ("extra.tool_call_id", "outputs.output.tool_call_id"),
    "success": ("feedback_stats",),
    "input_tokens": (
        "prompt_tokens",
        "extra.metadata.usage_metadata.input_tokens",
        "outputs.llm_output.token_usage.prompt_tokens",
    ),
    "cached_tokens": ("extra.metadata.usage_metadata.input_token_details.cache_read",),
    "output_tokens": (
        "completion_tokens",
        "extra.metadata.usage_metadata.output_tokens",
        "outputs.llm_output.token_usage.completion_tokens",
    ),
}
"""Runs. The field `session_id` is the project, not the conversation."""

LANGSMITH_SPAN: FieldNames = {
    "run_type": ("langsmith.span.kind",),
    "name": ("langsmith.trace.name",),
    "inputs": ("gen_ai.prompt",),
    "outputs": ("gen_ai.completion",),
    "tools": ("gen_ai.tool.definitions",),
    "tool_call_id": ("gen_ai.tool.call.id",),
    "prompt_tokens": ("gen_ai.usage.input_tokens",),
    "completion_tokens": ("gen_ai.usage.output_tokens",),
}
"""What LangSmith's OpenTelemetry calls the fields of a run; the metadata is there piece by piece."""

LANGFUSE: FieldNames = {
    "trace_id": ("traceId", "trace_id"),
    "span_id": ("id",),
    "parent_id": ("parentObservationId", "parent_observation_id"),
    "kind": ("type",),
    "name": ("name",),
    "model": ("model", "providedModelName", "provided_model_name"),
    "conversation": ("sessionId", "session_id", "trace.sessionId", "metadata.thread_id"),
    "user": ("userId", "user_id", "trace.userId", "user.id"),
    "service": ("service_name", "metadata.resourceAttributes.service.name"),
    "start": ("startTime", "start_time"),
    "end": ("endTime", "end_time"),
    "error": ("level",),
    "text": ("input",),
    "offered": ("toolDefinitions", "tool_definitions", "input.tools"),
    "requested": ("toolCallNames", "tool_call_names", "output"),
    "call_id": ("metadata.tool_call_id", "output.tool_call_id"),
    "success": ("scores", "trace.scores"),
    "input_tokens": ("usageDetails.input", "usage_details.input", "usage.input"),
    "cached_tokens": (
        "usageDetails.input_cached_tokens",
        "usage_details.input_cached_tokens",
        "usageDetails.cache_read_input_tokens",
        "usage_details.cache_read_input_tokens",
        "usageDetails.input_cache_read",
        "usage_details.input_cache_read",
    ),
    "output_tokens": ("usageDetails.output", "usage_details.output", "usage.output"),
}
"""Observations, of the API (camel case) and of blob storage (snake case)."""

MLFLOW: FieldNames = {
    "kind": ("mlflow.spanType",),
    "tool": ("name",),
    "model": ("mlflow.llm.model",),
    "conversation": ("mlflow.trace.session", "kwargs.run_config.group_id"),
    "user": ("mlflow.trace.user",),
    "text": ("mlflow.spanInputs",),
    "offered": ("mlflow.chat.tools", "mlflow.spanInputs"),
    "requested": ("mlflow.spanOutputs",),
    "call_id": ("tool_call_id",),
    "metadata": ("metadata",),
    "success": ("assessments",),
    "input_tokens": ("mlflow.chat.tokenUsage.input_tokens",),
    "cached_tokens": ("mlflow.chat.tokenUsage.cache_read_input_tokens",),
    "output_tokens": ("mlflow.chat.tokenUsage.output_tokens",),
}
"""Attributes of spans; `mlflow.trace.session` and `assessments` stand in the trace's info."""

DECISION: FieldNames = {
    "ranked": ("camdf.ranking.names",),
    "scores": ("camdf.ranking.scores",),
    "explored": ("camdf.explored",),
    "mode": ("camdf.mode",),
}
"""A gate's decision: in the span event `camdf.decision`, or in a span's attributes or metadata."""

STEP = ("metadata", "output.value", "mlflow.spanOutputs")
PIECES = "langfuse.observation.metadata."
"""Where the tracers of frameworks keep what a step named `camdf.decision` holds: whole, or piece by piece."""

OTEL_SPAN: FieldNames = {
    "trace_id": ("traceId", "trace_id", "TraceId", "context.trace_id"),
    "span_id": ("spanId", "span_id", "SpanId", "context.span_id"),
    "parent_id": ("parentSpanId", "parent_span_id", "ParentSpanId", "parent_id"),
    "name": ("name", "SpanName"),
    "start": ("startTimeUnixNano", "start_time_unix_nano", "Timestamp", "start_time"),
    "end": ("endTimeUnixNano", "end_time_unix_nano", "end_time"),
    "duration": ("Duration", "duration_ns", "duration_time_unix_nano"),
    "status": ("status.code", "status.status_code", "StatusCode", "status_code"),
    "span_kind": ("span_kind",),
    "attributes": ("attributes", "SpanAttributes", "span_attributes"),
    "events": ("events", "Events", "events_json"),
    "service": ("ServiceName", "service_name"),
    "resource": ("resource",),
    "dropped_attributes": ("droppedAttributesCount", "dropped_attributes_count"),
    "dropped_events": ("droppedEventsCount", "dropped_events_count"),
    "dropped_links": ("droppedLinksCount", "dropped_links_count"),
}
"""The fields of every OpenTelemetry span, by their names in OTLP JSON, the Python SDK, Phoenix, MLflow and Parquet."""

OUTCOMES = frozenset(
    {"success", "task_success", "task_completion", "outcome", "correct", "correctness", "pass", "passed", "resolved"}
)
"""Evaluations, feedback and scores with these names are outcomes of a run; all others are ignored."""

GOOD = frozenset({"true", "yes", "pass", "passed", "correct", "success", "resolved", "good", "complete"})
BAD = frozenset({"false", "no", "fail", "failed", "incorrect", "failure", "unresolved", "bad", "incomplete"})
"""The words for outcomes. As a number, half and more is a success."""

"""The tables that ``mcpproxy export parquet`` writes; ``report_queries/README.md`` says what columns mean.

Columns are only added, which does not change ``VERSION``. The columns ``date`` and ``server`` are in no file:
they are the names of its folders.
"""

from typing import Any, Final

from mcpproxy.send.fleet.columns.arrow import Schema, pa

VERSION: Final = 1
"""The version of the columns."""

_TIME: Final[Any] = pa.timestamp("us", tz="UTC")
_WORD: Final[Any] = pa.dictionary(pa.int32(), pa.string())
"""A text that occurs often. In a file it is a plain string."""

_SESSION: Final[Any] = pa.struct(
    [
        ("session", pa.int32()),
        ("client", pa.string()),
        ("client_version", pa.string()),
        ("server", pa.string()),
        ("server_version", pa.string()),
        ("protocol", pa.string()),
        ("revision", pa.string()),
        ("calls", pa.int64()),
        ("errors", pa.int64()),
    ]
)

RECORDINGS: Final[Schema] = pa.schema(
    [
        ("recording", pa.string()),
        ("label", pa.string()),
        ("transport", pa.string()),
        ("client", pa.string()),
        ("client_version", pa.string()),
        ("server_name", pa.string()),
        ("server_version", pa.string()),
        ("protocol", pa.string()),
        ("revision", pa.string()),
        ("started", _TIME),
        ("duration_ns", pa.int64()),
        ("ending", pa.string()),
        ("exit_code", pa.int32()),
        ("complete", pa.bool_()),
        ("notes", pa.list_(pa.string())),
        ("frames", pa.int64()),
        ("bytes", pa.int64()),
        ("errors", pa.int64()),
        ("warnings", pa.int64()),
        ("infos", pa.int64()),
        ("judged_by", pa.string()),
        ("mcpproxy", pa.string()),
        ("sessions", pa.list_(_SESSION)),
    ]
)

FRAMES: Final[Schema] = pa.schema(
    [
        ("recording", _WORD),
        ("frame", pa.int64()),
        ("time", _TIME),
        ("sender", _WORD),
        ("kind", _WORD),
        ("method", _WORD),
        ("tool", _WORD),
        ("session", pa.int32()),
        ("call", pa.int64()),
        ("outcome", _WORD),
        ("error_code", pa.int32()),
        ("latency_ns", pa.int64()),
        ("waited_ns", pa.int64()),
        ("bytes", pa.int64()),
        ("answer_bytes", pa.int64()),
        ("exchange", pa.int64()),
    ]
)

FINDINGS: Final[Schema] = pa.schema(
    [
        ("recording", pa.string()),
        ("time", _TIME),
        ("rule", pa.string()),
        ("severity", pa.string()),
        ("blame", pa.string()),
        ("count", pa.int64()),
        ("frame", pa.int64()),
        ("method", pa.string()),
        ("tool", pa.string()),
        ("session", pa.int32()),
        ("client", pa.string()),
        ("client_version", pa.string()),
        ("server_version", pa.string()),
        ("revision", pa.string()),
        ("requirement", pa.string()),
        ("fingerprint", pa.string()),
        ("judged_by", pa.string()),
    ]
)

TOOLS: Final[Schema] = pa.schema(
    [
        ("recording", pa.string()),
        ("time", _TIME),
        ("session", pa.int32()),
        ("server_version", pa.string()),
        ("tool", pa.string()),
        ("listed", pa.bool_()),
        ("sha256", pa.string()),
        ("bytes", pa.int64()),
        ("tokens", pa.int64()),
        ("calls", pa.int64()),
    ]
)

TURNS: Final[Schema] = pa.schema(
    [
        ("recording", pa.string()),
        ("time", _TIME),
        ("frame", pa.int64()),
        ("dialect", pa.string()),
        ("model", pa.string()),
        ("user_agent", pa.string()),
        ("status", pa.int32()),
        ("whole", pa.bool_()),
        ("tools", pa.int64()),
        ("results", pa.int64()),
        ("calls", pa.list_(pa.string())),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
    ]
)

TABLES: Final[dict[str, Schema]] = {
    "recordings": RECORDINGS,
    "frames": FRAMES,
    "findings": FINDINGS,
    "tools": TOOLS,
    "turns": TURNS,
}


def in_file(schema: Schema) -> Schema:
    """Return the schema that a file has: without dictionaries."""
    fields = [pa.field(field.name, pa.string() if field.type == _WORD else field.type) for field in schema]
    return pa.schema(fields)

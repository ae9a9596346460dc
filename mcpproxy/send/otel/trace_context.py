"""Ids of traces and spans: derived from the recording, or sent along by a peer (W3C Trace Context).

A derived id is a hash, so the spans of a recording have the same ids each time that they are made. A backend
that gets a span twice can recognise it. In the functions, ``recording`` is the id of a recording, and
``session`` the name of a session in it.
"""

from collections.abc import Mapping
from hashlib import sha256

from opentelemetry.trace import SpanContext, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.record.trace.records import Header

_PROPAGATOR = TraceContextTextMapPropagator()


def recording_id(header: Header) -> str:
    """Return the id of a recording; its masked or trimmed copies have the same."""
    return _digest(header.started_at, header.started_ns, header.pid)[:16].hex()


def trace_id(recording: str, session: str) -> int:
    """Return the trace id of the calls in a session that name no trace."""
    return int.from_bytes(_digest(recording, "session", session)[:16])


def session_span_id(recording: str, session: str) -> int:
    """Return the id of the span of a session."""
    return int.from_bytes(_digest(recording, "session span", session)[:8])


def span_id(recording: str, seq: int, element: int) -> int:
    """Return the id of the span of a request in frame ``seq``; ``element`` is its place in a batch, or 0."""
    return int.from_bytes(_digest(recording, "frame", seq, element)[:8])


def local(trace_id: int, span_id: int, caller: SpanContext | None = None) -> SpanContext:
    """Return the context of a span of ours, with the flags and the trace state of ``caller``."""
    if caller is None:
        return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return SpanContext(trace_id, span_id, False, caller.trace_flags, caller.trace_state)


def remote(carrier: Mapping[str, object]) -> SpanContext | None:
    """Return the context that ``traceparent`` and ``tracestate`` of ``carrier`` name; ``None`` if not valid.

    Source: https://www.w3.org/TR/trace-context/
    """
    fields = {
        name: value
        for name in ("traceparent", "tracestate")
        if isinstance(value := carrier.get(name), str) and len(value) <= _LONGEST_FIELD
    }
    if "traceparent" not in fields:
        return None
    context = get_current_span(_PROPAGATOR.extract(fields)).get_span_context()
    return context if context.is_valid else None


def of_fields(fields: Fields) -> SpanContext | None:
    """Return the context that the header fields of an HTTP request name; ``None`` if they name none."""
    return remote({name: fields.get(name) for name in ("traceparent", "tracestate")})


_LONGEST_FIELD = 8192
"""How many characters of a field are read; a longer one counts as missing."""


def _digest(*parts: object) -> bytes:
    return sha256("\0".join(map(str, parts)).encode("utf-8", "replace")).digest()

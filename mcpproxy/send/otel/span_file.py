"""Spans as one ``ExportTraceServiceRequest``, in protobuf or in the JSON form of OTLP."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

_IDS: Final = ("traceId", "spanId", "parentSpanId")
"""The members of spans and links that are ids."""


def protobuf_pieces(batches: Iterable[Sequence[ReadableSpan]]) -> Iterator[bytes]:
    """Yield the pieces of a file with the spans of all batches.

    Protobuf reads concatenated messages as one message with joined lists.
    """
    for spans in batches:
        yield encode_spans(spans).SerializeToString(deterministic=True)


def json_pieces(batches: Iterable[Sequence[ReadableSpan]]) -> Iterator[bytes]:
    """Yield the pieces of a JSON file with these spans. Its ids are hexadecimal, unlike in protobuf's JSON.

    Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
    """
    separator = b'{"resourceSpans":['
    for spans in batches:
        for resource_spans in _resource_spans(spans):
            yield separator + json.dumps(resource_spans, separators=(",", ":")).encode()
            separator = b","
    yield b"]}\n" if separator == b"," else separator + b"]}\n"


def _resource_spans(spans: Sequence[ReadableSpan]) -> list[Any]:
    request: dict[str, Any] = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource_spans in request["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                for members in (span, *span.get("links", ())):
                    for name in _IDS:
                        if name in members:
                            members[name] = b64decode(members[name]).hex()
    return request["resourceSpans"]

"""Spans as one ``ExportTraceServiceRequest``, in protobuf or in the JSON form of OTLP."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

_IDS: Final = ("traceId", "spanId", "parentSpanId")


def protobuf_pieces(batches: Iterable[Sequence[ReadableSpan]]) -> Iterator[bytes]:
    """Yield the pieces of a file with the spans of all batches.

    Protobuf reads concatenated messages as one message with joined lists.
    """
    for spans in batches:
        yield encode_spans(spans).SerializeToString(deterministic=True)


def json_pieces(batches: Iterable[Sequence[ReadableSpan]]) -> Iterator[bytes]:
    """Yield the pieces of the same file as JSON. OTLP has hexadecimal ids there, unlike protobuf's own JSON.

    Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
    """
    separator = b'{"resourceSpans":['
    for spans in batches:
        for of_resource in _resource_spans(spans):
            yield separator + json.dumps(of_resource, separators=(",", ":")).encode()
            separator = b","
    yield b"]}\n" if separator == b"," else separator + b"]}\n"


def _resource_spans(spans: Sequence[ReadableSpan]) -> list[Any]:
    request: dict[str, Any] = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for of_resource in request["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                for identified in (span, *span.get("links", ())):
                    for name in _IDS:
                        if name in identified:
                            identified[name] = b64decode(identified[name]).hex()
    return request["resourceSpans"]

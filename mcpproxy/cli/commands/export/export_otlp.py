"""``mcpproxy export otlp``: the spans of a recording, in a file or to a collector of OpenTelemetry."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import count
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, move_url
from mcpproxy.cli.output import check_new, write_new
from mcpproxy.cli.terminal import tell
from mcpproxy.send.otel import collector_url

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from mcpproxy.read.view.view import View
    from mcpproxy.send.otel.span_reader import SpanReader

EPILOG: Final = """\
Each request is a span, with the findings about it as events; mcpproxy/send/otel/README.md has the names. A
file holds one ExportTraceServiceRequest in protobuf. A collector is reached over HTTP; /v1/traces is added to
URL unless URL ends with it. OTEL_* variables count: headers, certificates, compression, attributes of the
resource.

  mcpproxy export otlp session.jsonl                            writes session.otlp
  mcpproxy export otlp session.jsonl --json                     writes session.otlp.json
  mcpproxy export otlp session.jsonl http://127.0.0.1:4318      sends"""


def run(argv: list[str]) -> int:
    """Write or send the spans of one recording.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, the file cannot be written,
            or the spans did not arrive.
    """
    parser = Parser("export otlp", "Write or send a recording as spans of OpenTelemetry.", EPILOG)
    parser.add_argument("trace", nargs="?", metavar="TRACE", help="the recording; without it the latest")
    parser.add_argument("url", nargs="?", metavar="URL", help="send the spans to the collector there")
    parser.add_argument("-o", "--output", metavar="OUT", help="the new file; without it beside the recording")
    parser.add_argument("--json", action="store_true", dest="as_json", help="write JSON instead of protobuf")
    parser.add_argument(
        "--content", action="store_true", help="also arguments and results, up to 8192 characters each"
    )
    parser.add_argument("--keep-secrets", action="store_true", help="mask nothing that looks like a secret")
    options = parser.parse_args(argv)
    move_url(options)
    url: str | None = options.url
    if url is not None and (options.output or options.as_json):
        unfit = "--json" if options.as_json else "-o"
        raise UsageError("export otlp", f"{unfit} is for a file, and {url} is a collector", "leave one out")
    if url is not None:
        collector_url.check("export otlp", url)
    path = find_traces.one(options.trace)
    suffix = ".otlp.json" if options.as_json else ".otlp"
    where = url or options.output or find_traces.stem(options.trace, path) + suffix
    if url is None:
        check_new(where)
    collector_url.check_installed("export otlp")

    from mcpproxy.read.view.view import open_view
    from mcpproxy.send.otel.span_reader import SpanReader

    with open_view(path) as view:
        reader = SpanReader(view, content=options.content, masks=not options.keep_secrets)
        span_count = (
            _write_spans(reader, where, as_json=options.as_json) if url is None else _send_spans(reader, url)
        )
        _tell_counts(view, reader, where, span_count)
    return 0


def _tell_counts(view: "View", reader: "SpanReader", where: str, span_count: int) -> None:
    left_out = f", {reader.not_sampled} left out (not sampled by their callers)" * bool(reader.not_sampled)
    tell(f"{where}: {count(span_count, 'span')}{left_out}")
    for reason in (view.not_judged, *view.notes):
        if reason:
            tell(f"{view.path}: {reason}")


def _send_spans(reader: "SpanReader", url: str) -> int:
    from mcpproxy.send.otel.collector import Collector

    span_count = 0
    collector = Collector(url)
    for spans in _batches(reader, Collector.BATCH):
        collector.send(spans)
        span_count += len(spans)
    return span_count


def _write_spans(reader: "SpanReader", path: str, *, as_json: bool) -> int:
    """Write the spans into a new file, and return how many."""
    from mcpproxy.send.otel.span_file import json_pieces, protobuf_pieces

    span_count = 0

    def counted() -> Iterator["list[ReadableSpan]"]:
        nonlocal span_count
        for spans in _batches(reader, 2000):
            span_count += len(spans)
            yield spans

    write_new(path, (json_pieces if as_json else protobuf_pieces)(counted()))
    return span_count


def _batches(reader: "SpanReader", size: int) -> Iterator["list[ReadableSpan]"]:
    """Yield all spans in lists of at most ``size``."""
    batch: list[ReadableSpan] = []
    for part in (reader.read, reader.finish):
        for span in part():
            batch.append(span)
            if len(batch) == size:
                yield batch
                batch = []
    if batch:
        yield batch

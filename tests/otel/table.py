"""The spans of recordings as text, to be compared with ``spans.txt``.

``python -m tests.otel.table`` writes that file anew, after a change that is meant.
"""

import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.otel.decoding import Span, exported
from tests.otel.sessions import SESSIONS
from tests.view.situations import SITUATIONS, write

GOLDEN: Final = Path(__file__).with_name("spans.txt")
CONVENTIONS: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("conventions.toml").read_text(encoding="utf-8")
)
RECORDINGS: Final = Path(__file__).parents[2] / "recordings"
NAMES: Final = (*SITUATIONS, *SESSIONS, *(path.stem for path in sorted(RECORDINGS.glob("*.jsonl"))))

IN_ALL: Final = ("mcpproxy.request.size", "mcpproxy.answer.size", "jsonrpc.request.id", "network.transport")
"""Attributes that would only make the table longer."""


def trace_of(name: str, folder: Path) -> str:
    """Return the recording of this name, written to ``folder`` if it is not one that ships."""
    records = SITUATIONS.get(name) or SESSIONS.get(name)
    return write(folder / "s.jsonl", records) if records else str(RECORDINGS / f"{name}.jsonl")


def lines(spans: Sequence[Span]) -> Iterator[str]:
    """Yield a line for each span, with its attributes, events and links below it."""
    first_ns = min((span.started_ns for span in spans), default=0)
    names = {span.id: span.name for span in spans}
    for span in spans:
        start_ms, took_ms = (span.started_ns - first_ns) / 1e6, (span.ended_ns - span.started_ns) / 1e6
        above = f" in {names.get(span.parent, 'another')}" if span.parent else ""
        failed = f" ERROR {span.why}".rstrip() if span.error else ""
        yield f"{start_ms:.1f} +{took_ms:.1f} {span.kind} {span.name}{above}{failed}"
        yield f"    {_shown({name: value for name, value in span.said.items() if name not in IN_ALL})}"
        for event in span.events:
            yield f"    {(event.at_ns - first_ns) / 1e6:.1f} {event.name} {_shown(event.said)}"
        yield from (f"    {what}: {names.get(id, 'another')}" for what, id in span.links)


def table(name: str, folder: Path) -> str:
    """Return the section of ``spans.txt`` for one recording."""
    spans = exported(trace_of(name, folder), folder / "s.otlp")
    return "".join(f"{line}\n" for line in (f"== {name}", *lines(spans), ""))


def _shown(said: dict[str, Any]) -> str:
    return " ".join(f"{name.removeprefix('mcpproxy.')}={value}" for name, value in said.items())


def main() -> None:
    sections: list[str] = []
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            sections.append(table(name, Path(folder)))
    GOLDEN.write_text("".join(sections), encoding="utf-8")
    sys.stdout.write(f"{GOLDEN}: {len(sections)} recordings\n")


if __name__ == "__main__":
    main()

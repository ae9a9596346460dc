"""Write test reports as JUnit XML, for build servers that show tests.

The format has no standard. The output is valid under two common schemas: the schema of Jenkins, and Windy
Road's schema of the reports that Apache Ant writes. But output with skipped cases is valid only under the
first schema. Only the second schema needs the ``properties``, ``hostname`` and ``timestamp`` of a suite and
its empty ``system-err``. Characters that XML does not allow are written as the escapes of
``mcpproxy.base.visible``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from xml.sax.saxutils import escape, quoteattr

import mcpproxy
from mcpproxy.base.visible import visible, visible_lines

Status = Literal["passed", "failed", "error", "skipped"]

_ELEMENT: Final[dict[Status, str]] = {"failed": "failure", "error": "error"}


@dataclass(frozen=True, slots=True)
class Case:
    """One test. A build server recognises it in the next run by ``classname`` and ``name``.

    ``seconds`` is the duration of the test. For a test that did not pass, ``message`` says why in one line,
    ``text`` in full, and ``kind`` in a few words.
    """

    classname: str
    name: str
    seconds: float = 0.0
    status: Status = "passed"
    message: str = ""
    text: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """A group of tests. ``notes`` are lines about the whole group."""

    name: str
    cases: Sequence[Case]
    notes: Sequence[str] = ()


def lines(suites: Iterable[Suite], written_at: datetime | None = None) -> Iterator[str]:
    """Yield the lines of the document. ``written_at`` is the time in it, by default now."""
    timestamp = (written_at or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<testsuites>"
    for number, suite in enumerate(suites):
        yield from _suite(number, suite, timestamp)
    yield "</testsuites>"


def _suite(number: int, suite: Suite, timestamp: str) -> Iterator[str]:
    counts = Counter(case.status for case in suite.cases)
    seconds = sum(case.seconds for case in suite.cases)
    name = _attribute(suite.name or "mcpproxy")
    skipped = f' skipped="{counts["skipped"]}"' if counts["skipped"] else ""
    yield (
        f'<testsuite id="{number}" package="mcpproxy" name={name} timestamp="{timestamp}" '
        f'hostname="localhost" time="{seconds:.3f}" tests="{len(suite.cases)}" '
        f'failures="{counts["failed"]}" errors="{counts["error"]}"{skipped}>'
    )
    yield f'<properties><property name="mcpproxy" value={_attribute(mcpproxy.__version__)}/></properties>'
    for case in suite.cases:
        yield from _case(case)
    notes = "\n".join(suite.notes)
    yield f"<system-out>{_content(notes)}</system-out>"
    yield "<system-err></system-err>"
    yield "</testsuite>"


def _case(case: Case) -> Iterator[str]:
    names = f"classname={_attribute(case.classname)} name={_attribute(case.name)}"
    head = f'<testcase {names} time="{case.seconds:.3f}"'
    if case.status == "passed":
        yield f"{head}/>"
        return
    yield f"{head}>"
    if case.status == "skipped":
        # The reason is written as text, because not every schema has an attribute for it.
        yield f"<skipped>{_content(case.message or case.text)}</skipped>"
    else:
        element = _ELEMENT[case.status]
        yield (
            f"<{element} type={_attribute(case.kind or case.status)} message={_attribute(case.message)}>"
            f"{_content(case.text or case.message)}</{element}>"
        )
    yield "</testcase>"


def _attribute(text: str) -> str:
    return quoteattr(visible(text))


def _content(text: str) -> str:
    return escape(visible_lines(text))

"""Test reports as JUnit XML, for build servers that show tests.

There is no single schema. The output is valid under the schema of Jenkins and, unless a case is skipped,
under Windy Road's schema of Apache Ant's reports. The latter requires a property, a host and a time in each
suite, and the empty elements at its end. Characters that XML does not allow are escaped by ``visible``.
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
    """One test: a build server identifies it across runs by ``classname`` and ``name``.

    ``message`` is one line that says why it did not pass, and ``text`` the full explanation. ``kind`` is one
    word for what went wrong. ``seconds`` is how long it took.
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
    """A group of tests; ``notes`` are lines about all of them."""

    name: str
    cases: Sequence[Case]
    notes: Sequence[str] = ()


def lines(suites: Iterable[Suite], written_at: datetime | None = None) -> Iterator[str]:
    """Return the lines of the document. ``written_at`` defaults to now."""
    at = (written_at or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<testsuites>"
    for number, suite in enumerate(suites):
        yield from _suite(number, suite, at)
    yield "</testsuites>"


def _suite(number: int, suite: Suite, at: str) -> Iterator[str]:
    counts = Counter(case.status for case in suite.cases)
    seconds = sum(case.seconds for case in suite.cases)
    name = _attribute(suite.name or "mcpproxy")
    skipped = f' skipped="{counts["skipped"]}"' if counts["skipped"] else ""
    yield (
        f'<testsuite id="{number}" package="mcpproxy" name={name} timestamp="{at}" hostname="localhost" '
        f'time="{seconds:.3f}" tests="{len(suite.cases)}" failures="{counts["failed"]}" '
        f'errors="{counts["error"]}"{skipped}>'
    )
    yield f'<properties><property name="mcpproxy" value={_attribute(mcpproxy.__version__)}/></properties>'
    for case in suite.cases:
        yield from _case(case)
    yield f"<system-out>{_content(chr(10).join(suite.notes))}</system-out>"
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
        # The reason is written as text: the older schema has no attribute for it.
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

"""A validation as text: the checks in order, each with a mark, followed by the verdict.

Separate functions return the parts, so that a running validation can print each check as it ends.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.style import PLAIN, Colour, Style, count
from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.validate.outcome import STATUSES, CheckResult, Status, Validation, Verdict

_MARKS: Final[dict[Status, tuple[str, Colour]]] = {
    "passed": ("ok", "green"),
    "failed": ("FAIL", "red"),
    "warning": ("warn", "yellow"),
    "skipped": ("skip", "blue"),
}
_COLOURS: Final[dict[Verdict, Colour]] = {"valid": "green", "invalid": "red", "undecided": "yellow"}


def lines(validation: Validation, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of the whole run."""
    yield header(validation.server, validation.target, style)
    for revision in validation.revisions or ("",):
        yield from revision_header(revision, validation.transport, style)
        checks = [check for check in validation.checks if check.revision == revision]
        for previous, check in zip((None, *checks), checks, strict=False):
            yield from next_check(previous, check, style)
    yield from end(validation, style)


def header(server: JSONObject, target: str, style: Style = PLAIN) -> str:
    """Return the first line: the name and version of the server, and how it is reached."""
    name = f"{server.get('name', 'a server without name')} {server.get('version', '')}".strip()
    return f"{style.paint(visible(name), 'bold')}  {visible(target)}"


def revision_header(revision: str, transport: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines before the checks of a revision."""
    yield ""
    yield style.paint(visible(f"revision {revision}, {transport}"), "bold")


def next_check(previous: CheckResult | None, check: CheckResult, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a check. If ``previous`` has another category, the first line is the category.

    Without a session every check is skipped, and only the first of them is told.
    """
    if _lacks_session(check) and previous and _lacks_session(previous):
        return
    if previous is None or previous.category != check.category:
        yield f"  {check.category}"
    yield from check_lines(check, style)


def _lacks_session(check: CheckResult) -> bool:
    return check.status == "skipped" and check.conclusion.message.startswith("there is no session: ")


def end(validation: Validation, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines after the checks: notes on checks that were not done, and the summary."""
    yield ""
    for note in validation.notes:
        yield f"note: {visible(note)}"
    yield from summary(validation, style)


def summary(validation: Validation, style: Style = PLAIN) -> Iterator[str]:
    """Yield the counts, the verdict, and commands that show more."""
    counts = validation.counts
    counted = ", ".join(
        count(counts[status], status) if status == "warning" else f"{counts[status]} {status}"
        for status in STATUSES
    )
    yield f"Summary: {counted}{f', {validation.known} known' if validation.known else ''}"
    if validation.is_interrupted:
        yield style.paint("interrupted", "bold", "yellow")
    else:
        yield style.paint(validation.verdict, "bold", _COLOURS[validation.verdict])
    bad = [c for c in validation.checks if c.status in ("failed", "warning") and not c.is_known]
    if with_frames := next((check for check in bad if check.trace and check.conclusion.frames), None):
        yield style.paint(f"The messages: mcpproxy show {visible(with_frames.trace)}", "dim")
    if rule := next((check.conclusion.rule for check in bad if check.conclusion.rule), ""):
        yield style.paint(f"What a rule means: mcpproxy explain {visible(rule)}", "dim")


def check_lines(check: CheckResult, style: Style = PLAIN) -> Iterator[str]:
    """Yield one check: its mark, name and result, then the evidence if it failed or gave a warning."""
    mark, colour = ("known", "blue") if check.is_known else _MARKS[check.status]
    took = f" ({check.duration_ms:.0f} ms)" if check.duration_ms >= 1000 else ""
    name = visible(check.name) + (" and all after it" if _lacks_session(check) else "")
    yield f"    {style.paint(f'{mark:<6}', colour)}{name}: {visible(check.conclusion.message)}{took}"
    if check.status not in ("failed", "warning"):
        return
    parts: list[str] = []
    if frames := check.conclusion.frames:
        noun = "frame" if len(frames) == 1 else "frames"
        parts.append(f"{noun} {', '.join(map(str, frames[:8]))} of {visible(check.trace)}")
    if check.conclusion.rule and not check.name.startswith(check.conclusion.rule):
        parts.append(visible(check.conclusion.rule))
    parts += [visible(check.conclusion.source)] if check.conclusion.source else []
    if parts:
        yield style.paint(f"          {'  '.join(parts)}", "dim")

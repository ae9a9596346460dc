"""A validation as text: the checks by category, each with a mark, followed by the verdict."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from mcpproxy.base.style import PLAIN, Colour, Style, count
from mcpproxy.base.visible import visible
from mcpproxy.validate.outcome import CATEGORIES, STATUSES, CheckResult, Status, Validation

_MARKS: Final[dict[Status, tuple[str, Colour]]] = {
    "passed": ("ok", "green"),
    "failed": ("FAIL", "red"),
    "warning": ("warn", "yellow"),
    "skipped": ("skip", "blue"),
}


def lines(validation: Validation, style: Style = PLAIN) -> Iterator[str]:
    """Return the lines of the whole run."""
    info = validation.server
    server = f"{info.get('name', 'a server without name')} {info.get('version', '')}".strip()
    yield f"{style.paint(visible(server), 'bold')}  {visible(validation.target)}"
    for revision in validation.revisions or ("",):
        checks = [check for check in validation.checks if check.revision == revision]
        yield ""
        yield style.paint(visible(f"revision {revision}, {validation.transport}"), "bold")
        yield from _by_category(checks, style)
    yield ""
    for note in validation.notes:
        yield f"note: {visible(note)}"
    yield from summary(validation, style)


def summary(validation: Validation, style: Style = PLAIN) -> Iterator[str]:
    """Return the counts, the verdict, and where to find more."""
    counts = validation.counts
    counted = ", ".join(
        count(counts[one], one) if one == "warning" else f"{counts[one]} {one}" for one in STATUSES
    )
    yield f"Summary: {counted}{f', {validation.known} known' if validation.known else ''}"
    if validation.is_valid:
        yield style.paint("valid", "bold", "green")
    else:
        yield style.paint("invalid", "bold", "red")
    bad = [c for c in validation.checks if c.status in ("failed", "warning") and not c.is_known]
    if shown := next((check for check in bad if check.trace and check.conclusion.frames), None):
        yield style.paint(f"The messages: mcpproxy show {visible(shown.trace)}", "dim")
    if ruled := next((check for check in bad if check.conclusion.rule), None):
        yield style.paint(f"What a rule means: mcpproxy explain {visible(ruled.conclusion.rule)}", "dim")


def _by_category(checks: Sequence[CheckResult], style: Style) -> Iterator[str]:
    ordered = sorted(checks, key=lambda check: CATEGORIES.index(check.category))
    for category, group in groupby(ordered, key=lambda check: check.category):
        yield f"  {category}"
        for check in group:
            yield from check_lines(check, style)


def check_lines(check: CheckResult, style: Style = PLAIN) -> Iterator[str]:
    """Return one check: its mark, name and result, followed by the evidence if it failed."""
    mark, colour = ("know", "blue") if check.is_known else _MARKS[check.status]
    took = f" ({check.duration_ms:.0f} ms)" if check.duration_ms >= 1000 else ""
    name = visible(check.name)
    yield f"    {style.paint(f'{mark:<5}', colour)}{name}: {visible(check.conclusion.message)}{took}"
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
        yield style.paint(f"         {'  '.join(parts)}", "dim")

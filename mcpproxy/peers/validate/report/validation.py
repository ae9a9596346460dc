"""Formats a validation as test runners do: a mark for each check, the failures, and one line of counts.

Separate functions return the parts, so that a running validation can print each mark when its check ends.
"""

import os
import shlex
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from mcpproxy.base.style import PLAIN, Colour, Style, count, duration
from mcpproxy.base.visible import visible
from mcpproxy.peers.validate.outcome import CheckResult, Status, Validation, Verdict
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports.located import recording_name

Detail = Literal["failures", "marks", "checks"]
"""How much is printed: only the failures and the counts, or before them a mark or a line for each check."""

MARKS_IN_LINE: Final = 60
"""How many marks are on one line."""

_APPEARANCES: Final[dict[Status, tuple[str, str, Colour]]] = {
    "passed": ("ok", ".", "green"),
    "failed": ("FAIL", "F", "red"),
    "warning": ("warn", "W", "yellow"),
    "info": ("info", "i", "cyan"),
    "skipped": ("skip", "s", "blue"),
}
"""By status: its word, its mark, and the colour of both."""
_KNOWN: Final[tuple[str, str, Colour]] = ("known", "x", "blue")
"""The same for a result that the user's baseline accepts, whatever its status."""
_COLOURS: Final[dict[Verdict, Colour]] = {"valid": "green", "invalid": "red", "undecided": "yellow"}
_MAX_FRAMES: Final = 8
"""How many frames of a check are named at most."""


def lines(
    validation: Validation, catalogue: Catalogue, style: Style = PLAIN, detail: Detail = "marks"
) -> Iterator[str]:
    """Yield the lines of the whole run. ``catalogue`` has the sentences of the specification."""
    if detail != "failures":
        yield header(validation.server or validation.client, validation.target, style)
        for revision in validation.revisions or ("",):
            checks = [check for check in validation.checks if check.revision == revision]
            yield from revision_lines(revision, validation.transport, checks, style, detail)
    yield from end(validation, catalogue, style, detail)


def header(tested: JSONObject, target: str, style: Style = PLAIN) -> str:
    """Return the first line: name and version of the server or client, and how it is reached or started."""
    name = f"{tested.get('name', 'a server without name')} {tested.get('version', '')}".strip()
    return f"{style.paint(visible(name), 'bold')}  {visible(target)}"


def revision_lines(
    revision: str, transport: str, checks: list[CheckResult], style: Style = PLAIN, detail: Detail = "marks"
) -> Iterator[str]:
    """Yield the checks of a revision: their marks, or a line for each."""
    if detail == "checks":
        yield from revision_header(revision, transport, style)
        for previous, check in zip((None, *checks), checks, strict=False):
            yield from next_check(previous, check, style)
        return
    for start in range(0, len(checks) or 1, MARKS_IN_LINE):
        marks = "".join(mark(check, style) for check in checks[start : start + MARKS_IN_LINE])
        yield margin(revision, transport, start) + marks


def revision_header(revision: str, transport: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines before the lines of the checks of a revision."""
    yield ""
    yield style.paint(visible(f"{revision} on {transport}"), "bold")


def margin(revision: str, transport: str, number: int) -> str:
    """Return the text before the marks of a line: the revision and the transport, or as many spaces.

    ``number`` is the index of the first check on the line; only the first line, at 0, has the text.
    """
    text = visible(f"{revision} on {transport}  ")
    return " " * len(text) if number else text


def mark(check: CheckResult, style: Style = PLAIN) -> str:
    """Return the character for a check."""
    _, character, colour = _appearance(check)
    return style.paint(character, colour)


def next_check(previous: CheckResult | None, check: CheckResult, style: Style = PLAIN) -> Iterator[str]:
    """Yield the line of a check: the word for its status, its category, its name and its result.

    Without a session every check is skipped; only the first of them gets a line. ``previous`` is the check
    before it, if there is one.
    """
    if _lacks_session(check) and previous and _lacks_session(previous):
        return
    name = visible(check.name) + (" and all after it" if _lacks_session(check) else "")
    yield f"  {_word(check, style)}{check.category:<12}{name}: {_message(check)}"


def _lacks_session(check: CheckResult) -> bool:
    return check.status == "skipped" and check.conclusion.message.startswith("there is no session: ")


def end(
    validation: Validation, catalogue: Catalogue, style: Style = PLAIN, detail: Detail = "marks"
) -> Iterator[str]:
    """Yield the lines after the checks: the notes, the failures, warnings and infos, and the summary.

    Checks that make the server invalid come last, directly above the summary. With the detail ``failures``,
    infos and warnings that do not count are left out.
    """
    yield from () if detail == "failures" else ("",)
    for note in validation.notes:
        yield f"note: {visible(note)}"
    yield from ("",) if validation.notes else ()
    # The same fault is printed once, however many revisions it occurred in.
    groups: dict[tuple[str, Status, str], list[CheckResult]] = {}
    infos = [check for check in validation.checks if check.status == "info"]
    for check in (*_bad_checks(validation), *infos):
        if validation.does_count(check) or detail != "failures":
            key = (check.name, check.status, check.conclusion.message)
            groups.setdefault(key, []).append(check)
    for checks in sorted(groups.values(), key=lambda checks: _weight(validation, checks[0])):
        revisions = [check.revision for check in checks] if len(validation.revisions) > 1 else []
        yield from _failure_lines(checks[0], revisions, catalogue, style)
        yield ""
    if validation.counts["skipped"] and detail == "marks":
        yield style.paint("Why checks were skipped: -v", "dim")
    yield from summary(validation, style)


def _weight(validation: Validation, check: CheckResult) -> int:
    """Return the sort key of a check: infos come first, checks that make the server invalid last."""
    return 2 if validation.does_count(check) else check.status != "info"


def summary(
    validation: Validation, style: Style = PLAIN, *, is_read_elsewhere: bool = False
) -> Iterator[str]:
    """Yield a command that shows the messages of a bad check, if there is one, and the line of counts.

    ``is_read_elsewhere``: the report is read on other machines, so the recording is named without its folder.
    """
    with_frames = next(
        (check for check in _bad_checks(validation) if check.trace and check.conclusion.frames), None
    )
    if with_frames is not None:
        path, frame = with_frames.trace, with_frames.conclusion.frames[0]
        path = os.path.basename(path) if is_read_elsewhere and os.path.isabs(path) else path
        yield style.paint(f"The messages: mcpproxy show {visible(shlex.quote(path))} --frames {frame}", "dim")
    yield summary_line(validation, style)


def summary_line(validation: Validation, style: Style = PLAIN) -> str:
    """Return the verdict and the counts: ``invalid: 2 failed, 1 warning, 40 passed in 3.90 s``."""
    counts, verdict = validation.counts, validation.verdict
    numbers = [
        f"{counts['failed']} failed" if counts["failed"] else "",
        count(counts["warning"], "warning") if counts["warning"] else "",
        f"{counts['info']} info" if counts["info"] else "",
        f"{counts['passed']} passed",
        f"{counts['skipped']} skipped" if counts["skipped"] else "",
        f"{validation.known} known" if validation.known else "",
    ]
    took = f" in {duration(int(validation.duration_ms * 1e6))}" if validation.duration_ms else ""
    word, colour = ("interrupted", "yellow") if validation.is_interrupted else (verdict, _COLOURS[verdict])
    return f"{style.paint(word, 'bold', colour)}: {', '.join(filter(None, numbers))}{took}"


def check_lines(check: CheckResult) -> Iterator[str]:
    """Yield the lines of a check that failed or gave a warning, for a report that other machines read."""
    yield f"{_word(check, PLAIN)}{visible(check.name)}: {_message(check)}"
    parts = [_place(check)] if check.conclusion.frames else []
    if check.conclusion.rule and not check.name.startswith(check.conclusion.rule):
        parts.append(visible(check.conclusion.rule))
    parts += [visible(check.conclusion.source)] if check.conclusion.source else []
    yield from ["  ".join(parts)] if parts else []


def _bad_checks(validation: Validation) -> list[CheckResult]:
    """Return the checks that failed or gave a warning, without known ones; first those that count."""
    bad = [c for c in validation.checks if c.status in ("failed", "warning") and not c.is_known]
    return sorted(bad, key=lambda check: not validation.does_count(check))


def _failure_lines(
    check: CheckResult, revisions: Iterable[str], catalogue: Catalogue, style: Style
) -> Iterator[str]:
    """Yield the check and its message, the sentence of the specification, and where to find more."""
    conclusion = check.conclusion
    where = f" ({', '.join(map(visible, revisions))})" if revisions else ""
    yield f"{_word(check, style)}{style.paint(visible(check.name), 'bold')}{where}: {_message(check)}"
    requirement = catalogue.requirements.get(f"{conclusion.rule}/{conclusion.requirement}")
    if requirement is not None:
        yield f"      {visible(requirement.text)}"
    if conclusion.source:
        yield style.paint(f"      {visible(conclusion.source)}", "dim")
    steps = [_place(check)] if conclusion.frames else []
    steps += [f"mcpproxy explain {visible(conclusion.rule)}"] if conclusion.rule else []
    if steps:
        yield style.paint(f"      {'; '.join(steps)}", "dim")


def _place(check: CheckResult) -> str:
    """Return which frames of which recording a check is about."""
    frames = check.conclusion.frames
    more = ", ..." if len(frames) > _MAX_FRAMES else ""
    named = f"{'frame' if len(frames) == 1 else 'frames'} {', '.join(map(str, frames[:_MAX_FRAMES]))}{more}"
    return f"{named} of {visible(recording_name(check.trace))}"


def _message(check: CheckResult) -> str:
    took = f" ({check.duration_ms:.0f} ms)" if check.duration_ms >= 1000 else ""
    return f"{visible(check.conclusion.message)}{took}"


def _appearance(check: CheckResult) -> tuple[str, str, Colour]:
    return _KNOWN if check.is_known else _APPEARANCES[check.status]


def _word(check: CheckResult, style: Style) -> str:
    word, _, colour = _appearance(check)
    return style.paint(f"{word:<6}", colour)

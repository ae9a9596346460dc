"""``mcpproxy list``: list the recordings in a folder, the latest first.

Only the beginning and the end of each file are read, see ``mcpproxy.read.view.folder``.
"""

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.style import Style, columns, count, duration, tally
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, positive
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.judge.session.frame import WORST_FIRST
from mcpproxy.read.reports.text_table import fitted, table, table_width
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.recording_entry import RecordingEntry

EPILOG: Final = """\
  mcpproxy list                    those in the state directory
  mcpproxy list recordings/        those in a folder
  mcpproxy list --failed           those with calls that failed, have no answer or were cancelled
  mcpproxy list --failed --findings   those in which anything went wrong

FAILED are the calls that ended with an error (2 of 7), those that mcpproxy answered itself (1 refused), those
that were cancelled, by a person or by a time limit of the client (1 cancelled), those that never got an
answer (1 unanswered) or got one that could not be read (1 unreadable), and those of a running session that
have none yet (1 waiting 11.0 s); ? stands for what is not known without reading the whole recording. FINDINGS
are what the session broke of the protocol.
at start: the server could not be started, or failed before any message. WHY, a column that is there only if
that happened, has the reason: that of the system, or the line of its stderr that names the error.
1 declined: all calls were server/discover, GET or DELETE, and the server lawfully said that it has no such.
A narrow terminal gets fewer columns, and one that is too narrow for all words a + for the rest: 1 of 6+ has
refused, cancelled or unanswered calls, too.

The first column is a handle for the commands that take a recording: mcpproxy show -2. The label is one,
too, with label~1 for the one before the latest with this label, and so is any part of the file name that no
other recording has."""

_WIDE_COLUMNS: Final = (
    "", "STARTED (UTC)", "LABEL", "SERVER", "CLIENT", "DURATION", "FRAMES", "FAILED", "FINDINGS", "ENDED",
    "TRACE",
)  # fmt: skip
"""The columns of a wide terminal."""
_MIDDLE_COLUMNS: Final = (
    "", "UTC", "NAME", "OF", "BY", "DURATION", "FRAMES", "FAILED", "FOUND", "ENDED", "FILE"
)  # fmt: skip
"""The columns of a terminal that is less wide, but has room for the full counts of failed calls."""
_MIDDLE_LEFT_OUT: Final = ("FRAMES", "SERVER", "CLIENT", "DURATION")
"""The headings of middle columns that are left out, in this order, before such counts are abbreviated."""
_NARROW_BY_HANDLE: Final = ("", "UTC", "NAME", "BY", "DURATION", "FRAMES", "CALLS", "FOUND", "ENDED")
"""The columns of a narrow terminal, where a handle names each recording."""
_NARROW_BY_PATH: Final = ("UTC", "NAME", "DURATION", "FRAMES", "CALLS", "FOUND", "ENDED", "FILE")
"""The columns of a narrow terminal, where the recordings have no handles."""
_HEADINGS: Final = {
    "UTC": "START (UTC)",
    "NAME": "LABEL",
    "OF": "SERVER",
    "BY": "CLIENT",
    "CALLS": "FAILED",
    "FOUND": "FINDINGS",
    "FILE": "TRACE",
}
"""Column -> its heading, if that is not the name of the column."""
_CUT: Final = ("LABEL", "CLIENT", "ENDED", "TRACE")
"""The headings of the columns that are cut if the terminal is too narrow even for a narrow table."""
_LEFT_OUT: Final = ("CLIENT", "FRAMES", "DURATION")
"""The headings of the columns that are left out, in this order, if cutting is not enough."""
_READABLE_REASON_COLUMNS: Final = 30
"""How many columns of the terminal are kept at most for the reasons of failed starts."""
_READABLE_CHARACTERS: Final = 20
"""To how many characters texts are cut before columns are left out."""
_LEAST_CHARACTERS: Final = 7
"""To how many characters texts are cut after all those columns were left out."""


def run(argv: list[str]) -> int:
    """List the state directory, or the folder or URL that the arguments name.

    Raises:
        McpProxyError: the arguments are not valid, or the folder that they name has no recordings or cannot
            be read.
    """
    parser = Parser("list", "List recordings, the latest first.", EPILOG)
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="the folder or URL to list (default: the state directory)"
    )
    parser.add_argument(
        "-n", "--limit", type=positive, default=20, metavar="N", help="at most N of them (default: 20)"
    )
    parser.add_argument(
        "--failed", action="store_true", help="only those with failed, refused, unanswered or cancelled calls"
    )
    parser.add_argument(
        "--findings",
        action="store_true",
        help="only those with findings that are errors or warnings; with --failed, those with either",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(argv)
    folder: str = options.folder or paths.state_dir()
    if options.folder and find_traces.is_url(folder):
        fetched = [
            replace(recording(path), path=url) for path, url in find_traces.fetched_urls(folder).items()
        ]
        fetched.sort(key=lambda entry: entry.started_ns, reverse=True)
        _print_list(folder, fetched, len(fetched), options)
        return 0
    if options.folder and not os.path.isdir(folder):
        fact = "not a folder" if os.path.exists(folder) else "no such folder"
        raise UsageError(folder, fact, "mcpproxy list without a name looks in the state directory")
    recordings = find_traces.recent(folder)
    if options.folder and not recordings:
        find_traces.tell_of_folders_below(folder, lambda below: ["mcpproxy", "list", below])
        raise UsageError(
            folder, "no traces in this folder", "a trace is a .jsonl file that mcpproxy recorded"
        )
    _print_list(folder, map(recording, recordings), len(recordings), options)
    return 0


def _print_list(
    folder: str, recorded: Iterable[RecordingEntry], total: int, options: argparse.Namespace
) -> None:
    """Print the latest of ``total`` recordings that the options ask for; read no further in ``recorded``."""
    numbered = enumerate(recorded, start=1)
    uncounted = 0
    listed: list[tuple[int, RecordingEntry]] = []
    for number, entry in numbered:
        if _is_wanted(entry, options):
            listed.append((number, entry))
            if len(listed) == options.limit:
                break
        else:
            uncounted += entry.calls is None
    entries = [entry for _, entry in listed]
    if options.json:
        emit([json.dumps({"folder": folder, "traces": [as_object(entry) for entry in entries]}, indent=2)])
    elif total and not entries:
        wanted = (("a call that was not successful", options.failed), ("such a finding", options.findings))
        words = " or ".join(name for name, is_wanted in wanted if is_wanted)
        tell(f"no recording in {folder} is known to have {words}")
    elif not total:
        tell(f"nothing recorded yet in {folder}; wrap a server with mcpproxy -- SERVER, or try mcpproxy demo")
    else:
        has_handles = os.path.abspath(folder) == os.path.abspath(paths.state_dir())
        emit(lines := as_table(listed, terminal_style(), has_handles=has_handles))
        if not has_handles and any(map(_is_cut, entries, lines[1:])):
            tell("names are cut to the width of the terminal; --json has them whole")
        unlisted = total - listed[-1][0] if len(listed) == options.limit else 0
        if unlisted:
            more = "" if options.failed or options.findings else ", --failed, --findings"
            tell(f"{count(unlisted, 'older recording')} not listed; see --limit{more}")
    if uncounted and options.failed:
        when = "it was" if uncounted == 1 else "they were"
        reads = "mcpproxy show --all --filter status:unsuccessful reads them"
        tell(f"the calls of {count(uncounted, 'recording')} were not counted when {when} made; {reads}")


def _is_wanted(entry: RecordingEntry, options: argparse.Namespace) -> bool:
    """Whether the options ask for this recording."""
    if not (options.failed or options.findings):
        return True
    counts = entry.findings or {}
    has_findings = bool(counts.get("error") or counts.get("warning"))
    return (options.failed and entry.has_failed) or (options.findings and has_findings)


def as_object(entry: RecordingEntry) -> dict[str, object]:
    """Return an entry of the list as a JSON object, with ``null`` for unknown values."""
    return {
        "path": entry.path,
        "transport": entry.transport or None,
        "upstream": entry.upstream or None,
        "model": entry.model or None,
        "label": entry.label or None,
        "server": _name_and_version(entry.server, entry.server_version) or None,
        "client": _name_and_version(entry.client, entry.client_version) or None,
        "started_at": entry.started_at or None,
        "duration_ns": entry.duration_ns,
        "frames": entry.frames,
        "calls": entry.calls and entry.calls.total,
        "failed": entry.calls and entry.calls.failed,
        "refused": entry.calls and entry.calls.refused,
        "unanswered": entry.calls and entry.calls.unanswered,
        "cancelled": entry.calls and entry.calls.cancelled,
        "unreadable": entry.calls and entry.calls.unreadable,
        "findings": None if entry.findings is None else dict(entry.findings),
        "ended": entry.ending,
        "reason": entry.reason or None,
    }


def as_table(listed: Sequence[tuple[int, RecordingEntry]], style: Style, *, has_handles: bool) -> list[str]:
    """Return the list as a table for people, as wide as the terminal.

    Each entry comes with its position in the folder, counted from 1.

    With ``has_handles``, the first column is the handle of each recording. A narrow terminal gets fewer
    columns: the handle instead of the path, the label or else the server, no versions. The counts of failed
    calls stay complete as long as a label has room beside them.
    """
    reasons = [entry.reason for _, entry in listed]
    room = style
    if any(reasons) and style.width is not None:  # a reason is more useful than other columns
        needed = min(max(map(columns, ("WHY", *reasons))), _READABLE_REASON_COLUMNS)
        room = replace(style, width=max(style.width - needed - 2, 0))
    rows = _with_reasons(_fitted_rows(listed, room, has_handles=has_handles), reasons, style)
    return table(rows, style, right=_right_aligned(rows))


def _fitted_rows(
    listed: Sequence[tuple[int, RecordingEntry]], style: Style, *, has_handles: bool
) -> list[list[str]]:
    """Return the rows of the table, as far as possible no wider than the terminal."""
    rows = [_cells(entry, number) for number, entry in listed]
    wide = _columns(_WIDE_COLUMNS, rows, has_handles=has_handles)
    if style.width is None or table_width(wide) <= style.width:
        return wide
    names = [name for name in _MIDDLE_COLUMNS if name != "FILE"] if has_handles else _MIDDLE_COLUMNS
    middle = _columns(names, rows, has_handles=has_handles)
    middle = fitted(middle, style, cut=("SERVER", "CLIENT"), left_out=_MIDDLE_LEFT_OUT)
    if table_width(middle) <= style.width:
        return middle
    names = _NARROW_BY_HANDLE if has_handles else _NARROW_BY_PATH
    narrow = _columns(names, rows, has_handles=has_handles)
    if has_handles:  # a label also names a recording, so it is cut last
        narrow = fitted(narrow, style, cut=_CUT[1:], left_out=_LEFT_OUT)
    for least in (_READABLE_CHARACTERS, _LEAST_CHARACTERS):
        # The paths and URLs in one folder differ in their ends.
        narrow = fitted(narrow, style, cut=_CUT, left_out=_LEFT_OUT, keeps_end=("TRACE",), least=least)
    return narrow


def _with_reasons(rows: list[list[str]], reasons: Sequence[str], style: Style) -> list[list[str]]:
    """Return the rows with a last column that says why servers could not be started, or failed at once."""
    if not any(reasons):
        return rows
    room = None if style.width is None else max(style.width - table_width(rows) - 2, _LEAST_CHARACTERS)
    texts = ["WHY", *(reason if room is None else style.shorten(reason, room) for reason in reasons)]
    return [[*row, text] for row, text in zip(rows, texts, strict=True)]


def _is_cut(entry: RecordingEntry, line: str) -> bool:
    """Whether ``line``, of a table without handles, lacks the full name of the recording."""
    name = entry.path if find_traces.is_url(entry.path) else os.path.basename(entry.path)
    return visible(name) not in line


def _cells(entry: RecordingEntry, number: int) -> dict[str, str]:
    """Return column -> cell of a recording. ``number`` is its position in the folder."""
    counts = entry.findings or {}
    words = tally(*(counts.get(severity, 0) for severity in WORST_FIRST))
    worst, more, _ = words.partition(",")
    worst = worst + "+" if more else worst.replace("no findings", "none")
    is_judged = entry.findings is not None and not (entry.has_not_begun or entry.model)
    words, worst = (words, worst) if is_judged else ("-", "-")
    is_url = find_traces.is_url(entry.path)
    path = visible(entry.path if is_url else paths.inside(entry.path, paths.working_directory()))
    return {
        "": f"-{number}",
        "STARTED (UTC)": entry.started_at[:19].replace("T", " ") or "-",
        "UTC": entry.started_at[5:16].replace("T", " ") or "-",
        "LABEL": entry.label or "-",
        "SERVER": _name_and_version(entry.server, entry.server_version) or entry.upstream or "-",
        "NAME": entry.title,
        "CLIENT": _name_and_version(entry.client, entry.client_version) or "-",
        "OF": entry.server or "-",
        "BY": entry.client or "-",
        "DURATION": "-" if entry.duration_ns is None else duration(entry.duration_ns),
        "FRAMES": "-" if entry.frames is None else f"{entry.frames:,}",
        "FAILED": entry.failed_text,
        "CALLS": entry.failed_brief,
        "FINDINGS": words,
        "FOUND": worst,
        "ENDED": entry.ending,
        "TRACE": path,
        "FILE": path if is_url else os.path.basename(path),
    }


def _columns(names: Sequence[str], rows: Sequence[dict[str, str]], *, has_handles: bool) -> list[list[str]]:
    """Return the headings, then the cells of each row, for the columns ``names``."""
    names = names if has_handles else [name for name in names if name]
    return [[_HEADINGS.get(name, name) for name in names], *([row[name] for name in names] for row in rows)]


def _right_aligned(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the indexes of the columns that are aligned to the right: handles, durations and frames."""
    return [place for place, name in enumerate(rows[0]) if name in ("", "DURATION", "FRAMES")]


def _name_and_version(name: str, version: str) -> str:
    return f"{name} {version}".strip()

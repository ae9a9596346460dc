"""``mcpproxy list``: list the recordings in a folder, the latest first.

Only the head and the tail of each file are read: the header says what was recorded, and the close record
says how it ended. Without a close record the session is still running, or the recorder was killed.
"""

import json
import os
import re
from dataclasses import dataclass, replace
from typing import Final, cast

from mcpproxy.base import paths
from mcpproxy.base.files import Folder, open_regular
from mcpproxy.base.style import Style, count, duration, tally
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, positive
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.relay import journal
from mcpproxy.reports.text_table import table

HEAD_BYTES: Final = 1 << 16
TAIL_BYTES: Final = 1 << 14

_LARGEST: Final = 1 << 63

_RECORD: Final = re.compile(rb'^\{"type":"\w+",(?:"seq":(\d{1,18}),)?"t":(\d{1,18})', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """One line of the list. A count is ``None`` if the head and the tail of the file do not give it."""

    path: str
    started_at: str
    label: str
    ended: str
    duration_ns: int | None = None
    frames: int | None = None
    findings: dict[str, int] | None = None
    transport: str = ""
    upstream: str = ""


def run(argv: list[str]) -> int:
    """List the state directory, or the named folder."""
    parser = Parser("list", "List recordings, the latest first.")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder to list (the state directory)")
    parser.add_argument(
        "-n", "--limit", type=positive, default=20, metavar="N", help="at most N of them (20)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(argv)
    folder: str = options.folder or paths.state_dir()
    if options.folder and not os.path.isdir(folder):
        fact = "not a folder" if os.path.exists(folder) else "no such folder"
        raise UsageError(folder, fact, "mcpproxy list without a name looks in the state directory")
    found = find_traces.recent(folder)
    if options.folder and not found:
        raise UsageError(
            folder, "no traces in this folder", "a trace is a .jsonl file that mcpproxy recorded"
        )
    recordings = [summarise(path) for path in found[: options.limit]]
    if options.json:
        emit([json.dumps({"folder": folder, "traces": [as_object(r) for r in recordings]}, indent=2)])
    elif not found:
        tell(f"nothing recorded yet in {folder}; wrap a server with mcpproxy -- SERVER, or try mcpproxy demo")
    else:
        emit(as_table(recordings, terminal_style()))
        if len(found) > len(recordings):
            tell(f"{count(len(found) - len(recordings), 'older recording')} not listed; see --limit")
    return 0


def summarise(path: str) -> RecordingSummary:
    """Return what the head and tail of the file ``path`` say. It never raises for their content."""
    try:
        head, tail = _ends(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)  # a journal from which no trace was made yet
        ended = _state(path) if missing else (error.strerror or "unreadable").lower()
        return RecordingSummary(path, "", "", ended)
    header = _record(head.partition(b"\n")[0], "header")
    if header is None:
        return RecordingSummary(path, "", "", "not a trace")
    started_at, label = str(header.get("started_at", "")), str(header.get("label", ""))
    transport, upstream = str(header.get("transport", "")), str(header.get("upstream", ""))
    last_line = tail.rstrip(b"\n").rpartition(b"\n")[2] if tail.endswith(b"\n") else b""
    summary = RecordingSummary(path, started_at, label, ended="", transport=transport, upstream=upstream)
    close, continued = _record(last_line, "close"), _record(last_line, "continued")
    if last := close or continued:
        return replace(
            summary,
            ended=_ended(last, transport) if close else f"goes on in {last.get('in')}",
            duration_ns=_int(last.get("t")),
            frames=sum(_counts(last.get("frames")).values()),
            findings=_counts(last.get("findings")),
        )
    records = _RECORD.findall(tail)
    return replace(
        summary,
        ended=_state(path),
        duration_ns=int(records[-1][1]) if records else None,
        frames=next((int(seq) for seq, _ in reversed(records) if seq), None),
    )


def as_object(recording: RecordingSummary) -> dict[str, object]:
    """Return a line of the list as a JSON object, with ``null`` for unknown values."""
    return {
        "path": recording.path,
        "transport": recording.transport or None,
        "upstream": recording.upstream or None,
        "label": recording.label or None,
        "started_at": recording.started_at or None,
        "duration_ns": recording.duration_ns,
        "frames": recording.frames,
        "findings": recording.findings,
        "ended": recording.ended,
    }


def as_table(recordings: list[RecordingSummary], style: Style) -> list[str]:
    """Return the list as a table for people."""
    rows = [("STARTED (UTC)", "LABEL", "DURATION", "FRAMES", "FINDINGS", "ENDED", "TRACE")]
    here = paths.working_directory()
    for r in recordings:
        found = r.findings
        rows.append(
            (
                visible(r.started_at[:19].replace("T", " ")) or "-",
                visible(r.upstream or r.label) or "-",
                "-" if r.duration_ns is None else duration(r.duration_ns),
                "-" if r.frames is None else f"{r.frames:,}",
                "-" if found is None else tally(*(found.get(s, 0) for s in ("error", "warning", "info"))),
                visible(r.ended),
                visible(paths.inside(r.path, here)),
            )
        )
    return table(rows, style, right=(2, 3))


def _ends(path: str) -> tuple[bytes, bytes]:
    with open(open_regular(path, follows=True), "rb") as file:
        head = file.read(HEAD_BYTES)
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - TAIL_BYTES, 0))
        return head, file.read()


def _record(line: bytes, kind: str) -> dict[str, object] | None:
    """Return ``line`` as a trace record of the type ``kind``, or ``None`` if it is something else."""
    if not line.startswith(b'{"type":"%s"' % kind.encode()):
        return None
    try:
        return cast("dict[str, object]", json.loads(line))
    except (ValueError, RecursionError):
        return None


def _ended(close: dict[str, object], transport: str) -> str:
    match close.get("ending"):
        case "exited" if transport == "http" and close.get("exit_code") == 0:
            return "stopped"  # mcpproxy; the server is another process
        case "exited":
            return f"exit {close.get('exit_code')}"
        case "signalled":
            return f"signal {close.get('signal')}"
        case ending:
            return str(ending)


def _state(path: str) -> str:
    """Return ``running`` if a recorder holds the lock of the journal, else ``cut``."""
    # Not at the top of the module: most recordings have ended.
    from mcpproxy.recorder.lock import is_held

    try:
        return "running" if is_held(Folder(journal.folder(path))) else "cut"
    except OSError:
        return "cut"


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {str(name): _int(number) for name, number in cast("dict[object, object]", value).items()}


def _int(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < _LARGEST else 0

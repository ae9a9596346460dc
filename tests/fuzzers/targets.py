"""What is fuzzed: for each target, the seeds as files, and which of them is damaged how."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.read import judging
from mcpproxy.read.importers.detect import FORMATS, open_foreign
from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.folder import recording as recording_entry
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.relay.crash_buffer import CrashBuffer
from mcpproxy.record.trace.writer import TraceWriter
from tests.fuzzers import mutations
from tests.recorder import http_journals, journals
from tests.trace import test_foreign

Files: TypeAlias = dict[str, bytes]
"""Name in the folder -> content."""

TRACE: Final = "a.jsonl"
_FOLDER: Final = journal.folder(TRACE)
_FIRST: Final = f"{_FOLDER}/{journal.segment_name(1)}"
_SECOND: Final = f"{_FOLDER}/{journal.segment_name(2)}"
_CHECKPOINT: Final = f"{_FOLDER}/checkpoint"


@dataclass(frozen=True, slots=True)
class Target:
    """``seeds`` are made once; of one, a file is damaged in one of ``ways``, and ``read`` reads it all."""

    seeds: Callable[[], list[Files]]
    damaged: Callable[[str], bool]
    ways: tuple[Callable[[bytes, Random], bytes], ...]
    read: Callable[[str], None]

    def case(self, seeds: list[Files], random: Random) -> Files:
        files = dict(random.choice(seeds))
        name = random.choice(sorted(filter(self.damaged, files)))
        return files | {name: mutations.damaged(files[name], self.ways, random)}


def lay(files: Files, folder: Path) -> None:
    """Write a case to disk."""
    for name, content in files.items():
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        (folder / name).write_bytes(content)


def _journals() -> list[Files]:
    over_http = http_journals.CONVERSATION
    return [
        {_FIRST: journals.packed(*journals.SESSION)},
        {_FIRST: journals.packed(*journals.SESSION[:6]), _SECOND: journals.packed(*journals.SESSION[6:])},
        {_FIRST: journals.packed(*over_http)},
        {_FIRST: journals.packed(*over_http[:7]), _SECOND: journals.packed(*over_http[7:])},
    ]


def _checkpoints() -> list[Files]:
    """Journals of which a part was filed, as the recorder left them."""
    found: list[Files] = []
    for entries in (journals.SESSION, http_journals.CONVERSATION):
        for at in range(2, len(entries) - 1):
            with TemporaryDirectory() as name:
                folder = Path(name)
                lay({_FIRST: journals.packed(*entries[:at]), _SECOND: b""}, folder)
                reader, writer = JournalReader(str(folder / _FOLDER)), TraceWriter(str(folder / TRACE))
                recording = RecordingPipeline(reader, writer, standard_observer, StderrNotes(None))
                recording.drain()
                recording._clear_journal()  # pyright: ignore[reportPrivateUsage] # as when 8 MiB had passed
                writer.close()
                reader.close()
                if not (folder / _CHECKPOINT).exists():
                    continue
                (folder / _SECOND).write_bytes(journals.packed(*entries[at:]))
                left = [path for path in folder.rglob("*") if path.is_file()]
                found.append({str(path.relative_to(folder)): path.read_bytes() for path in left})
    return found


def _traces() -> list[Files]:
    found: list[Files] = []
    for files in _journals():
        with TemporaryDirectory() as name:
            lay(files, Path(name))
            for _ in open_trace(Path(name, TRACE)).events():
                pass
            found.append({TRACE: Path(name, TRACE).read_bytes()})
    return found


def _chains() -> list[Files]:
    with TemporaryDirectory() as name:
        (kind, payload, at_ns, connection), *rest = journals.SESSION
        start = (kind, payload[:-1] + b',"rotate":{"bytes":600}}', at_ns, connection)
        lay({_FIRST: journals.packed(start, *rest)}, Path(name))
        for _ in open_trace(Path(name, TRACE)).events():
            pass
        return [{path.name: path.read_bytes() for path in Path(name).glob("*.jsonl")}]


def _locks() -> list[Files]:
    whole = _traces()[0][TRACE]
    session = {_FIRST: journals.packed(*journals.SESSION[:-1])}
    with TemporaryDirectory() as name:
        written = journal.Journal(str(Path(name, TRACE)), journals.START[1], journals.STARTED_NS)
        holding = CrashBuffer(written, 64)
        written.append(journal.CLIENT, journals.STARTED_NS + 10, b"x" * (len(session[_FIRST]) + 64))
        holding.store(journal.CLIENT, journals.STARTED_NS + 5000, b'{"a":1}')
        hand = Path(name, _FOLDER, "hand").read_bytes()
    extras = {f"{_FOLDER}/lock": b"x", f"{_FOLDER}/hand": hand}
    return [session | extras, session | extras | {TRACE: whole[: len(whole) // 2]}, extras | {TRACE: whole}]


def _foreign() -> list[Files]:
    f = test_foreign
    return [
        {"s.har": f.har(*f.OVER_HTTP).encode()},
        {"s.jsonl": f.mcpsnoop(*f.TALK).encode()},
        {"s.jsonl": f.mcp_rec(*f.TALK).encode()},
    ]


_RULES: Final = ruleset.load([])
_ALL: Final = Selection.of(_RULES.catalogue, None, None)


def _judge(folder: str) -> None:
    """As check and list do."""
    recording_entry(os.path.join(folder, TRACE))
    judging.judge(open_trace(os.path.join(folder, TRACE)), _RULES, _ALL)


def _import(folder: str) -> None:
    """As import does, whatever is found in the file, and in the format that it is not."""
    [name] = os.listdir(folder)
    path = os.path.join(folder, name)
    refused: list[McpProxyError] = []
    for format in [None, *FORMATS]:
        try:
            trace = open_trace(path) if format is None else open_foreign(path, format)
            for _ in trace.lines():
                pass
        except McpProxyError as fault:
            refused.append(fault)
    if len(refused) > len(FORMATS):  # by every reader
        raise refused[0]


def _is_segment(name: str) -> bool:
    return name in (_FIRST, _SECOND)


TARGETS: Final[Mapping[str, Target]] = {
    "journal": Target(_journals, _is_segment, mutations.RECORDS, _judge),
    "trace": Target(_traces, lambda _: True, mutations.JSON, _judge),
    "chain": Target(_chains, lambda _: True, mutations.JSON, _judge),
    "lock": Target(
        _locks, lambda name: "journal" in name and not _is_segment(name), mutations.RECORDS, _judge
    ),
    "checkpoint": Target(_checkpoints, lambda name: name == _CHECKPOINT, mutations.JSON, _judge),
    "importers": Target(_foreign, lambda _: True, mutations.JSON, _import),
}

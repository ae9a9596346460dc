"""Recordings in several files: they are split at the same places, live or recovered, and read as one."""

import json
from pathlib import Path

import pytest

from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.main import main
from mcpproxy.cli.rotate_option import rotation_member
from mcpproxy.judge.session.frame import Finding, Gap, Sender
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.recorder.rotation import Rotation
from mcpproxy.record.trace.chain import files_of
from mcpproxy.record.trace.records import Continued
from mcpproxy.record.trace.shipped_files import ShippedFiles, write_shipped
from mcpproxy.record.trace.writer import TraceWriter
from mcpproxy.send.fleet.closed_files import last_record
from tests.recorder import http_journals, journals
from tests.recorder.journals import Accuser, Entry, JournalFolder, record, recording
from tests.recorder.limits import file_size_limit
from tests.recorder.model.conversations import journal_of, turns
from tests.recorder.test_recovery import KilledError, record_until_killed


def rotated(entries: list[Entry], rotate: dict[str, int]) -> list[Entry]:
    """``entries`` whose START record asks for a rotation."""
    (kind, payload, at_ns, number), *rest = entries
    return [(kind, json.dumps({**json.loads(payload), "rotate": rotate}).encode(), at_ns, number), *rest]


PINGS = [
    entry
    for id in range(20)
    for entry in (
        journals.client(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n{"json' % id, id),
        journals.client(b'rpc":"2.0","method":"x"}\n', id),
        journals.server(b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % id, id),
    )
]
KINDS: dict[str, tuple[list[Entry], dict[str, int]]] = {
    "stdio by size": ([journals.START, *PINGS, journals.EXIT], {"bytes": 2500}),
    "stdio by time": ([journals.START, *PINGS, journals.EXIT], {"ns": 5}),
    "HTTP by size": (http_journals.CONVERSATION, {"bytes": 4000}),
    "HTTP by time": (http_journals.CONVERSATION, {"ns": 40}),
    "a model by size": (journal_of(turns(8), kept="tools"), {"bytes": 8000}),
}


@pytest.fixture(params=list(KINDS))
def session(request: pytest.FixtureRequest) -> list[Entry]:
    entries, rotate = KINDS[request.param]
    return rotated(entries, rotate)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("s*.jsonl"))}


def test_a_chain_holds_what_one_file_would(tmp_path: Path, session: list[Entry]) -> None:
    plain = [(session[0][0], session[0][1].replace(b'"rotate"', b'"other"'), *session[0][2:]), *session[1:]]
    JournalFolder(tmp_path / "one.jsonl", plain)
    record(tmp_path / "one.jsonl")
    JournalFolder(tmp_path / "s.jsonl", session)
    record(tmp_path / "s.jsonl")
    files = files_of(str(tmp_path / "s.jsonl"))
    assert len(files) > 2
    assert [Path(name).name for name in files] == sorted(
        contents(tmp_path), key=lambda name: (len(name), name)
    )
    (tmp_path / "s.jsonl.journal" / "00000001").unlink()
    (tmp_path / "s.jsonl.journal").rmdir()
    (tmp_path / "one.jsonl.journal" / "00000001").unlink()
    (tmp_path / "one.jsonl.journal").rmdir()
    whole = list(open_trace(tmp_path / "one.jsonl").records())
    for name in files:
        trace = open_trace(name)
        assert list(trace.records()) == whole
        assert (trace.notes, trace.complete) == ([], True)


class MortalWriter(TraceWriter):
    """A writer whose process is killed after so many bytes, whatever file they are in."""

    def __init__(self, path: str, life: int) -> None:
        super().__init__(path)
        self._life = life

    def _flush_file(self) -> bool:
        pending = b"".join(self._pending)
        is_fatal = len(pending) > self._life
        self._pending = [pending[: self._life]]
        self._life -= len(self._pending[0])
        done = super()._flush_file()
        if is_fatal:
            raise KilledError
        return done


def test_killed_anywhere_the_files_are_the_same(tmp_path: Path, session: list[Entry]) -> None:
    segments = [session[at : at + 5] for at in range(0, len(session), 5)]
    trace = tmp_path / "s.jsonl"
    folder = JournalFolder(trace, *segments)
    record(trace)
    whole = contents(tmp_path)
    for path in (*tmp_path.glob("*.jsonl"), *folder.path.iterdir()):
        path.unlink()
    folder.path.rmdir()
    for life in range(0, sum(map(len, whole.values())), 131):
        folder = JournalFolder(trace, *segments)
        record_until_killed(folder.path, MortalWriter(str(trace), life))
        assert recover(str(trace), Accuser)
        assert contents(tmp_path) == whole
        for path in tmp_path.glob("*.jsonl"):
            path.unlink()


def test_recovery_continues_in_the_file_of_the_checkpoint(tmp_path: Path, session: list[Entry]) -> None:
    trace = tmp_path / "s.jsonl"
    folder = JournalFolder(trace, session[:-4], session[-4:-2])
    recorder, writer = recording(trace)
    recorder.drain()
    writer.close()
    assert "checkpoint" in folder.names()
    folder.append(2, journals.packed(*session[-2:]))
    assert recover(str(trace), Accuser)
    found = contents(tmp_path)
    other = tmp_path / "live" / "s.jsonl"
    other.parent.mkdir()
    JournalFolder(other, session)
    record(other)
    assert contents(tmp_path / "live") == found


def test_a_full_disk_ends_the_chain_where_it_is(tmp_path: Path) -> None:
    trace = tmp_path / "s.jsonl"
    JournalFolder(trace, rotated([journals.START, *PINGS, journals.EXIT], {"bytes": 2500}))
    recorder, writer = recording(trace)
    with file_size_limit(2000):
        recorder.drain()
        assert recorder.is_stuck
        assert recorder.give_up() == "the trace is incomplete: File too large"
    writer.close()
    opened = open_trace(trace)
    list(opened.events())
    assert opened.files == [str(trace)]
    assert len(opened.notes) == 1
    assert opened.notes[0].endswith("the trace could not be written: File too large")


@pytest.fixture
def chain(tmp_path: Path) -> list[str]:
    JournalFolder(tmp_path / "s.jsonl", rotated([journals.START, *PINGS, journals.EXIT], {"bytes": 2500}))
    assert recover(str(tmp_path / "s.jsonl"))
    return files_of(str(tmp_path / "s.jsonl"))


def test_later_files_alone_are_joined_late(chain: list[str]) -> None:
    Path(chain[0]).unlink()
    trace = open_trace(chain[-1])
    list(trace.events())
    assert trace.joined_late
    assert trace.notes == ["it continues s.jsonl, which is missing"]


def test_a_missing_end_is_said(chain: list[str]) -> None:
    Path(chain[-1]).unlink()
    trace = open_trace(chain[0])
    list(trace.events())
    assert trace.notes == [f"it continues in {Path(chain[-1]).name}, which is missing"]


def test_a_file_that_is_there_already_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s.2.jsonl").write_text("mine")
    JournalFolder(tmp_path / "s.jsonl", rotated([journals.START, *PINGS, journals.EXIT], {"bytes": 2500}))
    assert recover(str(tmp_path / "s.jsonl"))
    assert (tmp_path / "s.2.jsonl").read_text() == "mine"
    assert [Path(name).name for name in files_of(str(tmp_path / "s.jsonl"))][:2] == ["s.jsonl", "s.3.jsonl"]


def test_names_that_lead_elsewhere_are_not_followed(tmp_path: Path, chain: list[str]) -> None:
    first = Path(chain[0])
    outside = tmp_path.parent / f"{tmp_path.name}-outside.jsonl"
    Path(chain[1]).rename(outside)
    first.write_bytes(
        first.read_bytes().replace(b'"in":"s.2.jsonl"', b'"in":"../%b"' % outside.name.encode())
    )
    assert files_of(str(first)) == [str(first)]


def test_following_goes_through_all_files(chain: list[str]) -> None:
    assert list(follow(chain[0])) == list(open_trace(chain[0]).events())


def test_the_commands_take_a_chain_for_one_recording(
    chain: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = [event for event in open_trace(chain[0]).events() if isinstance(event, Finding)]
    for paths in (chain, [str(Path(chain[0]).parent)], chain[1:2]):
        main(["check", "--format", "json", *paths])
        (judged,) = json.loads(capsys.readouterr().out)["traces"]
        assert judged["complete"]
        assert len(judged["findings"]) == len(whole)
    assert main(["list", str(Path(chain[0]).parent)]) == 0
    _, *listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 1
    assert listed[0].endswith("/s.jsonl")


SPELLED = {
    "": "null",
    "64k": '{"bytes":65536}',
    "5m": '{"bytes":5242880}',
    "100M": '{"bytes":104857600}',
    "1GiB": '{"bytes":1073741824}',
    "5s": '{"ns":5000000000}',
    "90min": '{"ns":5400000000000}',
    "1d": '{"ns":86400000000000}',
    **dict.fromkeys(("0", "1k", "-1h", "1.5G", "2 h", "ten", "12hb", "5minib", "1dib")),
}
"""``None`` is what is refused."""


@pytest.mark.parametrize(("text", "member"), SPELLED.items())
def test_how_it_is_asked_for(text: str, member: str | None) -> None:
    if member is None:
        with pytest.raises(UsageError, match=r"for example 100M, 90min or 1d"):
            rotation_member(text, "run")
    else:
        assert rotation_member(text, "run") == member


def test_when_it_is_due() -> None:
    assert not Rotation(100).is_due(99, 0, 10**18)
    assert Rotation(100).is_due(100, 0, 0)
    assert not Rotation(0, 50).is_due(10**9, 7, 56)
    assert Rotation(0, 50).is_due(0, 7, 57)


def given_up(folder: Path, *, is_shipped: bool) -> tuple[list[Gap], dict[Sender, int]]:
    """Record until the disk is full; with ``is_shipped``, after files were shipped and deleted.

    Return the gaps of the trace, and its counts of frames.
    """
    folder.mkdir()
    trace = folder / "s.jsonl"
    written = JournalFolder(trace, rotated([journals.START, *PINGS[:40]], {"bytes": 2500}))
    recorder, writer = recording(trace)
    recorder.drain()
    first, *files, last = files_of(str(trace))
    assert len(files) > 1
    for name in files if is_shipped else ():
        record = last_record(name)
        assert isinstance(record, Continued)
        write_shipped(first, ShippedFiles("s3://b/x", len(files), Path(name).name, record))
        Path(name).unlink()
    written.append(1, journals.packed(*PINGS[40:], journals.EXIT))
    with file_size_limit(Path(last).stat().st_size + 20):
        recorder.drain()
        assert recorder.is_stuck
        assert recorder.give_up().startswith("the trace is incomplete")
    writer.close()
    opened = open_trace(last)
    gaps = [event for event in opened.events() if isinstance(event, Gap)]
    assert opened.tally is not None
    return gaps, opened.tally.frames


def test_a_full_disk_after_files_were_shipped_counts_what_is_missing(tmp_path: Path) -> None:
    (full,), counts = given_up(tmp_path / "all", is_shipped=False)
    (shipped, *rest), same_counts = given_up(tmp_path / "some", is_shipped=True)
    assert same_counts == counts
    assert "shipped and deleted" in shipped.reason
    assert rest == [full]
    assert full.client_bytes > 0
    assert full.server_bytes > 0

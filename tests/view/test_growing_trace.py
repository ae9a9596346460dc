"""A recording from its first byte to its end, with recorders that begin late, fall behind, or are killed."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.base.style import PLAIN
from mcpproxy.cli.calls.following import FollowedSession
from mcpproxy.cli.calls.frame_lines import EVERYTHING, as_json, as_text, span_filter
from mcpproxy.cli.main import main
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.judge.session.frame import Close, Event, Finding, Frame
from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.growing_trace import GrowingTrace
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.relay import journal
from tests import descriptors
from tests.cli.test_follow import Page
from tests.recorder.journals import Entry, JournalFolder, packed, start
from tests.recorder.journals import recording as recording_of
from tests.view.situations import SITUATIONS


class Relay:
    """A relay that runs, and its journal. ``relays`` is a process that stands for it."""

    def __init__(self, trace: Path, relays: "subprocess.Popen[bytes]") -> None:
        self.trace = trace
        self._began_ns = time.monotonic_ns()
        self.folder = JournalFolder(trace, [start(relays.pid, self._began_ns)])
        self._lines = [
            (record["from"], json.dumps(record["message"]).encode() + b"\n", record["t"])
            for record in map(json.loads, SITUATIONS["server request in a call"])
            if record["type"] == "frame"
        ]
        self._relays = relays

    def passes(self, count: int) -> None:
        """Forward the next messages."""
        for sender, line, at_ns in self._lines[:count]:
            kind = journal.CLIENT if sender == "client" else journal.SERVER
            self.folder.append(1, packed((kind, line, self._began_ns + at_ns, 0)))
        del self._lines[:count]

    def ends(self) -> None:
        """The session is over."""
        end: Entry = (journal.EXIT, b'{"ending":"exited","code":0,"signal":null}', time.monotonic_ns(), 0)
        self.folder.append(1, packed(end))
        self._relays.kill()
        self._relays.wait()


class Recorder:
    """A recorder that has taken its lock; ``reads`` makes it record what the journal has."""

    def __init__(self, relay: Relay) -> None:
        lock = Lock.take(str(relay.folder.path))
        assert lock is not None
        self._lock = lock
        self._pipeline, self._writer = recording_of(relay.trace, standard_observer)

    def reads(self) -> None:
        self._pipeline.drain()

    def is_killed(self) -> None:
        self._writer.close()
        self._lock.release()


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as relays:
        yield Relay(tmp_path / "s.jsonl", relays)


def outcomes(view: View) -> list[Outcome]:
    return [call.outcome for call in view.calls()]


def test_a_session_is_seen_before_its_recorder_begins(relay: Relay) -> None:
    relay.passes(6)
    assert recording(str(relay.trace)).state == "starting"
    with open_view(relay.trace) as view:
        assert view.running
        assert outcomes(view) == [Outcome.OK, Outcome.NONE, Outcome.OK, Outcome.UNANSWERED]
        relay.passes(3)
        assert view.refresh().first == 4
        assert outcomes(view)[3:] == [Outcome.OK, Outcome.OK]
        assert not relay.trace.exists()


def test_a_view_that_is_closed_has_nothing_open(relay: Relay) -> None:
    relay.passes(6)
    before = descriptors.opened()
    view = open_view(relay.trace)
    relay.passes(3)
    view.refresh()
    assert descriptors.opened() != before
    view.close()
    assert descriptors.opened() == before


def test_no_row_goes_away_while_a_recorder_catches_up(relay: Relay) -> None:
    relay.passes(5)
    with open_view(relay.trace) as view:
        recorder = Recorder(relay)
        relay.passes(1)
        view.refresh()
        assert view.count() == 4
        recorder.reads()
        relay.passes(1)
        view.refresh()  # now it is the trace
        assert view.count() == 4
        recorder.reads()
        assert view.refresh().first == 5  # nobody but the recorder has read this message
        assert view.count() == 5
        recorder.is_killed()


def test_a_session_goes_on_without_its_recorder(relay: Relay) -> None:
    relay.passes(5)
    recorder = Recorder(relay)
    recorder.reads()
    with open_view(relay.trace) as view:
        recorder.is_killed()
        relay.passes(4)
        recorded = relay.trace.read_bytes()
        assert view.refresh().running
        assert outcomes(view)[3:] == [Outcome.OK, Outcome.OK]
        assert relay.trace.read_bytes() == recorded
        relay.ends()
        assert not view.refresh().running
        assert view.ended is not None
        assert outcomes(view)[3:] == [Outcome.OK, Outcome.OK]
    assert not os.path.exists(relay.folder.path)


def test_no_call_is_printed_twice_by_follow(relay: Relay) -> None:
    page = Page()
    with open_view(relay.trace) as view:
        followed = FollowedSession(view, parse_filter(""), page)

        def look() -> None:
            view.refresh()
            followed.print_news()

        relay.passes(8)
        look()
        recorder = Recorder(relay)
        look()
        recorder.reads()
        look()
        recorder.is_killed()
        relay.passes(1)
        look()
        relay.ends()
        look()
    numbers = [line.split()[0] for line in page.printed if line and line.split()[0].isdigit()]
    assert numbers == ["1", "2", "3", "4", "5"]
    assert len(page.printed) == len(set(page.printed))  # nor a finding


def frames_until(events: Iterator[Event | Finding], last: int) -> list[int]:
    """The numbers of the next frames, ``last`` included."""
    seqs: list[int] = []
    while not seqs or seqs[-1] < last:
        event = next(events)
        seqs += [event.seq] if isinstance(event, Frame) else []
    return seqs


def test_events_are_followed_from_the_journal_into_the_trace(relay: Relay) -> None:
    relay.passes(4)
    events = GrowingTrace(relay.trace).follow(poll_s=0.001)
    assert frames_until(events, 4) == [1, 2, 3, 4]
    relay.passes(1)
    assert frames_until(events, 5) == [5]
    assert not relay.trace.exists()
    recorder = Recorder(relay)
    recorder.reads()
    relay.passes(2)
    recorder.reads()
    assert frames_until(events, 7) == [6, 7]
    recorder.is_killed()
    relay.passes(2)
    relay.ends()
    *rest, end = events
    assert [event.seq for event in rest if isinstance(event, Frame)] == [8, 9]
    assert isinstance(end, Close)


@pytest.mark.parametrize("form", ["text", "json"])
def test_show_follows_a_session_whose_recorder_has_not_begun(form: str, relay: Relay) -> None:
    relay.passes(7)
    path, everything = str(relay.trace), span_filter(EVERYTHING)
    if form == "text":
        lines = as_text(path, everything, PLAIN, full=False, following=True)
    else:
        lines = as_json(path, everything, full=False, following=True)
    assert any("elicitation/create" in line for line in lines)
    relay.passes(2)
    relay.ends()
    rest = list(lines)
    assert any("Springfield, Ohio" in line for line in rest)
    assert any("exited" in line for line in rest)


def test_other_commands_read_a_session_whose_recorder_has_not_begun(
    relay: Relay, capsys: pytest.CaptureFixture[str]
) -> None:
    relay.passes(6)
    relay.trace.touch()  # a recorder was killed when it had made the file
    path = str(relay.trace)
    assert main(["check", "--format", "json", path]) == 0
    assert json.loads(capsys.readouterr().out)["traces"][0]["frames"] == 6
    assert main(["show", "--json", path]) == 0
    assert '"method": "elicitation/create"' not in (shown := capsys.readouterr().out)
    assert shown.count('"kind": "request"') == 3
    assert recording(path).state == "starting"

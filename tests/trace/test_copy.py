"""A copy of a trace: it is there whole, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Event, Finding
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace
from mcpproxy.record.trace.records import Encoded
from tests.peers.processes import ROOT
from tests.trace.test_writer import SmallDisk

RECORDING = str(ROOT / "recordings" / "echo-2026-07-28.jsonl")


@pytest.mark.parametrize("free", [0, 1, 1000])
def test_a_full_disk_leaves_no_part_of_a_copy(
    free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.jsonl"
    trace = open_trace(RECORDING)
    SmallDisk(monkeypatch, free)
    with pytest.raises(TraceError, match="no space left on device; write to another place"):
        write_trace(str(copy), trace.header, trace.lines())
    assert not copy.exists()


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    trace = open_trace(RECORDING)

    def lines() -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
        copy.write_text("somebody else's")  # after the first look
        yield from trace.lines()

    with pytest.raises(TraceError, match="exists already"):
        write_trace(str(copy), trace.header, lines())
    assert copy.read_text() == "somebody else's"

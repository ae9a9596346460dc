"""A recording that may not grow, from outside: the traffic passes, and the recording says what it lacks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import Close, Frame, Gap
from mcpproxy.read.opening import open_trace
from tests.relay.hosts import until_recorded

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"
LINE = json.dumps({"jsonrpc": "2.0", "method": "n", "params": {"x": "x" * 1000}}).encode() + b"\n"
LINES = LINE * 2500


def wrapped(folder: Path, *options: str) -> tuple[list[object], str]:
    """The events of a session in which 2.5 MB pass each way, and what was said on stderr."""
    trace = folder / "t.jsonl"
    command = [sys.executable, "-m", "mcpproxy", "--live", "off", "--trace", str(trace), *options]
    ran = subprocess.run(
        [*command, "--", sys.executable, "-c", ECHO],
        input=LINES,
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert ran.stdout == LINES
    until_recorded(trace)
    return list(open_trace(trace).events()), ran.stderr.decode()


def test_a_disk_with_less_than_the_reserve_is_left_alone(tmp_path: Path) -> None:
    events, said = wrapped(tmp_path, "--reserve", "1000000T")
    assert said.count("recording interrupted (less than 1e+06 TiB is free on the disk, see --reserve)") == 1
    gaps = [event for event in events if isinstance(event, Gap)]
    assert sum(gap.client_bytes for gap in gaps) == len(LINES)
    assert sum(gap.server_bytes for gap in gaps) == len(LINES)
    assert not any(isinstance(event, Frame) for event in events)
    assert events[-1] == Close("exited", 0, None, events[-1].observed_at_ns)  # type: ignore[attr-defined]
    assert (tmp_path / "t.jsonl").stat().st_size < 8 << 10


@pytest.mark.parametrize("rotate", [(), ("--rotate", "512k")])
def test_a_recording_is_no_larger_than_asked_for(tmp_path: Path, rotate: tuple[str, ...]) -> None:
    events, said = wrapped(tmp_path, "--max-size", "1M", *rotate)
    if "the recorder is not done" not in said:  # the machine is busy, and its line came too late
        assert said.count("recording ended: the recording is as large as --max-size allows") == 1
    reasons = [event.reason for event in events if isinstance(event, Gap)]
    assert reasons == [
        f"the recording is as large as --max-size allows{more}" for more in (", what follows is left out", "")
    ]
    counts = {"client": 0, "server": 0}
    for event in events:
        if isinstance(event, Frame):
            counts[event.sender] += len(event.raw) + event.terminated
        elif isinstance(event, Gap):
            counts["client"] += event.client_bytes
            counts["server"] += event.server_bytes
    assert counts == {"client": len(LINES), "server": len(LINES)}
    assert isinstance(events[-1], Close)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < 3 << 20


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--max-size", "1k"), "--max-size 1k is not a size of at least 1M"),
        (("--max-size", "0"), "--max-size 0 is not a size"),
        (("--reserve", "much"), "--reserve much is not a size"),
    ],
)
def test_sizes_that_cannot_be_read(options: tuple[str, str], says: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", *options, "--", "true"], capture_output=True, check=False
    )
    assert ran.returncode == 2
    assert says in ran.stderr.decode()
    assert ran.stderr.count(b"\n") == 1

"""What reading recordings costs: ``check`` on large ones and several, its memory, the start of commands."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcpproxy.judge.session.frame import Close, Frame
from mcpproxy.record.trace.encode import encode_close, encode_frame, encode_header
from mcpproxy.record.trace.records import Header, Tally
from tests.benchmarks.judge import Line, call, client, handshake, server
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT, WrongBytesError

VARIANTS: Final = ("python alone", "mcpproxy")
MCPPROXY: Final = (sys.executable, "-m", "mcpproxy")
CALLS: Final = 100_000
SHORT_CALLS: Final = 500
LARGE_BYTES: Final = (64 << 20, 1 << 30)
SHORT_BYTES: Final = (1 << 20,)
STARTS: Final = 10
COMMANDS: Final = (("check", "TRACE"), ("show", "TRACE"), ("rules",), ("explain", "PROTO-007"))
# As users have it: compiled once, and not anew at every start.
ENVIRONMENT: Final = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
LONG_TEXT: Final = "x" * 4000


def run(options: Options) -> list[Section]:
    """Read recordings in every way, in turn.

    Raises:
        WrongBytesError: frames are missing, or something was found in lawful ones.
    """
    samples = Samples()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as name:
        folder = Path(name)
        started(Samples(), folder / "0.jsonl")  # what is not compiled yet is now
        calls = options.size(CALLS, SHORT_CALLS)
        several = [folder / f"{number}.jsonl" for number in range(max(cores, 2))]
        frames = max([write(path, small(calls)) for path in several])
        for _ in range(options.rounds):
            seconds, cpu_s, _ = checked(several[:1], frames)
            samples.add("check, one trace of small frames, frames/s", "mcpproxy", frames / seconds)
            samples.add("check, µs of CPU per frame", "mcpproxy", cpu_s / frames * 1e6)
            seconds, _, _ = checked(several, frames * len(several))
            row = f"check, {len(several)} traces on {cores} cores, frames/s"
            samples.add(row, "mcpproxy", frames * len(several) / seconds)
            for _ in range(1 if options.short else STARTS):
                started(samples, several[0])
        for size in SHORT_BYTES if options.short else (size // options.part for size in LARGE_BYTES):
            path = folder / "large.jsonl"
            frames = write(path, large(size))
            seconds, _, peak_mib = checked([path], frames)
            samples.add(f"check, peak memory with {size >> 20} MiB of trace, MiB", "mcpproxy", peak_mib)
            samples.add(f"check, {size >> 20} MiB of 4 KB frames, MiB/s", "mcpproxy", (size >> 20) / seconds)
            path.unlink()
    return [Section("offline", samples, VARIANTS[-1:] if options.ours else VARIANTS)]


def small(calls: int) -> Iterator[Line]:
    """A session of small calls."""
    yield from handshake("2025-11-25")
    for n in range(1, calls + 1):
        yield from call(n)


def large(size: int) -> Iterator[Line]:
    """A session of 4 KB results, of about so many bytes in all."""
    yield from handshake("2025-11-25")
    said = 0
    n = 0
    while said < size:
        n += 1
        ask = client(
            {"id": n, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}}
        )
        told = server({"id": n, "result": {"content": [{"type": "text", "text": LONG_TEXT}]}})
        said += len(ask[1]) + len(told[1]) + 150
        yield from (ask, told)


def write(path: Path, lines: Iterator[Line]) -> int:
    """A finished trace of these frames; how many there are."""
    tally = Tally()
    seq = 0
    with path.open("wb") as file:
        file.write(encode_header(Header(transport="stdio", command=("bench",), label="bench")))
        for seq, (sender, raw) in enumerate(lines, start=1):
            tally.frames[sender] += 1
            file.write(encode_frame(Frame(seq, sender, raw, seq * 1000)))
        file.write(encode_close(Close("exited", exit_code=0), tally))
    return seq


def checked(paths: list[Path], frames: int) -> tuple[float, float, float]:
    """Seconds, seconds of CPU, and the peak of the largest process in MiB, of one ``check``.

    Raises:
        WrongBytesError: it did not judge all frames, or found something.
    """
    command = [*MCPPROXY, "check", *map(str, paths)]
    begun = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    said = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begun
    if process.returncode != 0 or f"{frames:,} frames" not in said:
        raise WrongBytesError(f"check: {frames:,} lawful frames, and it said: {said[:300]}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def started(samples: Samples, trace: Path) -> None:
    """How long each command takes to its first output, beside a bare interpreter."""
    bare_ms = first_output_ms([sys.executable, "-c", "print(1)"])
    for command, *arguments in COMMANDS:
        given = [str(tiny(trace)) if argument == "TRACE" else argument for argument in arguments]
        row = f"{command}, start to first output, ms"
        samples.add(row, "python alone", bare_ms)
        samples.add(row, "mcpproxy", first_output_ms([*MCPPROXY, command, *given]))


def tiny(beside: Path) -> Path:
    """A recording of three calls."""
    path = beside.parent / "tiny.jsonl"
    if not path.exists():
        write(path, small(3))
    return path


def first_output_ms(command: list[str]) -> float:
    """From the start of a process to the first byte that it prints."""
    begun = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        if not process.stdout.read(1):
            raise WrongBytesError(f"{' '.join(command[1:4])} printed nothing")
        took_ms = (time.monotonic() - begun) * 1e3
        process.stdout.read()
    return took_ms

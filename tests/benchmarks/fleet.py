"""Recordings judged one by one by each engine, with one worker and with two, and written as tables.

10,000 recordings of 100 frames. Each run is the command from its start to its end, and every result is
compared to the byte with that of the first run.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.benchmarks.report import Samples, number, table
from tests.benchmarks.sessions import Kind, WrongBytesError
from tests.cli.recordings import close, frame
from tests.fleet import corpus

RECORDINGS: Final = 10_000
CALLS: Final = 48
ENGINES: Final = ("local", "ray", "dask")


def write(folder: Path, count: int) -> None:
    """Write recordings of 100 frames; in each tenth the server breaks a rule."""
    folder.mkdir()
    for number_of in range(count):
        server = f"server-{number_of % 20}"
        records = [
            corpus.header(server, f"2026-11-{1 + number_of % 28:02}T09:00:00.000000Z"),
            *corpus.handshake(f"client-{number_of % 7}", server),
            *(corpus.UNKNOWN_ID.replace('"seq":6', '"seq":4') for _ in range(number_of % 10 == 0)),
        ]
        for call in range(CALLS):
            seq = 5 + 2 * call
            asked = {"name": f"tool-{call % 8}", "arguments": {"city": "Oslo", "number": call}}
            text = {"content": [{"type": "text", "text": f"It is sunny there, for the {call}th time."}]}
            records += (
                frame(seq, "client", corpus.message(seq, "tools/call", asked), ms=100 + 10 * call),
                frame(seq + 1, "server", corpus.result(seq, text), ms=104 + 10 * call),
            )
        frames = 2 + CALLS, 1 + CALLS + (number_of % 10 == 0)
        records.append(close(*frames))
        (folder / f"{number_of:05}.jsonl").write_text("".join(record + "\n" for record in records))


def command(*argv: str) -> float:
    """Run a command, and return how many seconds it took."""
    began = time.perf_counter()
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", *argv], capture_output=True, env=environment, check=False
    )
    if done.returncode:
        raise WrongBytesError(f"mcpproxy {' '.join(argv)}: {done.stderr.decode()}")
    return time.perf_counter() - began


def run(rounds: int, short: bool, kinds: tuple[Kind, ...]) -> str:
    """Judge the recordings with each engine, and return tables."""
    del kinds  # nothing is connected
    samples = Samples()
    count = 200 if short else RECORDINGS
    with tempfile.TemporaryDirectory(prefix="mcpproxy-fleet-") as scratch:
        fleet, few, out = Path(scratch, "fleet"), Path(scratch, "few"), Path(scratch, "out")
        write(fleet, count)
        write(few, 1)
        expected = None
        for _ in range(rounds):
            for engine in ENGINES:
                start_s = _judge(few, out, engine, 1)
                samples.add("one recording, s", engine, start_s)
                took = {workers: _timed(fleet, out, engine, workers) for workers in (1, 2)}
                for workers, (took_s, found) in took.items():
                    expected = expected or found
                    if found != expected:
                        raise WrongBytesError(f"{engine}, {workers} workers: other results")
                    samples.add(f"all of them, {workers} worker{'s' * (workers - 1)}, s", engine, took_s)
                one_s, two_s = took[1][0], took[2][0]
                samples.add("one more recording, 1 worker, ms", engine, 1000 * (one_s - start_s) / count)
                samples.add("efficiency from 1 to 2 workers", engine, one_s / two_s / 2)
                samples.add("the same without the start", engine, (one_s - start_s) / (two_s - start_s) / 2)
        judged = table(samples, ENGINES)
        return f"{count:,} recordings of 100 frames.\n\n{judged}\n\n{_export(fleet, scratch, count, rounds)}"


def _judge(fleet: Path, out: Path, engine: str, workers: int) -> float:
    shutil.rmtree(out, ignore_errors=True)
    return command("check", str(fleet), "--out", str(out), "--engine", engine, "--workers", str(workers))


def _timed(fleet: Path, out: Path, engine: str, workers: int) -> tuple[float, dict[str, bytes]]:
    took_s = _judge(fleet, out, engine, workers)
    return took_s, corpus.tree(out)


def _export(fleet: Path, scratch: str, count: int, rounds: int) -> str:
    """Write tables, and return how many frames that were in a second of a processor."""
    rates: list[float] = []
    for _ in range(rounds):
        columns = Path(scratch, "columns")
        shutil.rmtree(columns, ignore_errors=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command("export", "parquet", str(fleet), "-o", str(columns))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rates.append(count * 100 / used_s)
    return f"`export parquet`: {number(sorted(rates)[rounds // 2])} frames in a second of a processor."

"""Recordings judged one by one by each engine, with one worker and with two, and written as tables.

10,000 recordings of 100 frames, in a folder and in an object store. Each run is the command from its start to
its end, and every result is compared with that of the first run.
"""

import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.benchmarks.report import Samples, number, table
from tests.benchmarks.sessions import Kind, WrongBytesError
from tests.cli.recordings import close, frame
from tests.fleet import corpus
from tests.peers import install
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL, client

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


def command(*argv: str, variables: Mapping[str, str] | None = None) -> float:
    """Run a command, and return how many seconds it took."""
    began = time.perf_counter()
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **(variables or {})}
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", *argv], capture_output=True, env=environment, check=False
    )
    if done.returncode:
        raise WrongBytesError(f"mcpproxy {' '.join(argv)}: {done.stderr.decode()}")
    return time.perf_counter() - began


@dataclass(frozen=True)
class Source:
    """Where ``recordings`` and ``one`` of them are, and where results go: paths or URLs.

    ``results`` returns, for a place below ``out``, something for each result that tells another content.
    """

    recordings: str
    one: str
    out: str
    results: Callable[[str], Mapping[str, object]]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def run(rounds: int, short: bool, kinds: tuple[Kind, ...]) -> str:
    """Judge the recordings with each engine, from a folder and from an object store, and return tables."""
    del kinds  # nothing is connected
    count = 200 if short else RECORDINGS
    with tempfile.TemporaryDirectory(prefix="mcpproxy-fleet-") as scratch:
        fleet, few, out = Path(scratch, "fleet"), Path(scratch, "few"), Path(scratch, "out")
        write(fleet, count)
        write(few, 1)
        folder = Source(str(fleet), str(few), str(out), lambda place: corpus.tree(Path(place)))
        parts = [f"{count:,} recordings of 100 frames, in a folder.\n\n{_judged(folder, count, rounds)}"]
        with _object_store(Path(scratch, "store")) as store:
            for name, where in (("recordings", fleet), ("one", few)):
                shipped_s = command("ship", str(where), f"{URL}/{name}", variables=store.variables)
                if where == fleet:
                    parts.append(f"Shipped into an object store in {shipped_s:.0f} s, and judged there.")
            places = (f"{URL}/{name}" for name in ("recordings", "one", "findings"))
            stored = Source(*places, results=partial(_etags, store), variables=store.variables)
            parts.append(_judged(stored, count, rounds))
        return "\n\n".join([*parts, _export(fleet, scratch, count, rounds)])


def _judged(source: Source, count: int, rounds: int) -> str:
    """Return a table of every engine and number of workers, and of shards one after the other."""
    samples, places = Samples(), (f"{source.out}/{number_of}" for number_of in itertools.count())
    expected: Mapping[str, object] | None = None

    def judge(recordings: str, *options: str, out: str) -> float:
        return command("check", recordings, "--out", out, *options, variables=source.variables)

    def compare(out: str, what: str) -> None:
        nonlocal expected
        found = source.results(out)
        expected = expected or found
        if found != expected or len(found) != count:
            raise WrongBytesError(f"{what}: {len(found)} results, and other ones")

    for _ in range(rounds):
        for engine in ENGINES:
            start_s = judge(source.one, "--engine", engine, "--workers", "1", out=next(places))
            samples.add("one recording, s", engine, start_s)
            took_s: list[float] = []
            for workers in (1, 2):
                out = next(places)
                took_s.append(
                    judge(source.recordings, "--engine", engine, "--workers", str(workers), out=out)
                )
                compare(out, f"{engine}, {workers} workers")
                samples.add(f"all of them, {workers} worker{'s' * (workers - 1)}, s", engine, took_s[-1])
            one_s, two_s = took_s
            samples.add("one more recording, 1 worker, ms", engine, 1000 * (one_s - start_s) / count)
            samples.add("efficiency from 1 to 2 workers", engine, one_s / two_s / 2)
            samples.add("the same without the start", engine, (one_s - start_s) / (two_s - start_s) / 2)
        out = next(places)
        sum_s = sum(
            judge(source.recordings, "--shard", f"{index}/8", "--workers", "1", out=out) for index in range(8)
        )
        compare(out, "shards")
        samples.add("8 shards, one after the other, s", ENGINES[0], sum_s)
    return table(samples, ENGINES)


@contextmanager
def _object_store(folder: Path) -> Generator[ObjectStore]:
    server = ObjectStore(install.object_store(), folder)
    server.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.kill()


def _etags(store: ObjectStore, place: str) -> dict[str, object]:
    """The MD5 of each result below a folder of the store, as the store gives it."""
    prefix = place.removeprefix(f"{URL}/")
    # Its stub names types of pyarrow, which is not needed here.
    listed = client(store).list(prefix)  # pyright: ignore[reportUnknownMemberType]
    return {each["path"].removeprefix(prefix): each["e_tag"] for batch in listed for each in batch}


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

"""Recordings judged one by one by each engine, with one worker and with two, and written as tables.

10,000 recordings of 100 frames, in a folder and in an object store. Each run is the command from its start to
its end, and every result is compared with that of the first run. The store is on the same processors. So
there is also what workers do that are held to a part of them, and what they do with a store far away.
"""

import asyncio
import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.options import Options
from tests.benchmarks.quota import quota
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import WrongBytesError
from tests.cli.recordings import close, frame
from tests.fleet import corpus
from tests.peers import install
from tests.peers.distant_store import distant
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL, client

RECORDINGS: Final = 10_000
CALLS: Final = 48
ENGINES: Final = ("local", "ray", "dask")
SOME: Final = 2_000
SHARE: Final = 0.35
"""How much of a processor a worker has that is held: two of them and the store do not use two processors."""
DISTANCES_MS: Final = (0, 20, 50)


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


def command(
    *argv: str, variables: Mapping[str, str] | None = None, first: Callable[[], None] | None = None
) -> float:
    """Run a command, and return how many seconds it took. It calls ``first`` in its process."""
    began = time.perf_counter()
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **(variables or {})}
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", *argv],
        capture_output=True,
        env=environment,
        check=False,
        preexec_fn=first,
    )
    if done.returncode:
        raise WrongBytesError(f"mcpproxy {' '.join(argv)}: {done.stderr.decode()}")
    return time.perf_counter() - began


@dataclass(frozen=True)
class Source:
    """Where ``recordings`` and ``one`` of them are, and where results go: paths or URLs.

    ``results`` returns, for a place below ``out``, something for each result that tells another content, and
    ``store_s`` how many seconds of a processor the store has used.
    """

    recordings: str
    one: str
    out: str
    results: Callable[[str], Mapping[str, object]]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    store_s: Callable[[], float] = float


def run(options: Options) -> list[Section]:
    """Judge the recordings with each engine, from a folder and from an object store; write them as tables.

    Of ours alone, there is one engine and the folder.
    """
    count, some, rounds = options.size(RECORDINGS, 200), options.size(SOME, 60), options.rounds
    with tempfile.TemporaryDirectory(prefix="mcpproxy-fleet-") as scratch:
        fleet, few, out = Path(scratch, "fleet"), Path(scratch, "few"), Path(scratch, "out")
        write(fleet, count)
        write(few, 1)
        engines = ENGINES[:1] if options.ours else ENGINES
        folder = Source(str(fleet), str(few), str(out), lambda place: corpus.tree(Path(place)))
        title = f"fleet: {count:,} recordings of 100 frames, in a folder"
        found = [_judged(title, folder, engines, count, rounds), _export(fleet, scratch, count, rounds)]
        if options.ours:
            return found
        with _object_store(Path(scratch, "store")) as store:
            shipped = Samples()
            for name, where in (("recordings", fleet), ("one", few)):
                shipped_s = command("ship", str(where), f"{URL}/{name}", variables=store.variables)
                shipped.add(f"{name} shipped, s", "ship", shipped_s)
            stored = Source(
                f"{URL}/recordings",
                f"{URL}/one",
                f"{URL}/findings",
                results=partial(_etags, store),
                variables=store.variables,
                store_s=partial(processes.cpu_seconds, store.pid),
            )
            found.append(Section("fleet: into an object store", shipped, ("ship",)))
            found.append(_judged("fleet: from an object store", stored, engines, count, rounds))
            write(Path(scratch, "some"), some)
            command("ship", str(Path(scratch, "some")), f"{URL}/some", variables=store.variables)
            return [*found, _held(store, some, rounds), _distant(store, some, rounds)]


def _judged(title: str, source: Source, engines: Sequence[str], count: int, rounds: int) -> Section:
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
        for engine in engines:
            start_s = judge(source.one, "--engine", engine, "--workers", "1", out=next(places))
            samples.add("one recording, s", engine, start_s)
            took_s: list[float] = []
            for workers in (1, 2):
                out, what = next(places), f"{workers} worker{'s' * (workers - 1)}"
                used_s, store_s = _children_s(), source.store_s()
                took_s.append(
                    judge(source.recordings, "--engine", engine, "--workers", str(workers), out=out)
                )
                used_s, store_s = _children_s() - used_s, source.store_s() - store_s
                compare(out, f"{engine}, {workers} workers")
                samples.add(f"all of them, {what}, s", engine, took_s[-1])
                if engine == "local":
                    samples.add(f"processor for a recording, {what}, ms", engine, 1000 * used_s / count)
                    if store_s:
                        samples.add(f"the same of the store, {what}, ms", engine, 1000 * store_s / count)
            one_s, two_s = took_s
            samples.add("one more recording, 1 worker, ms", engine, 1000 * (one_s - start_s) / count)
            samples.add("efficiency from 1 to 2 workers", engine, one_s / two_s / 2)
            samples.add("the same without the start", engine, (one_s - start_s) / (two_s - start_s) / 2)
        out = next(places)
        sum_s = sum(
            judge(source.recordings, "--shard", f"{index}/8", "--workers", "1", out=out) for index in range(8)
        )
        compare(out, "shards")
        samples.add("8 shards, one after the other, s", engines[0], sum_s)
    return Section(title, samples, engines, ratios=False)


def _held(store: ObjectStore, count: int, rounds: int) -> Section:
    """Return a table of workers that are held to a share of a processor, so that the store has its own."""
    samples = Samples()
    try:
        for round_ in range(rounds):
            took_s: list[float] = []
            for place, workers in (("one", 1), ("some", 1), ("some", 2)):
                out = f"{URL}/findings/held-{round_}-{place}-{workers}"
                with quota(workers * SHARE) as enter:
                    options = ("--out", out, "--workers", str(workers))
                    took_s.append(
                        command("check", f"{URL}/{place}", *options, variables=store.variables, first=enter)
                    )
            start_s, one_s, two_s = took_s
            samples.add("1 worker, ms a recording", "held", 1000 * (one_s - start_s) / count)
            samples.add("2 workers, ms a recording", "held", 1000 * (two_s - start_s) / count)
            samples.add("efficiency from 1 to 2 workers", "held", one_s / two_s / 2)
            samples.add("the same without the start", "held", (one_s - start_s) / (two_s - start_s) / 2)
    except OSError as fault:
        samples.notes.append(f"Workers could not be held to a share of a processor: {fault.strerror}.")
    return Section(
        f"fleet: {count:,} of them, each worker held to {SHARE} of a processor", samples, ("held",)
    )


def _distant(store: ObjectStore, count: int, rounds: int) -> Section:
    """Return a table of a store whose requests take longer."""
    samples, names = Samples(), [f"{distance} ms" for distance in DISTANCES_MS]
    for round_ in range(rounds):
        for distance, name in zip(DISTANCES_MS, names, strict=True):

            async def hold(piece: bytes, distance_s: float = distance / 1000) -> None:
                del piece
                await asyncio.sleep(distance_s)

            with distant(store.variables, hold) as variables:
                for workers in (1, 2):
                    options = ("--out", f"{URL}/findings/far-{round_}-{distance}-{workers}")
                    took_s = command(
                        "check", f"{URL}/some", *options, "--workers", str(workers), variables=variables
                    )
                    what = f"{workers} worker{'s' * (workers - 1)}, ms a recording"
                    samples.add(what, name, 1000 * took_s / count)
    title = f"fleet: {count:,} of them, from a store whose requests take longer"
    return Section(title, samples, names, ratios=False)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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


def _export(fleet: Path, scratch: str, count: int, rounds: int) -> Section:
    """Write tables, and return how many frames that were in a second of a processor."""
    samples = Samples()
    for _ in range(rounds):
        columns = Path(scratch, "columns")
        shutil.rmtree(columns, ignore_errors=True)
        before = _children_s()
        command("export", "parquet", str(fleet), "-o", str(columns))
        rate = count * 100 / (_children_s() - before)
        samples.add("export parquet, frames in a second of a processor", "mcpproxy", rate)
    return Section("tables", samples, ("mcpproxy",))

"""Recordings judged one by one by each engine, with one worker and with two, and written as tables.

10,000 recordings of 100 frames, in a folder and in an object store. Each run is the command from its start to
its end, and every result is compared with that of the first run. The store is on the same processors. So
there is also what one worker does that shares one processor with the store, what workers do that are held to
a part of the processors, what they do with larger recordings, and with a store far away.
"""

import itertools
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.benchmarks import fleet_store
from tests.benchmarks.fleet_rig import (
    ENGINES,
    SameResults,
    Source,
    children_s,
    command,
    etags,
    object_store,
    plural,
    write,
)
from tests.benchmarks.report import Samples, number, table
from tests.benchmarks.sessions import Kind
from tests.fleet import corpus
from tests.ship_kills.shipping import URL

RECORDINGS: Final = 10_000
SOME: Final = 2_000


def run(rounds: int, short: bool, kinds: tuple[Kind, ...]) -> str:
    """Judge the recordings with each engine, from a folder and from an object store, and return tables."""
    del kinds  # nothing is connected
    count, some = (200, 60) if short else (RECORDINGS, SOME)
    engines = ENGINES[:1] if short else ENGINES  # an engine starts in seconds
    with tempfile.TemporaryDirectory(prefix="mcpproxy-fleet-") as name:
        scratch = Path(name)
        fleet, few, out = scratch / "fleet", scratch / "few", scratch / "out"
        write(fleet, count)
        write(few, 1)
        folder = Source(str(fleet), str(few), str(out), lambda place: corpus.tree(Path(place)))
        judged, _ = _judged(folder, count, rounds, engines)
        parts = [f"{count:,} recordings of 100 frames, in a folder.\n\n{judged}"]
        with object_store(scratch / "store") as store:
            for place, where in (("recordings", fleet), ("one", few)):
                shipped_s = command("ship", str(where), f"{URL}/{place}", variables=store.variables)
                if where == fleet:
                    parts.append(f"Shipped into an object store in {shipped_s:.0f} s, and judged there.")
            stored = Source(
                f"{URL}/recordings",
                f"{URL}/one",
                f"{URL}/findings",
                results=partial(etags, store),
                store=store,
                variables=store.variables,
            )
            judged, two_s = _judged(stored, count, rounds, ENGINES)
            parts += [judged, fleet_store.doubled(stored, count, two_s, engines)]
            parts.append(fleet_store.held(stored, count, rounds, engines))
            parts.append(fleet_store.sizes(store, scratch, rounds, short=short))
            write(scratch / "some", some)
            command("ship", str(scratch / "some"), f"{URL}/some", variables=store.variables)
            parts.append(fleet_store.far(store, some, rounds))
        return "\n\n".join([*parts, _export(fleet, scratch, count, rounds)])


def _judged(
    source: Source, count: int, rounds: int, engines: Sequence[str]
) -> tuple[str, dict[str, list[float]]]:
    """Return a table of each engine and number of workers, and of shards one after the other.

    Also return how many seconds each engine took with two workers, for each round.
    """
    samples, places = Samples(), (f"{source.out}/{number_of}" for number_of in itertools.count())
    same, two_workers_s = SameResults(source, count), defaultdict[str, list[float]](list)
    for _ in range(rounds):
        for engine in engines:
            start_s = source.judge(source.one, next(places), "--engine", engine)
            samples.add("one recording, s", engine, start_s)
            took_s: list[float] = []
            for workers in (1, 2):
                out, what = next(places), plural(workers)
                used_s, store_s = children_s(), source.store_s()
                took_s.append(source.judge(source.recordings, out, "--engine", engine, workers=workers))
                used_s, store_s = children_s() - used_s, source.store_s() - store_s
                same.compare(out, f"{engine}, {what}")
                samples.add(f"all of them, {what}, s", engine, took_s[-1])
                if engine == "local":
                    samples.add(f"processor for a recording, {what}, ms", engine, 1000 * used_s / count)
                if store_s:
                    samples.add(f"the same of the store, {what}, ms", engine, 1000 * store_s / count)
            one_s, two_s = took_s
            two_workers_s[engine].append(two_s)
            samples.add("one more recording, 1 worker, ms", engine, 1000 * (one_s - start_s) / count)
            samples.add("efficiency from 1 to 2 workers", engine, one_s / two_s / 2)
            samples.add("the same without the start", engine, (one_s - start_s) / (two_s - start_s) / 2)
        out = next(places)
        sum_s = sum(source.judge(source.recordings, out, "--shard", f"{index}/8") for index in range(8))
        same.compare(out, "shards")
        samples.add("8 shards, one after the other, s", ENGINES[0], sum_s)
    return table(samples, engines), two_workers_s


def _export(fleet: Path, scratch: Path, count: int, rounds: int) -> str:
    """Write tables, and return how many frames that were in a second of a processor."""
    rates: list[float] = []
    for _ in range(rounds):
        columns = scratch / "columns"
        shutil.rmtree(columns, ignore_errors=True)
        before = children_s()
        command("export", "parquet", str(fleet), "-o", str(columns))
        rates.append(count * 100 / (children_s() - before))
    return f"`export parquet`: {number(sorted(rates)[rounds // 2])} frames in a second of a processor."

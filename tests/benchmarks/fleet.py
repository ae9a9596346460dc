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
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.fleet import corpus
from tests.ship_kills.shipping import URL

RECORDINGS: Final = 10_000
SOME: Final = 2_000


def run(options: Options) -> list[Section]:
    """Judge the recordings with each engine, from a folder and from an object store; write them as tables.

    Of ours alone, there is one engine and the folder.
    """
    count, some, rounds = options.size(RECORDINGS, 200), options.size(SOME, 60), options.rounds
    engines = ENGINES[:1] if options.ours or options.short else ENGINES  # an engine starts in seconds
    with tempfile.TemporaryDirectory(prefix="mcpproxy-fleet-") as name:
        scratch = Path(name)
        fleet, few, out = scratch / "fleet", scratch / "few", scratch / "out"
        write(fleet, count)
        write(few, 1)
        folder = Source(str(fleet), str(few), str(out), lambda place: corpus.tree(Path(place)))
        title = f"fleet: {count:,} recordings of 100 frames, in a folder"
        judged, _ = _judged(title, folder, count, rounds, engines)
        found = [judged, _export(fleet, scratch, count, rounds)]
        if options.ours:
            return found
        with object_store(scratch / "store") as store:
            shipped = Samples()
            for place, where in (("recordings", fleet), ("one", few)):
                shipped_s = command("ship", str(where), f"{URL}/{place}", variables=store.variables)
                shipped.add(f"{place} shipped, s", "ship", shipped_s)
            found.append(Section("fleet: into an object store", shipped, ("ship",)))
            stored = Source(
                f"{URL}/recordings",
                f"{URL}/one",
                f"{URL}/findings",
                results=partial(etags, store),
                store=store,
                variables=store.variables,
            )
            judged, two_s = _judged("fleet: from an object store", stored, count, rounds, ENGINES)
            found += [judged, fleet_store.doubled(stored, count, two_s, engines)]
            found.append(fleet_store.held(stored, count, rounds, engines))
            found.append(fleet_store.sizes(store, scratch, rounds, short=options.short))
            write(scratch / "some", some)
            command("ship", str(scratch / "some"), f"{URL}/some", variables=store.variables)
            return [*found, fleet_store.far(store, some, rounds)]


def _judged(
    title: str, source: Source, count: int, rounds: int, engines: Sequence[str]
) -> tuple[Section, dict[str, list[float]]]:
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
    return Section(title, samples, engines, ratios=False), two_workers_s


def _export(fleet: Path, scratch: Path, count: int, rounds: int) -> Section:
    """Write tables, and return how many frames that were in a second of a processor."""
    samples = Samples()
    for _ in range(rounds):
        columns = scratch / "columns"
        shutil.rmtree(columns, ignore_errors=True)
        before = children_s()
        command("export", "parquet", str(fleet), "-o", str(columns))
        rate = count * 100 / (children_s() - before)
        samples.add("export parquet, frames in a second of a processor", "mcpproxy", rate)
    return Section("tables", samples, ("mcpproxy",))

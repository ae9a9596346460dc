"""Recordings judged from an object store whose processors, distance, or recordings are other ones."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.benchmarks.fleet_rig import (
    SameResults,
    Source,
    children_s,
    command,
    etags,
    one_processor,
    plural,
    write,
)
from tests.benchmarks.quota import quota
from tests.benchmarks.report import Samples, Section
from tests.peers.distant_store import distant
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL

SHARE: Final = 0.5
"""How much of a processor each worker has that is held: two of them and the store need less than two."""
SIZES: Final = ((48, 3_000), (148, 1_500), (498, 600))
"""The calls of a recording, and how many recordings of them: 100, 300 and 1,000 frames."""
SHORT_SIZES: Final = ((48, 40), (148, 20))
DISTANCES_MS: Final = (0, 20, 50)


def doubled(
    source: Source, count: int, two_s: Mapping[str, Sequence[float]], engines: Sequence[str]
) -> Section:
    """Return a table of one worker that shares one processor with the store.

    ``two_s`` has how long two of them took on both processors, by engine, and for each round.
    """
    assert source.store is not None
    samples, same = Samples(), SameResults(source, count)
    for engine in engines:
        for round_, both_s in enumerate(two_s[engine]):
            out = f"{source.out}/single-{engine}-{round_}"
            with one_processor(source.store) as enter:
                one_s = source.judge(source.recordings, out, "--engine", engine, first=enter)
            same.compare(out, f"{engine}, one processor")
            samples.add("1 worker and the store on 1 processor, s", engine, one_s)
            samples.add("2 workers and the store on 2 processors, s", engine, both_s)
            samples.add("efficiency from 1 to 2", engine, one_s / both_s / 2)
    title = "fleet: from an object store, a worker comes with a processor"
    return Section(title, samples, engines, ratios=False)


def held(source: Source, count: int, rounds: int, engines: Sequence[str]) -> Section:
    """Return a table of workers that are held to a share of a processor, so that the store has its own."""
    samples, same = Samples(), SameResults(source, count)
    try:
        for round_ in range(rounds):
            for engine in engines:
                took_s: list[float] = []
                for workers in (1, 2):
                    out = f"{source.out}/held-{engine}-{round_}-{workers}"
                    options = ("--engine", engine)
                    with quota(workers * SHARE) as enter:
                        start_s = source.judge(
                            source.one, f"{out}-one", *options, workers=workers, first=enter
                        )
                        all_s = source.judge(source.recordings, out, *options, workers=workers, first=enter)
                    same.compare(out, f"{engine}, {plural(workers)}, held")
                    samples.add(f"one recording, {plural(workers)}, s", engine, start_s)
                    samples.add(f"all of them, {plural(workers)}, s", engine, all_s)
                    took_s += (start_s, all_s)
                one_start_s, one_s, two_start_s, two_s = took_s
                samples.add("efficiency from 1 to 2 workers", engine, one_s / two_s / 2)
                beyond = (one_s - one_start_s) / (two_s - two_start_s) / 2
                samples.add("the same without the start", engine, beyond)
    except OSError as fault:
        samples.notes.append(f"Workers could not be held to a share of a processor: {fault.strerror}.")
    title = f"fleet: from an object store, command and workers held to {SHARE} of a processor for each worker"
    return Section(title, samples, engines, ratios=False)


def sizes(store: ObjectStore, scratch: Path, rounds: int, *, short: bool) -> Section:
    """Return a table of recordings that have more frames, judged by the engine ``local``."""
    samples, names = Samples(), list[str]()
    for calls, count in SHORT_SIZES if short else SIZES:
        name = f"{4 + 2 * calls:,} frames"
        names.append(name)
        place = f"frames-{calls}"
        write(scratch / place, count, calls)
        command("ship", str(scratch / place), f"{URL}/{place}", variables=store.variables)
        results = partial(etags, store)
        source = Source(f"{URL}/{place}", "", f"{URL}/findings/{place}", results, store, store.variables)
        same = SameResults(source, count)
        for round_ in range(rounds):
            took_s: list[float] = []
            samples.add("recordings", name, count)
            for workers in (1, 2):
                out, what = f"{source.out}/{round_}-{workers}", plural(workers)
                used_s, store_s = children_s(), source.store_s()
                took_s.append(source.judge(source.recordings, out, workers=workers))
                used_s, store_s = children_s() - used_s, source.store_s() - store_s
                same.compare(out, f"{name}, {what}")
                samples.add(f"{what}, ms a recording", name, 1000 * took_s[-1] / count)
                samples.add(f"processor for a recording, {what}, ms", name, 1000 * used_s / count)
                samples.add(f"the same of the store, {what}, ms", name, 1000 * store_s / count)
            samples.add("efficiency from 1 to 2 workers", name, took_s[0] / took_s[1] / 2)
    return Section("fleet: recordings of other sizes, from an object store", samples, names, ratios=False)


def far(store: ObjectStore, count: int, rounds: int) -> Section:
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
                    what = f"{plural(workers)}, ms a recording"
                    samples.add(what, name, 1000 * took_s / count)
    title = f"fleet: {count:,} of them, from a store whose requests take longer"
    return Section(title, samples, names, ratios=False)

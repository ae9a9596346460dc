"""What the fleet benchmark measures with: recordings, commands, the object store, and processor time."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.sessions import WrongBytesError
from tests.cli.recordings import close, frame
from tests.fleet import corpus
from tests.peers import install
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL, client

CALLS: Final = 48
"""The calls of a recording of 100 frames."""
ENGINES: Final = ("local", "ray", "dask")
STORE_SETTINGS: Final = {"GOMAXPROCS": "1"}
"""The store uses one processor at most: with few requests at a time, more of them mostly wake one another."""


def write(folder: Path, count: int, calls: int = CALLS) -> None:
    """Write recordings of 4 frames and 2 for each call; in each tenth the server breaks a rule."""
    folder.mkdir()
    for number_of in range(count):
        server = f"server-{number_of % 20}"
        records = [
            corpus.header(server, f"2026-11-{1 + number_of % 28:02}T09:00:00.000000Z"),
            *corpus.handshake(f"client-{number_of % 7}", server),
            *(corpus.UNKNOWN_ID.replace('"seq":6', '"seq":4') for _ in range(number_of % 10 == 0)),
        ]
        for call in range(calls):
            seq = 5 + 2 * call
            asked = {"name": f"tool-{call % 8}", "arguments": {"city": "Oslo", "number": call}}
            text = {"content": [{"type": "text", "text": f"It is sunny there, for the {call}th time."}]}
            records += (
                frame(seq, "client", corpus.message(seq, "tools/call", asked), ms=100 + 10 * call),
                frame(seq + 1, "server", corpus.result(seq, text), ms=104 + 10 * call),
            )
        frames = 2 + calls, 1 + calls + (number_of % 10 == 0)
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
    ``store`` is the server that has them.
    """

    recordings: str
    one: str
    out: str
    results: Callable[[str], Mapping[str, object]]
    store: ObjectStore | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def judge(
        self,
        recordings: str,
        out: str,
        *options: str,
        workers: int = 1,
        first: Callable[[], None] | None = None,
    ) -> float:
        """Judge ``recordings``, and return how many seconds it took."""
        options = "--out", out, "--workers", str(workers), *options
        return command("check", recordings, *options, variables=self.variables, first=first)

    def store_s(self) -> float:
        """How many seconds of a processor the store has used."""
        if self.store is None:
            return 0.0
        return processes.cpu_seconds(self.store.pid)


class SameResults:
    """Compares the results of each run with those of the first; there have to be ``count``."""

    def __init__(self, source: Source, count: int) -> None:
        self._source: Final = source
        self._count: Final = count
        self._expected: Mapping[str, object] | None = None

    def compare(self, out: str, what: str) -> None:
        """Compare the results below ``out``.

        Raises:
            WrongBytesError: one is missing or another.
        """
        found = self._source.results(out)
        self._expected = self._expected or found
        if found != self._expected or len(found) != self._count:
            raise WrongBytesError(f"{what}: {len(found)} results, and other ones")


def children_s() -> float:
    """How many seconds of a processor the commands that ended have used, with all that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def one_processor(store: ObjectStore) -> Generator[Callable[[], None]]:
    """Hold the store to one processor, and yield what a new process calls to be held to the same."""
    allowed = os.sched_getaffinity(0)
    one = {min(allowed)}
    _allow(store.pid, one)
    try:
        yield lambda: os.sched_setaffinity(0, one)
    finally:
        _allow(store.pid, allowed)


def _allow(pid: int, processors: Iterable[int]) -> None:
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setaffinity(int(thread), processors)
        except ProcessLookupError:
            pass  # this thread has ended meanwhile


@contextmanager
def object_store(folder: Path) -> Generator[ObjectStore]:
    """Yield a server of S3 that keeps its objects in ``folder``."""
    server = ObjectStore(install.object_store(), folder, STORE_SETTINGS)
    server.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.kill()


def etags(store: ObjectStore, place: str) -> dict[str, object]:
    """The MD5 of each result below a folder of the store, as the store gives it."""
    prefix = place.removeprefix(f"{URL}/")
    # Its stub names types of pyarrow, which is not needed here.
    listed = client(store).list(prefix)  # pyright: ignore[reportUnknownMemberType]
    return {each["path"].removeprefix(prefix): each["e_tag"] for batch in listed for each in batch}


def plural(workers: int) -> str:
    """Say how many workers."""
    return "1 worker" if workers == 1 else f"{workers} workers"

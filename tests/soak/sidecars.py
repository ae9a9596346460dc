"""Twenty sidecars, each a proxy with a folder of its own and a shipper that empties it, and what they use."""

import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy.send.fleet.store import Store
from tests.benchmarks import processes
from tests.soak.outcome import Outcome, Sample, compare
from tests.soak.traffic import Client, serve

_START_TIMEOUT_S: Final = 60

GRACE_S: Final = 25.0
"""How long a shipper may take after SIGTERM: less than the 30 seconds that Kubernetes gives a pod."""


@dataclass(frozen=True)
class Plan:
    """``calls_per_s`` are those of all sidecars. A sample is taken every ``sample_s`` seconds.

    ``kills`` processes are killed meanwhile: shippers, which are started again, and recorders, which are not.
    """

    sidecars: int = 20
    calls_per_s: float = 200
    seconds: float = 1800
    rotate: str = "1min"
    every_s: float = 5
    sample_s: float = 60
    kills: int = 0


class Sidecar:
    """A proxy before the server at ``upstream``, and the shipper of its folder."""

    def __init__(
        self, name: str, folder: Path, upstream: int, url: str, plan: Plan, env: dict[str, str]
    ) -> None:
        self.name: Final = name
        self.folder: Final = folder
        self._log: Final = folder.parent / f"{name}.log"
        self._said_before = 0  # by shippers that were killed
        folder.mkdir()
        mcpproxy = [sys.executable, "-m", "mcpproxy"]
        listen = ["--listen", "127.0.0.1:0", "--trace-dir", str(folder), "--label", name, "--live", "off"]
        watch = ["--watch", "--every", f"{plan.every_s}", "--delete-after", "0s", "--grace", f"{GRACE_S:.0f}"]
        self._ship: Final = [*mcpproxy, "ship", str(folder), url, "--chain", name, *watch]
        self._env: Final = env
        self.proxy: Final = subprocess.Popen(
            [*mcpproxy, "http", f"http://127.0.0.1:{upstream}/mcp", *listen, "--rotate", plan.rotate],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.shipper = self._start_shipper()
        assert self.proxy.stderr is not None
        line = self.proxy.stderr.readline()
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)/", line)
        assert found is not None, line
        self.client: Final = Client(name, int(found[1]))

    def _start_shipper(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            self._said_before = log.tell()
            return subprocess.Popen(self._ship, env=self._env, stdin=subprocess.DEVNULL, stderr=log)

    def kill_shipper(self) -> None:
        """Kill the shipper, and start it again."""
        self.shipper.kill()
        self.shipper.wait()
        self.shipper = self._start_shipper()

    def kill_recorder(self) -> None:
        """Kill the recorder, if it has not been killed before."""
        if recorder := self.pids().get("recorder"):
            os.kill(recorder, signal.SIGKILL)

    def pids(self) -> dict[str, int]:
        """Return the kind and the id of each process."""
        found = processes.find(self.proxy.pid)
        recorder = {"recorder": found.recorder} if found is not None else {}
        return {"relay": self.proxy.pid, **recorder, "shipper": self.shipper.pid}

    def files(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.is_file()]

    def stop(self) -> tuple[int, int]:
        """End both as Kubernetes does, with SIGTERM at the same time; return their exit codes."""
        end = time.monotonic() + _START_TIMEOUT_S
        while b"shipping " not in self._log.read_bytes()[self._said_before :]:  # then it handles the signal
            assert time.monotonic() < end, self._log.read_text(errors="replace")
            time.sleep(0.01)
        self.shipper.send_signal(signal.SIGTERM)
        self.proxy.send_signal(signal.SIGTERM)
        assert self.proxy.stderr is not None
        with self.proxy.stderr as stderr:
            stderr.read()
        return self.proxy.wait(), self.shipper.wait()

    def kill(self) -> None:
        for process in (self.proxy, self.shipper):
            process.kill()
            process.wait()


async def play(
    folder: Path, url: str, plan: Plan, env: dict[str, str], store_pid: int, tells: Callable[[Sample], object]
) -> Outcome:
    """Run the sidecars, and compare what is in the store with what was called.

    ``env`` is that of clients of the store; it must be in the environment of this process, too.
    """
    outcome = Outcome()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    upstream = server.sockets[0].getsockname()[1]
    sidecars: list[Sidecar] = []
    try:
        for number in range(plan.sidecars):
            name = f"s{number:02}"
            sidecars.append(Sidecar(name, folder / name, upstream, url, plan, {**os.environ, **env}))
        rate = plan.calls_per_s / plan.sidecars
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            sampling = group.create_task(
                _sample_often(sidecars, plan, url, store_pid, started, outcome, tells)
            )
            killing = group.create_task(_kill_often(sidecars, plan, started))
            calling = [group.create_task(each.client.call(rate, plan.seconds)) for each in sidecars]
            await asyncio.gather(*calling)
            sampling.cancel()
            killing.cancel()
        await asyncio.to_thread(_stop, sidecars, outcome)
    finally:
        server.close()
        for each in sidecars:
            each.kill()
    peers = {each.client: each.folder for each in sidecars}
    await asyncio.to_thread(compare, peers, url, outcome)
    return outcome


async def _sample_often(
    sidecars: list[Sidecar],
    plan: Plan,
    url: str,
    store_pid: int,
    started: float,
    outcome: Outcome,
    tells: Callable[[Sample], object],
) -> None:
    for number in range(1, 1 << 30):
        await asyncio.sleep(started + number * plan.sample_s - time.monotonic())
        sample = await asyncio.to_thread(_sample, sidecars, url, store_pid, time.monotonic() - started)
        outcome.samples.append(sample)
        tells(sample)


async def _kill_often(sidecars: list[Sidecar], plan: Plan, started: float) -> None:
    """Kill shippers and recorders in turn, each of another sidecar."""
    for number in range(plan.kills):
        await asyncio.sleep(started + (number + 1) * plan.seconds / (plan.kills + 1) - time.monotonic())
        each = sidecars[number // 2 % len(sidecars)]
        await asyncio.to_thread(each.kill_recorder if number % 2 else each.kill_shipper)


def _sample(sidecars: list[Sidecar], url: str, store_pid: int, at_s: float) -> Sample:
    memory: dict[str, list[tuple[float, float]]] = {"store": [_memory(store_pid)]}
    waiting_s, files, disk, journals = 0.0, 0, 0, 0
    took_s: list[float] = []
    now = time.time()
    for each in sidecars:
        for kind, pid in each.pids().items():
            with suppress(FileNotFoundError, ProcessLookupError):  # it was killed
                memory.setdefault(kind, []).append(_memory(pid))
        here = sorted(_statuses(each.files()), key=lambda pair: pair[1].st_mtime)
        files, disk = files + len(here), disk + sum(status.st_size for _, status in here)
        journals += sum(status.st_size for _, status in _statuses(each.folder.glob("*.journal/*")))
        # The first file stays, and the last one is being written.
        parts = [status for path, status in here if re.search(r"\.\d+\.jsonl$", path.name)][:-1]
        waiting_s = max([waiting_s, *(now - status.st_mtime for status in parts)])
        took_s += each.client.took_s
        each.client.took_s.clear()
    stored = sum(1 for _ in Store(url).list("recordings"))
    return Sample(
        at_s,
        sum(len(each.client.ids) for each in sidecars),
        {
            kind: (statistics.median(now for now, _ in each), max(peak for _, peak in each))
            for kind, each in sorted(memory.items())
        },
        1000 * statistics.quantiles(took_s, n=100)[-1] if len(took_s) > 1 else 0,
        waiting_s,
        files,
        disk / 1024,
        journals / 1024,
        stored,
    )


def _memory(pid: int) -> tuple[float, float]:
    return processes.pss_mib(pid), processes.peak_mib(pid)


def _statuses(paths: Iterator[Path] | list[Path]) -> list[tuple[Path, os.stat_result]]:
    """Return the status of each file that is still there."""
    found: list[tuple[Path, os.stat_result]] = []
    for path in paths:
        try:
            found.append((path, path.stat()))
        except FileNotFoundError:
            pass
    return found


def _stop(sidecars: list[Sidecar], outcome: Outcome) -> None:
    """End the sidecars one after the other, as a rollout does."""
    for each in sidecars:
        before = time.monotonic()
        outcome.codes.update(each.stop())
        outcome.last_byte_s = max(outcome.last_byte_s, time.monotonic() - before)

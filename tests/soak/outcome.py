"""What a soak has found: every call is in the store once, or which are not."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mcpproxy.base.byte_budget import ByteBudget
from mcpproxy.send.fleet import manifest
from mcpproxy.send.fleet.fetch import stored_recordings
from mcpproxy.send.fleet.object_contents import stream_content
from mcpproxy.send.fleet.store import Store
from tests.soak.traffic import Client

_ID: Final = re.compile(rb'"id": ?"(s\d+-c\d+)"')


@dataclass(frozen=True)
class Sample:
    """What was seen at a time.

    Memory is in MiB, for each kind of process: the median now, with shared pages counted by share, and the
    most that one of them has ever had resident.
    """

    at_s: float
    calls: int
    memory: dict[str, tuple[float, float]]
    p99_ms: float
    waiting_s: float
    """How long the oldest closed file has been waiting to be shipped."""
    files: int
    disk_kib: float
    journals_kib: float
    stored: int

    def __str__(self) -> str:
        memory = "  ".join(f"{kind} {now:3.0f} {most:3.0f}" for kind, (now, most) in self.memory.items())
        here = f"here {self.files:3} files {self.disk_kib:6.0f} KiB, journals {self.journals_kib:6.0f} KiB"
        return (
            f"{self.at_s:5.0f} s {self.calls:7,} calls  p99 {self.p99_ms:4.0f} ms  {memory}  {here}"
            f"  waiting {self.waiting_s:4.1f} s  {self.stored:5,} stored"
        )


@dataclass
class Outcome:
    """What was found in the end. ``lost`` and ``doubled`` are ids of calls."""

    samples: list[Sample] = field(default_factory=list[Sample])
    calls: int = 0
    files: int = 0
    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    codes: Counter[int] = field(default_factory=Counter[int])
    last_byte_s: float = 0
    """The longest time from SIGTERM until a sidecar and its shipper had exited."""
    miscounted: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])
    verify: str = ""

    @property
    def is_good(self) -> bool:
        faults = (self.lost, self.doubled, self.left, self.miscounted, self.incomplete, self.verify)
        return not any(faults) and not +self.codes - Counter({0: self.codes[0]})


def compare(sidecars: Mapping[Client, Path], url: str, outcome: Outcome) -> None:
    """Compare what is in the store with the calls that were answered, and let ``verify`` read it all.

    ``sidecars`` are the client and the folder of each.
    """
    store = Store(url)
    asked, answered = Counter[str](), Counter[str]()
    for stored in stored_recordings(store.list("recordings")):
        for key in stored.keys:
            outcome.files += 1
            for line in b"".join(stream_content(store, key, ByteBudget(1 << 40))).splitlines():
                if found := _ID.search(line.replace(b"\\", b"")):
                    (asked if b'"from":"client"' in line else answered)[found[1].decode()] += 1
    for each, folder in sidecars.items():
        for id in each.ids:
            if not (asked[id] and answered[id]):
                outcome.lost.append(id)
            elif max(asked[id], answered[id]) > 1:
                outcome.doubled.append(id)
        outcome.calls += len(each.ids)
        outcome.left += [str(path) for path in folder.iterdir()]
    lasts: dict[str, manifest.Manifest] = {}
    for stored in store.list(manifest.FOLDER):
        one = manifest.decode(store.read(stored.key))
        if one.label not in lasts or lasts[one.label].part < one.part:
            lasts[one.label] = one
    for each in sidecars:
        last = lasts.get(each.name)
        frames = (last.frames or {}) if last is not None else {}
        if frames.get("client", 0) < len(each.ids) or frames.get("server", 0) < len(each.ids):
            outcome.miscounted.append(f"{each.name}: {frames}")
        if last is None or last.ending != "exited":
            outcome.incomplete.append(f"{each.name}: {last.ending if last is not None else 'nothing'}")
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "verify", url], capture_output=True, text=True, check=False
    )
    outcome.verify = ran.stdout + ran.stderr if ran.returncode else ""

"""A folder that fills with recordings, a shipper that empties it, and somebody who kills."""

import errno
import hashlib
import json
import os
import random
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from obstore.store import S3Store

from mcpproxy.send.fleet import manifest
from tests.cli import recordings
from tests.peers.object_store import BUCKET, ObjectStore

URL: Final = f"s3://{BUCKET}/shipped"
_GIVE_UP_S: Final = 300
_TARGETS: Final = ("shipper", "shipper", "disk", "shipper", "store", "shipper", "shipper", "shipper")


@dataclass(frozen=True)
class Plan:
    """How many recordings, every tenth of them in three files, and how many kills."""

    recordings: int
    kills: int
    fills_disk: bool = True
    seed: int = 1


@dataclass
class Outcome:
    """What was found when the last file was gone from the folder."""

    files: int = 0
    kills: Counter[str] = field(default_factory=Counter[str])
    missing: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    verify: str = ""

    @property
    def is_good(self) -> bool:
        return not (self.missing or self.doubled or self.wrong or self.left or self.verify)


def play(store: ObjectStore, folder: Path, plan: Plan) -> Outcome:
    """Ship what is written to ``folder`` while everything is killed, and compare. The store goes on."""
    random_ = random.Random(plan.seed)
    outcome = Outcome()
    store.start()
    store.wait_until_ready()
    shipper = Shipping(store, folder)
    written: dict[str, str] = {}
    waiting = [made for number in range(plan.recordings) for made in recording(number)]
    outcome.files = len(waiting)
    deadline = time.monotonic() + _GIVE_UP_S + 10 * plan.kills
    try:
        for number in range(plan.kills):
            _write(folder, waiting[: 1 + len(waiting) // (plan.kills - number)], waiting, written)
            select.select([], [], [], random_.random() * 0.6)  # a kill comes at any moment
            target = _TARGETS[number % len(_TARGETS)]
            if target == "disk" and not plan.fills_disk:
                target = "shipper"
            outcome.kills[target] += 1
            match target:
                case "shipper":
                    shipper.kill()
                    shipper.start()
                case "store":
                    store.kill()
                    select.select([], [], [], random_.random() * 0.5)
                    store.start()
                    store.wait_until_ready()
                case _:
                    filling = folder / "filling"
                    _fill(filling)
                    _write(folder, waiting[:3], waiting, written)  # which may not fit
                    shipper.kill()
                    shipper.start()
                    select.select([], [], [], random_.random())
                    filling.unlink()
        while waiting and time.monotonic() < deadline:
            _write(folder, waiting[:50], waiting, written)
            select.select([], [], [], 0.05)
        shipper.finish(max(deadline - time.monotonic(), 1))
    finally:
        shipper.kill()
    outcome.left = sorted(path.name for path in folder.glob("*.jsonl*"))
    compare(store, written, outcome)
    return outcome


def recording(number: int) -> list[tuple[str, bytes]]:
    """Return the files of a recording: one, or three for every tenth, with all frames in the first."""
    stem = f"20261121T10{number // 60 % 60:02}{number % 60:02}.{number % 1000:03}Z-weather-{number}"
    header = json.loads(recordings.HEADER)
    header |= {"started_ns": number, "pid": 100_000 + number}
    frames = recordings.CLEAN[1:-1]
    message = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"number": number}}
    padding = recordings.frame(90, "client", json.dumps(message))
    if number % 10:
        close = recordings.close(4, 2)
        return [(f"{stem}.jsonl", _content([json.dumps(header), *frames, padding, close]))]
    names = [f"{stem}.jsonl", f"{stem}.2.jsonl", f"{stem}.3.jsonl"]
    files: list[tuple[str, bytes]] = []
    for index, name in enumerate(names):
        own = json.dumps(header | ({"continues": names[index - 1]} if index else {}))
        last = recordings.close(4, 2)
        if index < 2:
            counts = {"frames": {"client": 4, "server": 2}, "findings": {"error": 0, "warning": 0, "info": 0}}
            last = json.dumps(
                {"type": "continued", "t": 5, "in": names[index + 1], **counts, "judge_error": None},
                separators=(",", ":"),
            )
        files.append((name, _content([own, *([] if index else [*frames, padding]), last])))
    return files


def _content(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _write(
    folder: Path, wanted: list[tuple[str, bytes]], waiting: list[tuple[str, bytes]], written: dict[str, str]
) -> None:
    """Write files to the folder, each whole at once, and take them from ``waiting``; stop on a full disk."""
    for name, content in wanted:
        draft = folder / f"{name}.draft"
        try:
            draft.write_bytes(content)
        except OSError as fault:
            draft.unlink(missing_ok=True)
            if fault.errno != errno.ENOSPC:
                raise
            return
        draft.rename(folder / name)
        waiting.pop(0)
        written[name] = hashlib.sha256(content).hexdigest()


def _fill(path: Path) -> None:
    """Write until the disk is full."""
    try:
        with path.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError as fault:
        if fault.errno != errno.ENOSPC:
            raise


class Shipping:
    """The shipper, as a process that is killed and started again."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self._folder = folder
        self._env = {**os.environ, **store.variables, "TMPDIR": str(folder)}
        self.start()

    def start(self, *options: str) -> None:
        command = [sys.executable, "-m", "mcpproxy", "ship", str(self._folder), URL, "--delete-after", "0s"]
        self._process = subprocess.Popen(
            [*command, "--watch", "--every", "0.1", *options],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def finish(self, timeout_s: float) -> None:
        """Let it ship the rest: started anew, because a store that was away lets it pause for long."""
        self.kill()
        deadline = time.monotonic() + timeout_s
        self.start()
        while any(self._folder.glob("*.jsonl")) and time.monotonic() < deadline:
            if self._process.poll() is not None:
                self.start()
            select.select([], [], [], 0.1)
        self._process.terminate()
        self._process.wait(timeout=60)


def client(store: ObjectStore) -> S3Store:
    """Return access to what is in the store, without any code of ours."""
    return S3Store(
        BUCKET,
        prefix="shipped",
        endpoint=store.variables["AWS_ENDPOINT_URL"],
        access_key_id=store.variables["AWS_ACCESS_KEY_ID"],
        secret_access_key=store.variables["AWS_SECRET_ACCESS_KEY"],
        region=store.variables["AWS_REGION"],
        client_options={"allow_http": True},
    )


def keys(store: ObjectStore, folder: str) -> list[str]:
    """Return the keys of all objects in a folder, sorted."""
    # Its stub names types of pyarrow, which is not needed here.
    listed = client(store).list(folder)  # pyright: ignore[reportUnknownMemberType]
    return sorted(each["path"] for batch in listed for each in batch)


def compare(store: ObjectStore, written: dict[str, str], outcome: Outcome) -> None:
    """Compare what the store has with what was written."""
    import zstandard

    access = client(store)
    stored = Counter[str]()
    for key in keys(store, "recordings"):
        name = key.rpartition("/")[2].removesuffix(".zst")
        stored[name] += 1
        packed = bytes(access.get(key).bytes())
        content = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
        if hashlib.sha256(content).hexdigest() != written.get(name):
            outcome.wrong.append(key)
    described = Counter[str]()
    for key in keys(store, "manifests"):
        one = manifest.decode(bytes(access.get(key).bytes()))
        described[one.name] += 1
        if one.sha256 != written.get(one.name) or one.frames != {"client": 4, "server": 2}:
            outcome.wrong.append(key)
    for name in written:
        if not stored[name] or not described[name]:
            outcome.missing.append(name)
        elif stored[name] > 1 or described[name] > 1:
            outcome.doubled.append(name)
    code, said = verify(store)
    outcome.verify = said if code else ""


def verify(store: ObjectStore, *options: str) -> tuple[int, str]:
    """Return the exit code and the lines of ``mcpproxy verify``."""
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "verify", URL, *options],
        env={**os.environ, **store.variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr

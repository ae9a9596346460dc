"""Stores, folders to ship and folders of tables that somebody else has written into."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import zstandard

from tests.attacks.stage import BrokenError, Stage, Table, hold
from tests.cli import recordings

TABLE: Final = Table()

_BOMB_BYTES: Final = 100 << 20
_BOMBS: Final = 3


def _recordings(stage: Stage) -> Path:
    folder = stage.folder / "f"
    folder.mkdir(exist_ok=True)
    for name in ("a.jsonl", "b.jsonl"):
        recordings.write(folder / name, recordings.CLEAN)
    return folder


def _shipped(stage: Stage) -> Path:
    """A store to which two recordings were shipped."""
    _recordings(stage)
    store = stage.folder / "store"
    done = stage.run("ship", "f", store.as_uri(), "--chain", "c")
    hold(done.code == 0, done.err[-80:])
    return store


@TABLE
def bombs(stage: Stage) -> str:
    """Small objects that become large: no more than a part of the free disk is taken, for all together."""
    store, room = stage.folder / "store", stage.folder / "room"
    store.mkdir()
    room.mkdir()
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(_BOMB_BYTES))
    for number in range(_BOMBS):
        (store / f"{number}.jsonl.zst").write_bytes(bomb)
    stage.env["XDG_CACHE_HOME"] = str(room)
    # A budget that is as small as the attack: the disk of the test is not to be filled.
    lowered = stage.folder / "lowered"
    lowered.mkdir()
    (lowered / "sitecustomize.py").write_text(
        "import shutil\nfree = shutil.disk_usage\n"
        f"shutil.disk_usage = lambda path: free(path)._replace(free={_BOMB_BYTES})\n"
    )
    stage.env["PYTHONPATH"] = str(lowered)
    done = stage.run("list", store.as_uri())
    taken = sum(path.stat().st_size for path in room.rglob("*") if path.is_file())
    hold(taken <= _BOMB_BYTES, f"{len(bomb) * _BOMBS >> 10} kB became {taken >> 20} MB in the cache")
    hold(done.code == 2 and "no room" in done.err, done.err[-80:])
    return "refused, in one line"


Plant = Callable[[Path], None]


def _write(path: Path, content: bytes, mode: int = 0o600) -> None:
    path.write_bytes(content)
    path.chmod(mode)


KEYS: Final[Mapping[str, Plant]] = {
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to another file": lambda path: path.symlink_to("../chosen"),
    "a key that all may read": lambda path: _write(path, b"k" * 32, 0o666),
    "a long file": lambda path: _write(path, b"k" * 10_000),
}


@TABLE
def mask_keys(stage: Stage) -> str:
    """A key of the masks that somebody else may have chosen is not used, and costs no memory and no time."""
    (stage.folder / "chosen").write_bytes(b"k" * 32)
    broken: list[str] = []
    for name, plant in KEYS.items():
        shutil.rmtree(stage.folder / "f", ignore_errors=True)
        folder = _recordings(stage)
        plant(folder / ".ship-key")
        try:
            done = stage.run("ship", "--redact", "f", (stage.folder / "store").as_uri(), doing=name)
            hold(done.code == 2 and len(done.err.splitlines()) == 1, f"{name}: {done.err[-80:]!r}")
        except BrokenError as error:
            broken.append(str(error))
    hold(not broken, "; ".join(broken))
    return f"{len(KEYS)} refused, each in a line"


def _of_the_user(stage: Stage) -> list[str]:
    return sorted(
        str(path) for path in stage.folder.rglob("*") if "victim" in str(path) or ".txt" in path.name
    )


@TABLE
def tables_through_links(stage: Stage) -> str:
    """Tables are written and deleted in their folder alone, through no link; only tables are deleted."""
    folder, victim = stage.folder / "out", stage.folder / "victim"
    (folder / "_written").mkdir(parents=True)
    victim.mkdir()
    (victim / "date=2026-01-01" / "server=x").mkdir(parents=True)
    for path in (victim / "part-0of1-000001.parquet", victim / "part-0of1-novel.txt"):
        path.write_text("of the user")
        shutil.copy(path, victim / "date=2026-01-01" / "server=x")
    (folder / "recordings").symlink_to(victim)
    (folder / "frames").mkdir()
    (folder / "frames" / "part-0of1-novel.txt").write_text("of the user")
    _recordings(stage)
    before = _of_the_user(stage)
    stage.run("export", "parquet", "f", "-o", "out")
    now = _of_the_user(stage)
    hold(before == now, f"{len(set(before) - set(now))} deleted, {len(set(now) - set(before))} made")
    return "nothing deleted or made there"


LISTS: Final[Mapping[str, Plant]] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "nothing": lambda path: _write(path, b""),
    "a list": lambda path: _write(path, b"[]"),
    "no members": lambda path: _write(path, b"{}"),
    "numbers": lambda path: _write(path, b'{"columns":1,"recordings":1,"files":2}'),
    "deep": lambda path: _write(path, b"[" * 100_000),
    "other paths": lambda path: _write(path, b'{"columns":1,"recordings":[],"files":["../x"]}'),
}


@TABLE
def lists_of_tables(stage: Stage) -> str:
    """A list of tables that is none: one line."""
    _recordings(stage)
    broken: list[str] = []
    for name, plant in LISTS.items():
        shutil.rmtree(stage.folder / "out", ignore_errors=True)
        (stage.folder / "out" / "_written").mkdir(parents=True)
        plant(stage.folder / "out" / "_written" / "x.json")
        try:
            done = stage.run("export", "parquet", "f", "-o", "out", doing=name)
            hold(done.code == 2 and len(done.err.splitlines()) == 1, f"{name}: {done.err[-80:]!r}")
        except BrokenError as error:
            broken.append(str(error))
    hold(not broken, f"{len(broken)} of {len(LISTS)}: {broken[:2]}")
    return f"{len(LISTS)} refused, each in a line"


MEMBERS: Final[Mapping[str, object]] = {
    "key": "recordings/../../x", "name": 1, "part": "x", "rules": [], "frames": {"a": "b"},
    "findings": 7, "bytes": None, "started_at": {}, "first_ns": 1 << 63, "continues": ["x"], "version": "x",
    "label": None,
}  # fmt: skip
ESCAPES: Final = "recordings/\x1b]0;owned\x07\n::error::forged"


def _tampered(original: bytes, name: str, value: object) -> bytes:
    """A manifest with another member and the right digest."""
    members = json.loads(original)
    del members["digest"]
    members[name] = value
    body = json.dumps(members, separators=(",", ":")).encode()
    return body[:-1] + b',"digest":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


@TABLE
def hostile_manifests(stage: Stage) -> str:
    """Members of a wrong type: verify, ship and fleet report go on with the others, and show no escapes."""
    store = _shipped(stage)
    last = store / "manifests" / "c" / "000000000002.json"
    original = last.read_bytes()
    broken: list[str] = []
    for name, value in (*MEMBERS.items(), ("key", ESCAPES)):
        last.write_bytes(_tampered(original, name, value))
        for command in (
            ("verify", store.as_uri()),
            ("fleet", "report", store.as_uri()),
            ("ship", "f", store.as_uri(), "--chain", "c"),
        ):
            try:
                done = stage.run(*command, doing=f"{command[0]}, {name}")
                said = done.out + done.err
                hold("\x1b" not in said and "\n::error" not in said, f"{command[0]}, {name}: raw escapes")
                if command[0] == "verify":
                    hold(
                        done.code == 1 and "1 file of 1 recording" in said, f"verify, {name}: {said[-80:]!r}"
                    )
            except BrokenError as error:
                broken.append(str(error))
        for added in list((store / "manifests" / "c").glob("00000000000[3-9].json")):
            added.unlink()
    hold(not broken, f"{len(broken)}: {broken[:2]}")
    return f"{len(MEMBERS) + 1} manifests"


@TABLE
def odd_names_in_a_store(stage: Stage) -> str:
    """A link, a pipe and odd names in a folder that is read as a store: the others are listed."""
    store = stage.folder / "store"
    store.mkdir()
    recordings.write(store / "a.jsonl", recordings.CLEAN)
    (store / "loop").symlink_to("loop")
    (store / "up").symlink_to("..")
    (store / "na\nme.jsonl").write_text("x")
    os.mkfifo(store / "pipe.jsonl")
    Path(os.fsdecode(bytes(store) + b"/\xff.jsonl")).write_text("x")
    done = stage.run("list", store.as_uri())
    hold(done.code == 0 and "weather" in done.out, f"{done.err[-80:]!r}")
    return "listed"


@TABLE
def another_host_name(stage: Stage) -> str:
    """The same folder shipped by a machine with another name: nothing is shipped, and nothing is wrong."""
    store = _shipped(stage)
    done = stage.run("ship", "f", store.as_uri(), "--chain", "d")
    hold(done.code == 0 and "0 files shipped" in done.err, done.err[-80:])
    found = stage.run("verify", store.as_uri())
    hold(found.code == 0, found.out[-80:])
    return "0 files shipped, all there and unchanged"

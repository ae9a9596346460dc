"""A few of the kills of ``python -m tests.ship_kills``, and damage to what was shipped."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.fixtures import Peers
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import URL, Outcome, Plan, client, keys, play, verify


@pytest.fixture(scope="module")
def store(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    server = peers.object_store(tmp_path_factory.mktemp("object-store"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, bool]]:
    """A folder, and whether it is a disk of its own that can be filled."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    is_disk = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder, is_disk
    if is_disk:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def outcome(store: ObjectStore, small_disk: tuple[Path, bool]) -> Outcome:
    folder, is_disk = small_disk
    return play(store, folder, Plan(recordings=40, kills=6, fills_disk=is_disk))


def test_every_recording_is_shipped_once_whatever_is_killed(outcome: Outcome) -> None:
    assert outcome.is_good, outcome
    assert outcome.files == 48
    assert outcome.kills.total() == 6


def test_a_flipped_byte_is_found(store: ObjectStore, outcome: Outcome) -> None:
    key = keys(store, "recordings")[3]
    whole = bytes(client(store).get(key).bytes())
    client(store).put(key, whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    code, said = verify(store)
    client(store).put(key, whole)
    assert (code, [line for line in said.splitlines() if line.startswith("changed")]) == (
        1,
        [next(line for line in said.splitlines() if key in line)],
    )
    assert verify(store)[0] == 0


def test_a_file_that_is_gone_is_found(store: ObjectStore, outcome: Outcome) -> None:
    key = keys(store, "recordings")[5]
    whole = bytes(client(store).get(key).bytes())
    client(store).delete(key)
    code, said = verify(store)
    client(store).put(key, whole)
    assert code == 1
    assert said.startswith(f"missing   {key}: is not there")
    assert verify(store)[0] == 0


def test_a_changed_order_is_found(store: ObjectStore, outcome: Outcome) -> None:
    first, second = keys(store, "manifests")[6:8]
    contents = [bytes(client(store).get(key).bytes()) for key in (first, second)]
    for key, content in zip((first, second), reversed(contents), strict=True):
        client(store).put(key, content)
    code, said = verify(store)
    for key, content in zip((first, second), contents, strict=True):
        client(store).put(key, content)
    assert code == 1
    assert {line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("reordered")} == {
        first,
        second,
    }
    assert verify(store)[0] == 0


def test_a_cut_end_of_a_chain_is_found_by_its_head(store: ObjectStore, outcome: Outcome) -> None:
    head = verify(store)[1].splitlines()[0].rpartition(" ")[2]
    last = keys(store, "manifests")[-1]
    whole = bytes(client(store).get(last).bytes())
    assert verify(store, "--head", head)[0] == 0
    client(store).delete(last)
    code, said = verify(store, "--head", head)
    client(store).put(last, whole)
    assert code == 1
    assert f"missing   {head}" in said


def test_a_reader_takes_the_url(store: ObjectStore, outcome: Outcome, tmp_path: Path) -> None:
    environment = {**os.environ, **store.variables, "XDG_CACHE_HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "check", URL, "--select", "PROTO-007"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.splitlines()[-1].startswith("no findings in 40 traces"), ran.stdout + ran.stderr
    fetched = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(fetched) == outcome.files
    assert all(path.stat().st_mode & 0o77 == 0 for path in fetched)


def test_a_wrong_key_is_one_line_without_it(store: ObjectStore, outcome: Outcome) -> None:
    environment = {**os.environ, **store.variables, "AWS_SECRET_ACCESS_KEY": "hunter2hunter2"}
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "verify", URL],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "access denied (SignatureDoesNotMatch, 403)" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "hunter2" not in ran.stderr

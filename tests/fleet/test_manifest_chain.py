"""Several writers of one chain of manifests, such as a shipper that was killed and the next one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.send.fleet.manifest import Manifest
from mcpproxy.send.fleet.manifest_chain import ManifestChain
from mcpproxy.send.fleet.store import Store, StoreUnreachableError


def describes(key: str) -> Callable[[int, str], Manifest]:
    """Return what makes the manifest of an object."""

    def described(number: int, previous: str) -> Manifest:
        return Manifest(
            chain="desk",
            number=number,
            previous=previous,
            key=f"recordings/{key}",
            name=key,
            recording=key,
            part=1,
            continues="",
            label="",
            server="weather",
            client="desk",
            revision="2025-11-25",
            transport="stdio",
            started_at="2026-11-21T10:00:00Z",
            first_ns=0,
            last_ns=1,
            ending="exit 0",
            frames={},
            findings={},
            rules={},
            bytes=1,
            sha256="",
            packed_bytes=1,
            packed_sha256="",
            redaction="none",
            recorded_by="1",
            shipped_by="1",
            shipped_at="2026-11-21T10:01:00Z",
        )

    return described


def test_a_file_that_another_writer_adds_late_is_not_added_again(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}", creates=True)
    killed, next_one = ManifestChain(store, "desk"), ManifestChain(store, "desk")
    assert next_one.find("recordings/oslo", 0) is None
    killed.add(describes("oslo"))  # its write arrives after the kill
    assert next_one.add(describes("lima")).number == 2
    assert next_one.add(describes("oslo")).number == 1
    assert ManifestChain(store, "desk").length == 2


def test_manifests_that_could_not_be_read_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails while a new shipper looks for what the killed one has described."""
    store = Store(f"file://{tmp_path}", creates=True)
    ManifestChain(store, "desk").add(describes("oslo"))
    next_one = ManifestChain(store, "desk")

    def fails(self: Store, key: str, limit: int) -> bytes:
        raise StoreUnreachableError(key, "connection refused", "try again")

    with monkeypatch.context() as outage:
        outage.setattr(Store, "read", fails)
        with pytest.raises(StoreUnreachableError):
            next_one.find("recordings/oslo", 0)
    found = next_one.find("recordings/oslo", 0)
    assert found is not None
    assert found.number == 1

"""A relay is recognised by its start time: no process of another time or another boot counts."""

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcpproxy.record.recorder import liveness
from mcpproxy.record.recorder.liveness import boot_id, is_relay_alive
from mcpproxy.record.trace.records import Header

SECOND_NS = 1_000_000_000


@pytest.fixture
def relay() -> "Iterator[tuple[subprocess.Popen[bytes], Header]]":
    """A process, and the header of the recording that it began as soon as it ran."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        yield process, Header(pid=process.pid, started_ns=time.monotonic_ns(), started_at=now, boot=boot_id())


def test_a_relay_that_runs_is_alive(relay: "tuple[subprocess.Popen[bytes], Header]") -> None:
    process, header = relay
    assert is_relay_alive(header)
    assert is_relay_alive(replace(header, boot=""))  # an older mcpproxy wrote no boot
    process.communicate()
    assert not is_relay_alive(header)


def test_a_process_is_another_if_it_was_started_later(
    relay: "tuple[subprocess.Popen[bytes], Header]",
) -> None:
    _, header = relay
    assert not is_relay_alive(replace(header, started_ns=header.started_ns - 2 * SECOND_NS))


def test_a_process_is_another_if_it_was_started_long_before() -> None:
    """From outside of a container number 1 is the first process of the machine."""
    if time.clock_gettime_ns(time.CLOCK_BOOTTIME) > 120 * SECOND_NS:
        assert not is_relay_alive(Header(pid=1, started_ns=time.monotonic_ns(), boot=boot_id()))


def test_a_relay_of_an_earlier_boot_is_not_alive(relay: "tuple[subprocess.Popen[bytes], Header]") -> None:
    _, header = relay
    assert not is_relay_alive(replace(header, boot="1a4ab30a-0ab1-4e72-b0b9-000000000000"))
    assert not is_relay_alive(replace(header, started_ns=time.monotonic_ns() + SECOND_NS))


def test_a_relay_in_a_container_is_found_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There it is number 1, here it has another."""
    ticks = time.monotonic_ns() * os.sysconf("SC_CLK_TCK") // SECOND_NS
    fields = " ".join(["S", *["0"] * 18, "{}", "0"])
    _process(tmp_path, 1, f"1 (init) {fields.format(3)}", "NSpid:\t1\n")
    _process(tmp_path, 4711, f"4711 (a) b) {fields.format(ticks)}", "Name:\ta\nNSpid:\t4711\t1\n")
    _process(tmp_path, "self", "", "")
    monkeypatch.setattr(liveness, "PROC", str(tmp_path))
    header = Header(pid=1, started_ns=time.monotonic_ns() + 20_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: header.started_ns + 1)
    assert is_relay_alive(header)
    (tmp_path / "4711" / "status").write_text("NSpid:\t4711\t2\n")
    assert not is_relay_alive(header)


def test_another_users_relay_that_is_hidden_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert is_relay_alive(Header(pid=4_194_305, started_ns=time.monotonic_ns()))


def test_where_there_is_no_proc_ps_is_asked(
    relay: "tuple[subprocess.Popen[bytes], Header]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "PROC", str(tmp_path))
    process, header = relay
    assert is_relay_alive(header)
    assert not is_relay_alive(replace(header, started_at="2001-01-01T00:00:00Z"))
    process.communicate()
    assert not is_relay_alive(header)


def _process(proc: Path, pid: int | str, stat: str, status: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(stat)
    (proc / str(pid) / "status").write_text(status)

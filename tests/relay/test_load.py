"""Slow peers take no memory, and an idle session takes no time."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.relay.hosts import RELAYS, Host, behind, kill, peer
from tests.relay.test_signals import read_line, state

LIMIT_KB = 64 << 10


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_a_slow_client_does_not_fill_the_relay(kind: str, over: str, tmp_path: Path) -> None:
    size = 96 << 20
    with Host(behind(kind, peer("flood", "1", str(size)), str(tmp_path / "t")), over) as host:
        got = len(host.read(1))
        for _ in range(200):
            got += len(host.read(1000))
        got += len(host.read(size - got))
        assert got == size
        assert host.status("VmHWM") < LIMIT_KB
        host.end_input()
        assert host.wait() == 0
        assert host.all_errors() == b"done\n"


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_a_slow_server_does_not_fill_the_relay(kind: str, over: str, tmp_path: Path) -> None:
    size = 6 << 20
    with Host(behind(kind, peer("sip", str(size)), str(tmp_path / "t")), over) as host:
        writer = host.write_aside(b"x" * size, then_end=False)
        assert host.read(5) == b"full\n"
        writer.join()
        assert host.status("VmHWM") < LIMIT_KB
        host.end_input()
        assert host.wait() == 0


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("after", ["silence", "full client", "ended client", "closed stdout"])
def test_an_idle_relay_does_not_wake_up(kind: str, after: str, tmp_path: Path) -> None:
    servers = {
        "silence": peer("echo"),
        "full client": peer("flood", "1", str(4 << 20)),
        "ended client": peer("stubborn"),
        "closed stdout": peer("close", "1"),
    }
    with ExitStack() as stack:
        host = stack.enter_context(Host(behind(kind, servers[after], str(tmp_path / "t"), "patient")))
        match after:
            case "silence":
                host.write(b"x")
                host.read(1)
            case "closed stdout":
                host.rest()
            case "ended client":
                stack.callback(kill, int(read_line(host)))  # a relay with threads leaves it behind
                host.end_input()
            case _:
                host.read(1)
        settled, is_idle = -1, False
        while settled != (settled := host.status("voluntary_ctxt_switches")) or not is_idle:
            host.process.poll()
            _window(host)
            is_idle = state(host.process.pid) == "S"  # and does not wait for a busy processor
        before = host.status("nonvoluntary_ctxt_switches") + settled
        _window(host)
        assert host.status("nonvoluntary_ctxt_switches") + host.status("voluntary_ctxt_switches") == before


def _window(host: Host) -> None:
    """Half a second in which nothing happens: what is measured here is just that."""
    import select

    select.select([], [], [], 0.5)

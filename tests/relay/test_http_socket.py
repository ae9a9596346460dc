"""The bytes that wait for room in one socket of a tunnel."""

import socket

import pytest

from mcpproxy.record.relay.http.loop import WRITE, Loop
from mcpproxy.record.relay.http.socket import TunnelSocket
from tests.relay.hosts import DEADLINE_S


def no_handler(events: int) -> None:
    raise AssertionError(events)


def no_fault(work: object, fault: Exception) -> None:
    raise AssertionError(work, fault)


@pytest.mark.parametrize("more", [b"", b"more", bytes(1 << 20)])
def test_bytes_wait_behind_those_that_wait(more: bytes) -> None:
    end, peer = socket.socketpair()
    with end, peer:
        end.setblocking(False)
        peer.settimeout(DEADLINE_S)
        sending = TunnelSocket(Loop(no_fault), end, no_handler)
        first = b"first" * (1 << 20)
        got = bytearray()
        assert not sending.put(first)
        got += peer.recv(1 << 20)  # so that there is room, for which the first must be asked
        assert not sending.put(more)
        sending.finish()
        assert not sending.finished
        while not sending.flush():
            got += peer.recv(1 << 20)
        sending.finish()
        while data := peer.recv(1 << 20):
            got += data
        assert got == first + more


def test_a_peer_that_is_gone_takes_no_rest() -> None:
    end, peer = socket.socketpair()
    with end:
        end.setblocking(False)
        sending = TunnelSocket(Loop(no_fault), end, no_handler)
        assert not sending.put(bytes(1 << 24))
        sending.watch(False)
        assert sending.events == WRITE
        peer.close()
        with pytest.raises(OSError, match="Broken pipe"):
            sending.flush()
        assert sending.rest is None
        sending.close()

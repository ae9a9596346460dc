"""The gate of one tunnel: it holds the client's requests and the server's answers until they may pass.

A tunnel is one client connection to the proxy, with its connections to the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpproxy.gate.intercept.http.http_answer_side import AnswerSide
from mcpproxy.gate.intercept.http.http_request_side import RequestSide
from mcpproxy.record.relay.http.route import Route

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.http.http_gate import HttpGate
    from mcpproxy.record.relay.http.proxy_interface import GatedTunnel


class HttpTunnelGate:
    """Both sides of a tunnel; implements ``TunnelGate``.

    If no policy acts on messages when they arrive (``Policies.has_entry``), answers pass at once.
    """

    def __init__(self, gate: HttpGate, tunnel: GatedTunnel) -> None:
        self._tunnel = tunnel
        self._requests = RequestSide(gate, tunnel)
        self._answers = AnswerSide(gate, tunnel) if gate.policies.has_entry else None

    def take_client(self, data: bytes, now: int) -> None:
        self._requests.take_bytes(data, now)

    def take_client_end(self, now: int) -> None:
        self._requests.take_end(now)

    def on_request(self, route: Route, now: int) -> None:
        expected = self._requests.on_request(route, now)
        if self._answers is not None:
            self._answers.expect(expected)

    def lets_upstream_pass(self, *, is_upgrade: bool) -> bool:
        return self._answers is None or self._answers.passes(is_upgrade=is_upgrade)

    def take_upstream(self, data: bytes, now: int) -> None:
        assert self._answers is not None
        self._answers.take_bytes(data, now)

    def drop_upstream(self) -> None:
        if self._answers is not None:
            self._answers.drop()

    def close(self) -> None:
        self._requests.close()
        if self._answers is not None:
            self._answers.close()

"""Factories of gates. A gate holds each message until it has decided whether the message passes.

The gate of a session can only be made when its relay or proxy exists.
"""

from typing import TYPE_CHECKING

from mcpproxy.gate.intercept.gate_options import GateOptions

if TYPE_CHECKING:
    from mcpproxy.record.relay.http.proxy_interface import GatedProxy, MakeProxyGate, ProxyGate
    from mcpproxy.record.relay.stdio.line_gate import GatedRelay, LineGate, MakeLineGate


def stdio_gate(options: GateOptions, trace: str) -> "MakeLineGate":
    """Return a factory of the gate for a stdio session that is recorded into ``trace``."""

    def make(relay: "GatedRelay") -> "LineGate":
        from mcpproxy.gate.intercept.stdio_gate import StdioGate

        return StdioGate(relay, options, trace)

    return make


def http_gate(options: GateOptions, endpoint: str, trace: str) -> "MakeProxyGate":
    """Return a factory of the gate for a proxy in front of an HTTP server, recorded into ``trace``.

    ``endpoint`` is the path of the server's MCP endpoint.
    """

    def make(proxy: "GatedProxy") -> "ProxyGate":
        from mcpproxy.gate.intercept.http.http_gate import HttpGate
        from mcpproxy.gate.intercept.http.http_tunnel_gate import HttpTunnelGate

        return HttpGate(proxy, options, endpoint, trace, HttpTunnelGate)

    return make

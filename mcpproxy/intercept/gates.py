"""Makes the gate of a session, when its relay or proxy is there."""

from typing import TYPE_CHECKING

from mcpproxy.intercept.gate_options import GateOptions

if TYPE_CHECKING:
    from mcpproxy.relay.stdio.gate_interface import GatedRelay, LineGate, MakeLineGate


def stdio_gate(options: GateOptions, trace: str) -> "MakeLineGate":
    """Return what makes the gate of a stdio session that is recorded into ``trace``."""

    def make(relay: "GatedRelay") -> "LineGate":
        from mcpproxy.intercept.stdio import StdioGate

        return StdioGate(relay, options, trace)

    return make

"""Addons as a policy: whether they are asked about a message, and what becomes of it if they cannot be."""

from collections.abc import Callable

from mcpproxy.intercept.addons.addon_outcomes import addon_kind
from mcpproxy.intercept.addons.closed_gate import A_FAULT, ClosedGate, Withheld, is_message
from mcpproxy.intercept.policies import Asked, Instead, Passing, Policy
from mcpproxy.session.frame import CLIENT


class AddonPolicy(Policy):
    """Asks addons about each message that enters.

    ``wants`` says whether they have a hook for a message of a kind. ``gate`` withholds what they cannot be
    asked about.
    """

    def __init__(self, wants: Callable[[str, Passing], bool], gate: ClosedGate) -> None:
        self._wants = wants
        self._gate = gate

    def enter(self, passing: Passing) -> Instead | Asked | None:
        if self._gate.addons and (passing.is_gated or passing.sender == CLIENT):
            withheld = self._gate.withheld(passing.sender, passing.raw, passing.message)
            if withheld is not None:
                is_gated = passing.is_gated or is_message(passing.raw, passing.message)
                return instead_of(withheld, self._gate) if is_gated else None
        kind = addon_kind(passing.message)
        return Asked(kind) if kind is not None and self._wants(kind, passing) else None

    def denied(self, passing: Passing) -> Instead | None:
        if not self._gate.addons or not passing.is_gated:
            return None
        return instead_of(self._gate.withhold(passing.sender, passing.raw, A_FAULT), self._gate)


def instead_of(withheld: Withheld, gate: ClosedGate) -> Instead:
    """Return what becomes of a message that does not pass a gate that fails closed."""
    status = 200 if withheld.is_known else 400
    return Instead(f"addon {gate.addons}", "error", withheld.given, withheld.answer, withheld.why, status)

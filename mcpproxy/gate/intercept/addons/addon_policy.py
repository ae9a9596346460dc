"""Addons as a policy: decide whether to ask them about a message, and what to do if that is impossible."""

from collections.abc import Callable

from mcpproxy.gate.intercept.addons.addon_outcomes import addon_hook
from mcpproxy.gate.intercept.addons.closed_gate import A_FAULT, ClosedGate, Withheld, is_message
from mcpproxy.gate.intercept.policies import Asked, Passing, Policy
from mcpproxy.judge.session.frame import CLIENT


class AddonPolicy(Policy):
    """Asks addons about each message that enters.

    ``wants(hook, passing)`` returns whether addons have to be asked about a message. If one of them fails
    closed, ``gate`` withholds messages that they cannot be asked about.
    """

    def __init__(self, wants: Callable[[str, Passing], bool], gate: ClosedGate) -> None:
        self._wants = wants
        self._gate = gate

    def enter(self, passing: Passing) -> Withheld | Asked | None:
        if self._gate.addons and (passing.is_gated or passing.sender == CLIENT):
            withheld = self._gate.withhold_unseen(passing.sender, passing.raw, passing.message)
            if withheld is not None:
                is_gated = passing.is_gated or is_message(passing.raw, passing.message)
                return withheld if is_gated else None
        hook = addon_hook(passing.message)
        return Asked(hook) if hook is not None and self._wants(hook, passing) else None

    def enter_after_failure(self, passing: Passing) -> Withheld | None:
        if not self._gate.addons or not passing.is_gated:
            return None
        return self._gate.withhold(passing.sender, passing.raw, A_FAULT)

"""Plan the sessions of the fuzzer: which changes each session sends, and in which order, for one seed."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from mcpproxy.peers.fuzz.draws import Draws
from mcpproxy.peers.fuzz.material import Material
from mcpproxy.peers.fuzz.mutations import all_mutants
from mcpproxy.peers.fuzz.mutations.mutant import Mutant, Supply
from mcpproxy.peers.fuzz.mutations.opening_mutants import ids_of
from mcpproxy.peers.fuzz.steps import FuzzStep

_CHANGES_PER_SESSION: Final = 40
"""How many changes one session sends at most. A change of the opening has a session of its own."""
_PLAIN_EVERY: Final = 3
"""An unchanged request follows the first change of a session, and every third after it.

It carries a marker, a text that no other request has, if a recorded request has a place for one. If the
marker occurs in the answer to another request, the server leaks data."""
_OTHER_SESSION_EVERY: Final = 4
"""Over HTTP, the first unchanged request, and every fourth after it, goes to a second session."""


def handshake_steps(material: Material, session: int = 0) -> list[FuzzStep]:
    """Return the steps that open the session with this number as recorded; none without a handshake."""
    steps: list[FuzzStep] = []
    for raw, method in (
        (material.initialize, "initialize"),
        (material.initialized, "notifications/initialized"),
    ):
        if raw:
            steps.append(
                FuzzStep(
                    raw, ids_of(raw), "as recorded", method, original=raw, is_handshake=True, session=session
                )
            )
    return steps


def control_steps(material: Material, supply: Supply, *, is_marked: bool) -> list[FuzzStep]:
    """Return a session without changes: every message once, as recorded, or with markers if ``is_marked``."""
    steps = handshake_steps(material)
    for template in material.templates:
        step = supply.plain_step(template)
        if not is_marked and template.is_request:
            raw = template.with_id(supply.next_id())
            step = FuzzStep(raw, ids_of(raw), "as recorded", template.label, original=raw)
        steps.append(step)
    return steps


class Plan:
    """All sessions for ``seed``. Every change is sent once before any is sent again, in a new order."""

    def __init__(self, material: Material, seed: int, transport: str) -> None:
        self._material: Final = material
        self._seed: Final = seed
        self._transport: Final = transport
        self._mutants: Final = {mutant.key: mutant for mutant in all_mutants(material, transport)}
        # Three kinds of session: changes of the opening (0), lawful changes (1), and unlawful changes (2). A
        # server may end a session after an unlawful change, which must not cut off lawful ones.
        self._group_of: Final = {
            mutant.key: 0 if mutant.position != "inside" else 1 if mutant.is_lawful() else 2
            for mutant in self._mutants.values()
        }
        self.excluded: Final[set[str]] = set()
        """The keys of changes that are no longer sent, because their effect is known."""
        self.unsent: Final[list[str]] = []
        """The keys of changes that a session could not send before it ended.

        The next session of the same kind sends them first.
        """

    @property
    def changes(self) -> int:
        """How many different changes there are."""
        return len(self._mutants)

    def sessions(self) -> Iterator[list[FuzzStep]]:
        """Yield the steps of each session, endlessly unless every change is excluded."""
        session = 0
        for round in count(1):
            keys = Draws(self._seed, "round", round).shuffled(self._mutants)
            waiting = [key for key in keys if key not in self.excluded]
            if not waiting:
                return
            while waiting or self.unsent:
                waiting = [*self.unsent, *waiting]
                self.unsent.clear()
                waiting = [key for key in waiting if key not in self.excluded]
                session += 1
                chosen = self._next_changes(waiting, session)
                if not chosen:
                    break
                taken = {mutant.key for mutant in chosen}
                waiting = [key for key in waiting if key not in taken]
                yield self._steps(chosen, Draws(self._seed, "session", session))

    def _next_changes(self, waiting: Sequence[str], number: int) -> list[Mutant]:
        """Return the changes of the next session: several inside it, or one of its opening."""
        for group in (number % 3, (number + 1) % 3, (number + 2) % 3):
            chosen = [self._mutants[key] for key in waiting if self._group_of[key] == group]
            if chosen:
                return chosen[: _CHANGES_PER_SESSION if group else 1]
        return []

    def _steps(self, mutants: Sequence[Mutant], draws: Draws) -> list[FuzzStep]:
        """Return the steps of one session that sends these changes."""
        supply = Supply(draws)
        steps: list[FuzzStep] = []
        first = mutants[0]
        if first.position == "opening":
            steps = first.make(supply)
            if first.key != "no-initialized":
                steps += handshake_steps(self._material)[1:]
        else:
            early = first.make(supply) if first.position == "before" else ()
            steps = [*early, *handshake_steps(self._material)]
        plain = [template for template in self._material.templates if template.is_request]
        if first.position != "inside":
            return [*steps, *(supply.plain_step(template) for template in plain[:3])]
        marked = [template for template in plain if template.texts] or plain
        has_other = self._transport == "http"
        if has_other:
            steps += handshake_steps(self._material, 1)
        for number, mutant in enumerate(mutants):
            steps += mutant.make(supply)
            if number % _PLAIN_EVERY == 0:
                step = supply.plain_step(draws.pick(marked, "plain", number))
                if has_other and number // _PLAIN_EVERY % _OTHER_SESSION_EVERY == 0:
                    step = FuzzStep(
                        step.raw, step.ids, step.what, step.method, original=step.raw,
                        is_read_only=step.is_read_only, session=1,
                    )  # fmt: skip
                steps.append(step)
        return steps

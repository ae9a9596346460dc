"""The form of the table: for each requirement on HTTP sessions that break it, and the nearest lawful ones."""

from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Severity
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.rules import Requirement
from tests.live.conversation import Conversation

CATALOGUE: Final = catalogue.load()

SECTION: Final = tuple(
    sorted(
        requirement.id
        for requirement in CATALOGUE.requirements.values()
        if "R-062" <= requirement.id <= "R-098" or requirement.rule == "PROTO-010"
    )
)
"""The requirements that the table covers: on HTTP, on event streams over it, and on its sessions."""


def requirement_of(id: str) -> Requirement:
    """The requirement of the section with this id."""
    return next(r for r in CATALOGUE.requirements.values() if r.id == id)


@dataclass(frozen=True, slots=True)
class Row:
    """One way to break a requirement.

    Rule, blame, severity and revisions are those of the requirement, unless the evidence is weaker
    (``severity``) or the row concerns some revisions ``only``; it is played in each of them.

    ``given`` are requirements that both sessions break, because the one in question is about what to do
    then. ``alone``: next to other sessions nobody could say whose fault it is. ``idle_s`` is how much
    longer than its sessions the recording lasts.
    """

    requirement: str
    about: str
    breaks: Conversation
    lawful: Conversation
    severity: Severity | None = None
    given: tuple[str, ...] = ()
    only: tuple[str, ...] = REVISIONS
    alone: bool = False
    idle_s: int = 0

    @property
    def revisions(self) -> tuple[str, ...]:
        return tuple(r for r in requirement_of(self.requirement).keywords if r in self.only)

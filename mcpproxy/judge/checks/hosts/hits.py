"""What a fact about a host meets in a message, and how a finding says it."""

from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.hosts.facts import HostFact, JudgedHost
from mcpproxy.protocol.wording import shown_name

_NAMED: Final = 3
"""How many tools a finding names."""


@slotted(frozen=True)
class Hit:
    """A tool that a fact meets. ``pointer`` begins at the list of tools; ``detail`` may be empty."""

    pointer: str
    name: str
    detail: str = ""


def listed(hits: Sequence[Hit], whole: str) -> str:
    """Return the tools of ``hits`` as a clause; ``whole`` says of how many: ``your 40 tools``."""
    names = ", ".join(_name(hit) for hit in hits[:_NAMED])
    rest = len(hits) - _NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"tool {names}" if len(hits) == 1 else f"{len(hits):,} of {whole}: {names}{more}"


def sentence(judged: JudgedHost, fact: HostFact, met: str) -> str:
    """Return the text of a finding."""
    return f"Legal MCP. {judged.label} {clause(fact, met)}"


def clause(fact: HostFact, met: str) -> str:
    """Return what a host does with what it meets, and what shows it, as a clause after its name."""
    return f"{fact.says}: {met} ({fact.evidence})"


def words(texts: Iterable[str]) -> str:
    """Return up to ``_NAMED`` texts as a list."""
    every = list(dict.fromkeys(texts))
    return ", ".join(every[:_NAMED]) + (", …" if len(every) > _NAMED else "")


def _name(hit: Hit) -> str:
    return f"{shown_name(hit.name)} ({hit.detail})" if hit.detail else shown_name(hit.name)

"""The tools that meet a fact about a host, and the words for them in a finding.

A tool *meets* a fact if the host would do with it what the fact says.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.hosts.facts import HostFact, JudgedHost
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.wording import shown_name

Settings: TypeAlias = Mapping[str, Any]
"""The settings of a fact: limits, names and patterns, as its kind requires."""

Tools: TypeAlias = Sequence[tuple[int, str, JSONObject]]
"""The tools of a page: the index, the name and the definition of each."""

_MOST_NAMED: Final = 3
"""How many tools, or texts of another kind, a finding names."""


@slotted(frozen=True)
class Hit:
    """A tool that meets a fact. ``pointer`` begins at the list of tools. ``detail`` says why, such as ``70
    characters``; it may be empty.
    """

    pointer: str
    name: str
    detail: str = ""


def name_tools(hits: Sequence[Hit], tools: str) -> str:
    """Return a phrase that names the tools of ``hits``; ``tools`` describes all tools: ``your 40 tools``."""
    names = ", ".join(_name_and_detail(hit) for hit in hits[:_MOST_NAMED])
    rest = len(hits) - _MOST_NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"tool {names}" if len(hits) == 1 else f"{len(hits):,} of {tools}: {names}{more}"


def sentence(judged: JudgedHost, fact: HostFact, met: str) -> str:
    """Return the text of a finding. ``met`` describes the part of the message that meets the fact."""
    return f"Legal MCP. {judged.label} {clause(fact, met)}"


def clause(fact: HostFact, met: str) -> str:
    """Return what the host does, with what, and how this is known, as a clause after the host's name."""
    return f"{fact.says}: {met} ({fact.evidence})"


def words(texts: Iterable[str]) -> str:
    """Return the first ``_MOST_NAMED`` different texts, with commas between them."""
    distinct = list(dict.fromkeys(texts))
    return ", ".join(distinct[:_MOST_NAMED]) + (", …" if len(distinct) > _MOST_NAMED else "")


def _name_and_detail(hit: Hit) -> str:
    return f"{shown_name(hit.name)} ({hit.detail})" if hit.detail else shown_name(hit.name)

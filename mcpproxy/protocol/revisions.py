"""The published protocol revisions, in order, and the era that each belongs to.

Known revisions are compared by their position in ``REVISIONS`` and not as text. The *candidates* of a message
or session are the revisions that it may have, as far as is known.

ACP, the Agent Client Protocol, has its own versions in their own order. ``since`` and ``until`` return
versions of one protocol only.

Source: https://modelcontextprotocol.io/specification/versioning
"""

from collections.abc import Collection
from typing import Final, Literal

from mcpproxy.base.patterns import pattern

Era = Literal["stateful", "stateless"]
"""``stateful``: a session opens with a handshake. ``stateless``: each request names its revision."""

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""The published revisions of MCP, oldest first."""

_FIRST_STATELESS: Final = REVISIONS.index("2026-07-28")

STATEFUL: Final = REVISIONS[:_FIRST_STATELESS]
"""Revisions that open a session with the initialize handshake."""

STATELESS: Final = REVISIONS[_FIRST_STATELESS:]
"""Revisions in which the ``_meta`` of every request contains the protocol version."""

_DATE: Final = pattern(r"\d{4}-\d{2}-\d{2}")

Protocol = Literal["mcp", "acp"]

ACP: Final = ("acp-1", "acp-2")
"""The versions of the Agent Client Protocol: 1 is stable, 2 is a draft. In messages they are integers.

Source: https://agentclientprotocol.com/protocol/v1/initialization#protocol-version
"""

VERSIONS: Final = (*REVISIONS, *ACP)
"""All versions that a requirement may apply to, in the order of each protocol."""


def is_stateless(candidates: Collection[str]) -> bool:
    """Whether all ``candidates`` are known stateless revisions; false if there are none."""
    return bool(candidates) and all(name in STATELESS for name in candidates)


def stateless_of(candidates: Collection[str]) -> tuple[str, ...]:
    """Return the stateless ``candidates``, oldest first; all stateless revisions if there are none."""
    return tuple(name for name in STATELESS if name in candidates) or STATELESS


def is_shape_known(candidates: Collection[str]) -> bool:
    """Whether the shape of a message can be checked: its revision is known, or only stateless ones remain.

    The stateless revisions are so similar that a message can be checked against all of them. The stateful
    revisions differ too much from each other.
    """
    return len(candidates) == 1 or is_stateless(candidates)


def is_later(name: str) -> bool:
    """Whether ``name`` is a date after the newest known revision: a revision whose rules are unknown."""
    return _DATE.fullmatch(name) is not None and name > REVISIONS[-1]


def protocol_versions(name: str) -> tuple[str, ...]:
    """Return all versions of the protocol to which version ``name`` belongs, oldest first.

    Raises:
        ValueError: no protocol has this version.
    """
    for versions in (REVISIONS, ACP):
        if name in versions:
            return versions
    raise ValueError(f"{name!r} is not a published revision")


def since(first: str) -> tuple[str, ...]:
    """Return the published versions from ``first`` on, ``first`` included, oldest first.

    Raises:
        ValueError: ``first`` is not a published version.
    """
    versions = protocol_versions(first)
    return versions[versions.index(first) :]


def until(end: str) -> tuple[str, ...]:
    """Return the published versions before ``end``, oldest first.

    Raises:
        ValueError: ``end`` is not a published version.
    """
    versions = protocol_versions(end)
    return versions[: versions.index(end)]


def span(first: str, end: str, revisions: tuple[str, ...] = REVISIONS) -> tuple[str, ...]:
    """Return the versions from ``first`` up to, not including, ``end``; ``-`` means no limit.

    ``revisions`` are all versions of the protocol that is meant.

    Raises:
        ValueError: ``first`` or ``end`` is neither ``-`` nor a published version.
    """
    before_end = revisions if end == "-" else until(end)
    return before_end if first == "-" else tuple(name for name in since(first) if name in before_end)

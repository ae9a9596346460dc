"""The published protocol revisions, in order, and the era each belongs to.

A revision is a name, not a number: it is looked up and compared by its position here, never as
text, and an unknown name is never "newer" than a known one.

Source: https://modelcontextprotocol.io/specification/versioning
"""

from typing import Final, Literal

Era = Literal["stateful", "stateless"]

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

STATEFUL: Final = REVISIONS[:4]
"""Revisions that open a session with the initialize handshake."""

STATELESS: Final = REVISIONS[4:]
"""Revisions in which every request carries its own protocol version in ``_meta``."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
"""The ``_meta`` member that marks a request as stateless and names its revision."""

CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"


def known(name: object) -> bool:
    """Whether ``name`` is one of the published revisions."""
    return isinstance(name, str) and name in REVISIONS


def since(first: str) -> tuple[str, ...]:
    """The published revisions from ``first`` on, ``first`` included.

    Raises:
        ValueError: ``first`` is not a published revision.
    """
    return REVISIONS[REVISIONS.index(first) :]


def until(end: str) -> tuple[str, ...]:
    """The published revisions before ``end``.

    Raises:
        ValueError: ``end`` is not a published revision.
    """
    return REVISIONS[: REVISIONS.index(end)]

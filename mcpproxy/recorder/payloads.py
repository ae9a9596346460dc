"""The payloads of the journal that are JSON, as what they stand for.

They are the relay's own words. The json module reads them, for a command may hold the lone surrogates
that stand for bytes which are no UTF-8; orjson refuses those.
"""

import json
from typing import TYPE_CHECKING, Any, cast

from mcpproxy.session.frame import Close, Gap
from mcpproxy.trace.format import ARGUMENTS, Header

if TYPE_CHECKING:
    from mcpproxy.recorder.terms import Terms


def header_of(payload: bytes) -> Header:
    """The header that a START record asks for."""
    start = cast("dict[str, Any]", json.loads(payload))
    asked = tuple(start["command"])
    command = _masked(asked, bytes.fromhex(start.get("salt", "")))
    redaction = "credentials"
    if start["transport"] == "stdio" or start.get("keep_credentials"):
        redaction = "none" if command == asked else ARGUMENTS
    return Header(
        mcpproxy=start["mcpproxy"],
        transport=start["transport"],
        command=command,
        label=start["label"],
        cwd=start["cwd"],
        pid=start["pid"],
        started_at=start["started_at"],
        started_ns=start["started_ns"],
        redaction=redaction,
        mode=start.get("mode") or "",
        listen=start.get("listen") or "",
        endpoint=start.get("endpoint") or "",
        upstream=start.get("upstream") or "",
        boot=start.get("boot") or "",
    )


def _masked(command: tuple[str, ...], key: bytes) -> tuple[str, ...]:
    """A command as it may be written down."""
    if len(command) < 2:
        return command
    from mcpproxy.recorder.arguments import masked

    return masked(command, key)


def gap_of(payload: bytes, at_ns: int) -> Gap:
    """The gap that a GAP record tells of."""
    gap = cast("dict[str, Any]", json.loads(payload))
    return Gap(gap["reason"], gap["client"], gap["server"], gap["stderr"], at_ns)


def close_of(payload: bytes, at_ns: int) -> Close:
    """The ending that an EXIT record tells of."""
    end = cast("dict[str, Any]", json.loads(payload))
    return Close(end["ending"], end["code"], end["signal"], at_ns)


def terms_of(start: bytes) -> "Terms | None":
    """By which rules the START record asks to judge, if it says anything."""
    return terms_from(cast("dict[str, Any]", json.loads(start)))


def terms_from(members: dict[str, Any]) -> "Terms | None":
    """The terms among the members of a START record or of a checkpoint: ``"judged_by": {...}``.

    Raises:
        KeyError, TypeError: they are something else.
    """
    asked = members.get("judged_by")
    if not asked:
        return None
    from mcpproxy.recorder.terms import Terms  # few sessions need it

    return Terms.from_json(asked)

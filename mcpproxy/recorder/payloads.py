"""The payloads of the journal that are JSON, as what they stand for.

They are the relay's own words, but the journal that they stand in may have come from elsewhere: each member
is looked at. The json module reads them, for a command may hold the lone surrogates that stand for bytes
which are no UTF-8; orjson refuses those.
"""

import json
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.session.frame import Close, Ending, Gap
from mcpproxy.trace.members import NotARecordError, list_member, member, optional, word
from mcpproxy.trace.records import ARGUMENTS_MASKED, Header

if TYPE_CHECKING:
    from mcpproxy.ruleset.rule_options import RuleOptions

_LARGEST: Final = 1 << 63


def object_of(payload: bytes) -> JSONObject:
    """The object that a payload is.

    Raises:
        NotARecordError: it is none.
    """
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise NotARecordError("a record that is no JSON") from None
    if not isinstance(value, dict):
        raise NotARecordError("a record that is no object")
    return cast("JSONObject", value)


def header_of(payload: bytes) -> Header:
    """The header that a START record asks for.

    Raises:
        NotARecordError: it is none.
    """
    start = object_of(payload)
    transport = word(start, "transport", ("stdio", "http"))
    asked = tuple(list_member(start, "command", str))
    command = _masked(asked, salt_of(start))
    redaction = "credentials"
    if transport == "stdio" or start.get("keep_credentials"):
        redaction = "none" if command == asked else ARGUMENTS_MASKED
    return Header(
        mcpproxy=member(start, "mcpproxy", str),
        transport=transport,
        command=command,
        label=member(start, "label", str),
        cwd=member(start, "cwd", str),
        pid=count(start, "pid"),
        started_at=member(start, "started_at", str),
        started_ns=count(start, "started_ns"),
        redaction=redaction,
        mode=optional(start, "mode", str) or "",
        listen=optional(start, "listen", str) or "",
        endpoint=optional(start, "endpoint", str) or "",
        upstream=optional(start, "upstream", str) or "",
        boot=optional(start, "boot", str) or "",
    )


def salt_of(start: JSONObject) -> bytes:
    """The key of a recording's masks, which the START record gives; empty if it gives none.

    Raises:
        NotARecordError: it gives something else.
    """
    try:
        return bytes.fromhex(optional(start, "salt", str) or "")
    except ValueError:
        raise NotARecordError("a salt that is no hexadecimal number") from None


def _masked(command: tuple[str, ...], key: bytes) -> tuple[str, ...]:
    """A command as it may be written down."""
    if len(command) < 2:
        return command
    from mcpproxy.recorder.secret_arguments import masked

    return masked(command, key)


def gap_of(payload: bytes, at_ns: int) -> Gap:
    """The gap that a GAP record tells of.

    Raises:
        NotARecordError: it is none.
    """
    gap = object_of(payload)
    client, server, stderr = (count(gap, stream) for stream in ("client", "server", "stderr"))
    return Gap(member(gap, "reason", str), client, server, stderr, at_ns)


def close_of(payload: bytes, at_ns: int) -> Close:
    """The ending that an EXIT record tells of.

    Raises:
        NotARecordError: it is none.
    """
    end = object_of(payload)
    ending = cast("Ending", word(end, "ending", get_args(Ending)))
    return Close(ending, optional(end, "code", int), optional(end, "signal", int), at_ns)


def count(members: JSONObject, name: str) -> int:
    """The member ``name``: a number of bytes, of nanoseconds or of a process.

    Raises:
        NotARecordError: it is no such number.
    """
    value = member(members, name, int)
    if not 0 <= value < _LARGEST:
        raise NotARecordError(f"a record with a bad {name}")
    return value


def terms_of(start: bytes) -> "RuleOptions | None":
    """By which rules the START record asks to judge, if it says anything.

    Raises:
        NotARecordError: it says something else.
    """
    try:
        return terms_from(cast("dict[str, Any]", object_of(start)))
    except (LookupError, TypeError, AttributeError):
        raise NotARecordError("a record with a bad judged_by") from None


def terms_from(members: dict[str, Any]) -> "RuleOptions | None":
    """The terms among the members of a START record or of a checkpoint: ``"judged_by": {...}``.

    Raises:
        KeyError, TypeError: they are something else.
    """
    asked = members.get("judged_by")
    if not asked:
        return None
    from mcpproxy.ruleset.rule_options import RuleOptions  # few sessions need it

    return RuleOptions.from_json(asked)

"""Read the JSON payloads of the journal's records, such as START (the first) and EXIT (the last).

The relay writes the journal, its copy of the traffic (see ``record.relay.journal``), and the recorder makes
the trace from it. But a journal may come from an unknown source, so each member is checked. The module json
reads the payloads, because a command may contain lone surrogates (for bytes that are not UTF-8), which orjson
rejects.
"""

import json
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from mcpproxy.judge.session.frame import Close, Ending, FaultMark, Gap, Note
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.record.trace.members import NotARecordError, list_member, member, one_of, optional_member
from mcpproxy.record.trace.records import ARGUMENTS_MASKED, Header

if TYPE_CHECKING:
    from mcpproxy.judge.ruleset.rule_options import RuleOptions

_COUNT_LIMIT: Final = 1 << 63
"""What ``count`` returns is below this."""

_OPTIONAL_TEXTS: Final = ("mode", "listen", "endpoint", "upstream", "boot", "faults", "model", "kept")
"""Members of START that may be absent; in the header they are then empty."""


def object_of(payload: bytes) -> JSONObject:
    """Return the JSON object in a payload.

    Raises:
        NotARecordError: the payload is not a JSON object.
    """
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise NotARecordError("a record that is not JSON") from None
    if not isinstance(value, dict):
        raise NotARecordError("a record that is not an object")
    return cast("JSONObject", value)


def header_of(payload: bytes) -> Header:
    """Return the header of the trace, from a START record.

    Raises:
        NotARecordError: a member is missing or wrong.
    """
    start = object_of(payload)
    transport = one_of(start, "transport", ("stdio", "http"))
    unmasked = tuple(list_member(start, "command", str))
    command = _mask_command(unmasked, salt_of(start))
    redaction = "credentials"
    if transport == "stdio" or start.get("keep_credentials"):
        redaction = "none" if command == unmasked else ARGUMENTS_MASKED
    texts: dict[str, Any] = {name: optional_member(start, name, str) or "" for name in _OPTIONAL_TEXTS}
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
        ppid=count(start, "ppid") if "ppid" in start else 0,
        **texts,
    )


def salt_of(start: JSONObject) -> bytes:
    """Return the key for the masks of a recording, from its START record; empty if the record has none.

    Raises:
        NotARecordError: the member is not a hexadecimal number.
    """
    try:
        return bytes.fromhex(optional_member(start, "salt", str) or "")
    except ValueError:
        raise NotARecordError("a salt that is not a hexadecimal number") from None


def _mask_command(command: tuple[str, ...], key: bytes) -> tuple[str, ...]:
    """Return a command with its secrets masked."""
    if len(command) < 2:
        return command
    from mcpproxy.record.recorder.secret_arguments import masked

    return masked(command, key)


def gap_of(payload: bytes, at_ns: int) -> Gap:
    """Return the gap of a GAP record.

    Raises:
        NotARecordError: a member is missing or wrong.
    """
    gap = object_of(payload)
    client, server, stderr = (count(gap, stream) for stream in ("client", "server", "stderr"))
    return Gap(member(gap, "reason", str), client, server, stderr, at_ns)


def faulted_of(payload: bytes) -> tuple[FaultMark, bytes, JSONObject]:
    """Split a record about a message that met a fault, a change of the traffic that the user asked for.

    Return the fault's mark, the bytes of the message or those given in its place, and the JSON members of the
    record.

    Raises:
        NotARecordError: the record has no valid mark.
    """
    head, _, content = payload.partition(b"\n")
    fault = object_of(head)
    rule, action = member(fault, "rule", str), member(fault, "action", str)
    return FaultMark(rule, action, count(fault, "number")), content, fault


def note_of(payload: bytes, at_ns: int) -> Note:
    """Return the note of a NOTE record as one about the whole session (connection 0).

    Raises:
        NotARecordError: a member is missing or wrong.
    """
    note = object_of(payload)
    return Note(0, member(note, "what", str), member(note, "why", str), at_ns)


def close_of(payload: bytes, at_ns: int) -> Close:
    """Return the event for the end of the session, from an EXIT record.

    Raises:
        NotARecordError: a member is missing or wrong.
    """
    end = object_of(payload)
    ending = cast("Ending", one_of(end, "ending", get_args(Ending)))
    code, signal = optional_member(end, "code", int), optional_member(end, "signal", int)
    return Close(ending, code, signal, at_ns, member(end, "reason", str, ""))


def count(members: JSONObject, name: str) -> int:
    """Return the member ``name``, a whole number from 0, such as a number of bytes or a process id.

    Raises:
        NotARecordError: the member is missing, is not a whole number, or is out of range.
    """
    value = member(members, name, int)
    if not 0 <= value < _COUNT_LIMIT:
        raise NotARecordError(f"a record with a bad {name}")
    return value


def rule_options_of(members: dict[str, Any]) -> "RuleOptions | None":
    """Return the rules to judge by, from the member ``judged_by`` of a START record or a checkpoint.

    ``None`` means the built-in rules.

    Raises:
        NotARecordError: the member does not name rules.
    """
    options = members.get("judged_by")
    if not options:
        return None
    from mcpproxy.judge.ruleset.rule_options import RuleOptions  # imported late: few sessions need it

    try:
        return RuleOptions.from_json(options)
    except (LookupError, TypeError, AttributeError):
        raise NotARecordError("a record with a bad judged_by") from None

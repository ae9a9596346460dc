"""Fingerprints: hashes that identify the same flaw in different recordings.

When a server is recorded again, the same flaw has another frame number, other ids and other times. A
fingerprint depends on none of these, nor on the name of the trace. It covers the rule and the requirement,
the peer at fault, the method and its subject (the tool, say), the place in the message, and the finding's
sentence without ids and times.
"""

import re
from collections.abc import Sequence
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import Finding
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.wording import pointer_steps

NAME: Final = "mcpproxyFinding/v1"
"""The name of these fingerprints. If the computation changes, the version in the name changes too."""

_NAMES: Final = ("name", "uri", "uriTemplate")
"""The members that identify the entries of a list."""

_VARYING: Final = pattern(
    r"""
      (?<!\w)'.*'(?!\w)                                           # bytes that were not a message
    | \b(?:number|string|task|event|session|elicitation|tool\suse)\s"(?:[^"\\]|\\.)*"  # an id
    | (?<=\bsession\ )[0-9a-f]{8}\b                               # the label of an HTTP session
    | \b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?              # a time
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b    # a UUID
    | \b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}\b                      # a hash
    | (?<![\w/+=-])(?=[\w+=-]*\d)(?=[\w+=-]*[A-Z])(?=[\w+=-]*[a-z])[\w+=-]{20,}(?![\w/])  # a token
    """,
    re.VERBOSE,
)
_NUMBER: Final = pattern(r"(?<![\w.-])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|\.\d)")
_CODE: Final = pattern(r"-32\d{3}|[1-5]\d\d(?<=status \d\d\d)|[1-5]\d\d(?<=with \d\d\d)")
"""Numbers that are kept because they tell what went wrong: JSON-RPC error codes, HTTP status codes."""


@slotted(frozen=True)
class Subject:
    """What a message is about: its method, and the ``name`` of its tool, prompt or resource.

    ``value`` is the message as JSON. A field is empty if it is unknown.
    """

    method: str = ""
    name: str = ""
    value: JSON = None


NOTHING: Final = Subject()


def fingerprint(finding: Finding, subject: Subject = NOTHING) -> str:
    """Return 32 hexadecimal digits, which are equal for the same flaw in all recordings of a server."""
    parts = (
        finding.rule,
        finding.requirement,
        finding.blame,
        subject.method,
        subject.name,
        stable_pointer(finding.pointer or "", subject.value),
        stable_text(finding.message),
    )
    joined = "\0".join(parts).encode("utf-8", "backslashreplace")
    from hashlib import sha256  # it loads OpenSSL, which only some reports need

    return sha256(joined).hexdigest()[:32]


def stable_text(message: str) -> str:
    """Return ``message`` without the parts that differ between recordings: numbers, ids, times, tokens.

    A ``#`` replaces a number, and a ``*`` any other part. The dates of protocol revisions are kept, and so
    are error and status codes.
    """
    return _NUMBER.sub(_number_or_mark, _VARYING.sub("*", message))


def stable_pointer(pointer: str, value: JSON) -> str:
    """Return ``pointer`` with names of list entries instead of indices: ``/result/tools/[add]/name``.

    An entry without a name is ``[*]``. In a batch, the position of the message is left out.
    """
    tokens = pointer_steps(pointer)
    if isinstance(value, list) and tokens and tokens[0].isdigit():
        value, tokens = _entry_at(value, tokens[0]), tokens[1:]  # the position in a batch varies too
    return "".join(f"/{token}" for token in _with_entry_names(tokens, value))


def _with_entry_names(tokens: Sequence[str], value: JSON) -> list[str]:
    """Return the tokens of a pointer into ``value``, with each list index replaced by the entry's name."""
    parts: list[str] = []
    for token in tokens:
        if isinstance(value, dict):
            parts.append(token)
            value = value.get(token)
            continue
        value = _entry_at(value, token)
        parts.append(f"[{_entry_name(value)}]" if token.isdigit() else token)
    return parts


def _entry_at(value: JSON, token: str) -> JSON:
    if not isinstance(value, list) or not token.isdecimal() or len(token) > 9:
        return None
    return value[int(token)] if int(token) < len(value) else None


def _entry_name(entry: JSON) -> str:
    if isinstance(entry, dict):
        for member in _NAMES:
            if isinstance(name := entry.get(member), str):
                return name
    return "*"


def _number_or_mark(match: re.Match[str]) -> str:
    return match[0] if _CODE.fullmatch(match.string, match.start(), match.end()) else "#"

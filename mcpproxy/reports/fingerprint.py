"""What tells one flaw from another across recordings: a hash of all about a finding that does not vary.

The same server, recorded again, shows the same flaw in another frame, under other ids and after other times.
None of that goes into a fingerprint, nor does the trace. What does: the rule and the requirement, who is to
blame, the method and what it was about, where in the message, and the sentence without what varies.
"""

import re
from collections.abc import Sequence
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.session.frame import Finding

NAME: Final = "mcpproxyFinding/v1"
"""What these fingerprints are called; another way of computing them is another version."""

_NAMES: Final = ("name", "uri", "uriTemplate")
"""The members that tell entries of a list apart."""

_VARYING: Final = pattern(
    r"""
      (?<!\w)'.*'(?!\w)                                           # bytes that were no message
    | \b(?:number|string|task|event|session|elicitation|tool\suse)\s"(?:[^"\\]|\\.)*"  # an id
    | (?<=\bsession\ )[0-9a-f]{8}\b                               # the name of a session over HTTP
    | \b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?              # a time
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b    # a UUID
    | \b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}\b                      # a hash
    | (?<![\w/+=-])(?=[\w+=-]*\d)(?=[\w+=-]*[A-Z])(?=[\w+=-]*[a-z])[\w+=-]{20,}(?![\w/])  # a token
    """,
    re.VERBOSE,
)
_NUMBER: Final = pattern(r"(?<![\w.-])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|\.\d)")
_STANDING: Final = pattern(r"-32\d{3}|[1-5]\d\d(?<=status \d\d\d)|[1-5]\d\d(?<=with \d\d\d)")
"""Numbers that say what went wrong: error codes of JSON-RPC, status codes of HTTP."""


@slotted(frozen=True)
class Subject:
    """What a frame is about: the method, the tool, prompt or resource that was asked for, and its JSON value.

    All are empty where nothing is known of them.
    """

    method: str = ""
    name: str = ""
    value: JSON = None


NOTHING: Final = Subject()


def fingerprint(finding: Finding, subject: Subject = NOTHING) -> str:
    """32 hexadecimal digits, the same for the same flaw in every recording of the same server."""
    parts = (
        finding.rule,
        finding.requirement,
        finding.blame,
        subject.method,
        subject.name,
        shape(finding.pointer or "", subject.value),
        lasting(finding.message),
    )
    said = "\0".join(parts).encode("utf-8", "backslashreplace")
    from hashlib import sha256  # It loads OpenSSL, which only findings with places need.

    return sha256(said).hexdigest()[:32]


def lasting(message: str) -> str:
    """``message`` without what differs between recordings: numbers, ids, times, tokens.

    Dates of protocol revisions stay, and so do error and status codes.
    """
    return _NUMBER.sub(_number, _VARYING.sub("*", message))


def shape(pointer: str, value: JSON) -> str:
    """``pointer`` with the name of an entry in the place of its position: ``/result/tools/[add]/name``."""
    tokens = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    if isinstance(value, list) and tokens and tokens[0].isdigit():
        value, tokens = _entry(value, tokens[0]), tokens[1:]  # where in a batch a message stands varies too
    return "".join(f"/{token}" for token in _named(tokens, value))


def _named(tokens: Sequence[str], value: JSON) -> list[str]:
    named: list[str] = []
    for token in tokens:
        if isinstance(value, dict):
            named.append(token)
            value = value.get(token)
            continue
        value = _entry(value, token)
        named.append(f"[{_name(value)}]" if token.isdigit() else token)
    return named


def _entry(value: JSON, token: str) -> JSON:
    if isinstance(value, list) and token.isdecimal() and int(token[:9]) < len(value):
        return value[int(token[:9])]
    return None


def _name(entry: JSON) -> str:
    if isinstance(entry, dict):
        for member in _NAMES:
            if isinstance(name := entry.get(member), str):
                return name
    return "*"


def _number(found: re.Match[str]) -> str:
    return found[0] if _STANDING.fullmatch(found.string, found.start(), found.end()) else "#"

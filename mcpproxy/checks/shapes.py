"""The members of params and results, where no rule of their own speaks of them.

Source: the schema of each protocol revision.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, shortened
from mcpproxy.checks.table import ASKS, Decider, Family
from mcpproxy.protocol.jsonrpc import JSON, Absent, Notification, Request, Response
from mcpproxy.protocol.shapes import Part, Violation, violations
from mcpproxy.session.history import History

OWN_RULES: Final = re.compile(
    r"""
      .*/_meta/io\.modelcontextprotocol~1(protocolVersion|clientCapabilities)
    | /result/(resultType|ttlMs|cacheScope)
    | initialize/(params|result)/(protocolVersion|instructions|capabilities.*)
    | initialize/(params|result)/(client|server)Info(/(name|version))?
    | tools/list/result/tools/\d+(/name|/(input|output)Schema.*)?
    | sampling/createMessage/params/tools/\d+/name
    """,
    re.VERBOSE,
)
"""What another rule judges: a JSON Pointer, alone or after the method it belongs to."""


def message_shape(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-023"""
    message = passing.message
    if len(passing.candidates) != 1:
        return ()
    if isinstance(message, Request | Notification):
        return _misshapen(passing, message.method, "params", message.params)
    if isinstance(message, Response) and passing.answers is not None:
        return _misshapen(passing, passing.answers.method, "result", message.result)
    return ()


def _misshapen(passing: Passing, method: str, part: Part, value: "JSON | Absent") -> Iterable[Breach]:
    found = violations(value, (method, part), passing.candidates[0])
    return _told(found, passing, method, part) if found else ()


def _told(found: Iterable[Violation], passing: Passing, method: str, part: Part) -> Iterator[Breach]:
    for violation in found:
        pointer = violation.pointer
        if pointer == f"/{part}" and violation.kind != "missing":
            continue  # Not even an object: RPC-010 and RPC-016 say so.
        if OWN_RULES.fullmatch(pointer) or OWN_RULES.fullmatch(method + pointer):
            continue
        what = f"a {method} result" if part == "result" else shortened(method)
        said = f"{passing.sender} sent {what} in which {pointer.lstrip('/')} {violation.clause}"
        yield Breach("RPC-023", "R-027", said, passing.at + pointer)


FAMILY: Final = Family(
    checks=(Decider(("RPC-023",), message_shape, (*ASKS, "response")),),
)

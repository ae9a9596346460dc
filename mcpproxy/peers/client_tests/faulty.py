"""Servers with one fault each: an ordinary server, and a rule of ``--fault`` that changes its messages.

``gate/intercept/README.md`` says what a rule can do with a message.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.peers.client_tests.scenario import Category, Reaction, Scenario, Transport

STAYS_S: Final = 1.0
"""How long a server on stdio waits for another message after the fault, before it exits."""

_BOTH: Final[tuple[Transport, ...]] = ("stdio", "http")
_STDIO: Final[tuple[Transport, ...]] = ("stdio",)
_HTTP: Final[tuple[Transport, ...]] = ("http",)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A row: what the rule does to the answer to ``method``, or with ``to_request`` to the request itself.

    ``do`` is the action of the rule. ``name``, ``category``, ``what`` and ``transports`` are those of the
    scenario. ``is_over`` says whether the client can know that no other answer comes. If not, it may wait
    until the server exits, which happens on stdio.
    """

    name: str
    category: Category
    what: str
    do: str
    method: str = "tools/call"
    transports: tuple[Transport, ...] = _BOTH
    to_request: bool = False
    is_over: bool = False

    @property
    def rule(self) -> str:
        """The rule, as ``--fault`` takes it."""
        match = "from:client kind:request" if self.to_request else "from:server kind:answer"
        return f"{match} method:{self.method} => {self.do}"


def _refused(name: str, what: str, do: str, *, is_over: bool = True) -> _Fault:
    """Return a fault in the HTTP response to a call; the rule acts when the call comes."""
    return _Fault(name, "transport", what, do, transports=_HTTP, to_request=True, is_over=is_over)


_LAWFUL: Final = (
    _Fault("slow-answer", "robustness", "a call is answered after 700 ms", "delay 700ms"),
    _Fault("split-answer", "transport", "an answer comes in five pieces", "split 5, gap 20ms",
           transports=_STDIO),
    _Fault("padded-answer", "transport", "an answer has 1 MiB of spaces in it", "oversize 1m"),
)  # fmt: skip

_WRONG: Final = (
    _Fault("refused", "lifecycle", "initialize is answered with an error", "error -32603", "initialize"),
    _Fault("no-server-capabilities", "lifecycle", "the result of initialize has no capabilities",
           'remove "/result/capabilities"', "initialize", _STDIO),
    _Fault("revision-of-wrong-type", "lifecycle", "the revision that the server offers is a number",
           'set {"/result/protocolVersion": 2025}', "initialize"),
    _Fault("tools-of-wrong-type", "tools", "the list of tools is a text",
           'set {"/result/tools": "echo"}', "tools/list"),
    _Fault("no-name", "tools", "a tool has no name", 'remove "/result/tools/0/name"', "tools/list"),
    _Fault("no-schema", "tools", "a tool has no schema",
           'remove "/result/tools/0/inputSchema"', "tools/list"),
    _Fault("wrong-schema", "tools", "the schema of a tool is none",
           'set {"/result/tools/0/inputSchema": {"type": "nothing", "properties": [3]}}', "tools/list"),
    _Fault("error-answer", "jsonrpc", "a call is answered with an error, though it was done",
           "error -32603", is_over=True),
    _Fault("no-version", "jsonrpc", "an answer does not say that it is JSON-RPC", 'remove "/jsonrpc"'),
    _Fault("no-result", "jsonrpc", "an answer has neither a result nor an error", 'remove "/result"'),
    _Fault("null-result", "jsonrpc", "the result of a call is null", 'set {"/result": null}'),
    _Fault("result-and-error", "jsonrpc", "an answer has a result and an error",
           'merge {"": {"error": {"code": -32603, "message": "Internal error"}}}'),
    _Fault("error-of-wrong-type", "jsonrpc", "the error of an answer is a text",
           r'replace {"\"result\":.*": "\"error\":\"failed\"}"}'),
    _Fault("answer-in-array", "jsonrpc", "an answer comes in an array", r'replace {"^(.+)$": "[\\1]"}'),
    _Fault("wrong-id", "jsonrpc", "a call is answered under an id that no request has",
           'set {"/id": 999999}'),
    _Fault("cut-line", "transport", "an answer is cut off after 30 bytes", "truncate 30"),
    _Fault("corrupt-answer", "transport", "some bytes of an answer are others", "corrupt 20"),
    _Fault("closed-stdout", "transport", "the server closes its stdout in a call", "disconnect half-close",
           transports=_STDIO),
    _Fault("garbage-in-body", "transport", "there is noise before the answer", "garbage 40",
           transports=_HTTP),
    _Fault("cut-stream", "transport", "the connection breaks in the middle of an answer", "cut",
           transports=_HTTP),
    _Fault("reset", "transport", "the connection is reset before the answer", "disconnect reset",
           transports=_HTTP, is_over=True),
    _refused("unauthorized", "a call is answered with 401 and a challenge", "status 401", is_over=False),
    _refused("too-many-requests", "a call is answered with 429, to be tried again after a second",
             'status 429, headers {"Retry-After": "1"}, nth 1'),
    _refused("unavailable", "a call is answered with 503", "status 503, nth 1"),
    _refused("wrong-media-type", "an answer is said to be text/html",
             'set-header {"Content-Type": "text/html"}, of response'),
)  # fmt: skip


def _scenarios(faults: tuple[_Fault, ...], reaction: Reaction) -> Iterator[Scenario]:
    for fault in faults:
        yield Scenario(
            fault.name,
            fault.category,
            fault.what,
            fault.method,
            reaction="may give up" if fault.is_over else reaction,
            transports=fault.transports,
            fault=fault.rule,
            stays_s=STAYS_S if reaction == "may wait" and not fault.is_over else 0,
        )


LAWFUL_FAULTS: Final = tuple(_scenarios(_LAWFUL, "goes on"))
"""Servers that keep the protocol, whose answers are late, in pieces, or long."""

WRONG_FAULTS: Final = tuple(_scenarios(_WRONG, "may wait"))
"""Servers with a fault that breaks the protocol or the connection, or that refuses a request."""

"""Deprecated features. They still work, so each is reported once per session and never as an error.

``checks.basic.embedded`` defines ``Ask``: a request of the server, as a message or inside a result.

Source: https://modelcontextprotocol.io/specification/2026-07-28/deprecated
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.basic.embedded import ASK_CARRIERS, INPUT_REQUESTS, Ask, asks, may_ask
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import LEGACY, Check, HttpCheck, RuleFamily, StateUpdate
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import STATELESS, span

FEATURES: Final[Mapping[str, tuple[str, str, str]]] = {
    "roots/list": ("DEPR-001", "D-001", "the client's roots"),
    "sampling/createMessage": ("DEPR-002", "D-002", "the client to sample its model"),
}
"""By method that a server requests: the rule, the requirement and the name of the deprecated feature."""

DEPRECATED_CONTEXTS: Final = ("thisServer", "allServers")
"""The deprecated values of includeContext."""

AFTER_SSE: Final = span("2025-03-26", "2026-07-28")
"""The stateful revisions with Streamable HTTP, which replaced the transport HTTP+SSE."""

MAX_RULES: Final = 10_000
"""The number of reported rules, over all callers, that are remembered."""


@slotted()
class ReportedDeprecations:
    """The rules already reported, by session, or by caller for stateless requests over HTTP."""

    rules: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def contains(self, rule: str, history: History) -> bool:
        """Whether ``rule`` was reported before, or the limit is reached and nothing more is reported."""
        return (history.caller, rule) in self.rules or len(self.rules) >= MAX_RULES


def requested_feature(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a deprecated feature that a server requests (DEPR-001, DEPR-002, DEPR-005)."""
    return _unreported_features(context, history) if may_ask(context) else ()


def _unreported_features(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report each deprecated feature in the requests of a message that was not reported before."""
    earlier, in_this_message = history.across_requests(ReportedDeprecations), set[str]()
    for ask in asks(context):
        for rule, requirement, problem, pointer in _features(ask):
            if not earlier.contains(rule, history) and rule not in in_this_message:
                in_this_message.add(rule)
                yield Violation(rule, requirement, problem, pointer=pointer)


def _features(ask: Ask) -> Iterator[tuple[str, str, str, str]]:
    """Yield the deprecated features in a request: rule, requirement, problem and JSON Pointer."""
    if ask.method in FEATURES:
        rule, requirement, feature = FEATURES[ask.method]
        yield rule, requirement, f"server asked for {feature} ({ask.method}), which is deprecated", ask.at
    included = member(ask.params, "includeContext")
    if ask.method == "sampling/createMessage" and included in DEPRECATED_CONTEXTS:
        problem = f"server asked for sampling with includeContext {included}, which is deprecated"
        yield "DEPR-005", "D-005", problem, ask.at + "/params/includeContext"


def logging(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report log messages to the client (DEPR-003)."""
    reported = history.across_requests(ReportedDeprecations)
    if history.negotiated is not None or reported.contains("DEPR-003", history):
        return ()  # In a revision with a handshake, log messages are not deprecated.
    problem = "server sent log messages (notifications/message), which are deprecated"
    return (Violation("DEPR-003", "D-003", problem, pointer=context.at + "/method"),)


def http_with_sse(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Iterator[Violation]:
    """Report a session over HTTP+SSE in a revision that has Streamable HTTP (DEPR-004).

    The finding is about ``notifications/initialized``: each session has one, and by then the revision is
    known.
    """
    revision = exchange.session.revision if exchange.session else None
    is_initialized = any(
        isinstance(message, Notification) and message.method == "notifications/initialized"
        for message in exchange.messages
    )
    if is_initialized and revision in AFTER_SSE:
        problem = f"client and server speak {revision} over HTTP+SSE, which Streamable HTTP has replaced"
        yield Violation("DEPR-004", "D-004", problem, candidates=(str(revision),))


def remember_reported(context: MessageContext, history: History) -> None:
    """Record the rules that the message broke, because each is reported once."""
    if may_ask(context):
        rules = {rule for ask in asks(context) for rule, *_ in _features(ask)}
    else:
        rules = {"DEPR-003"} if isinstance(context.message, Notification) else set[str]()
    reported = history.across_requests(ReportedDeprecations).rules
    if len(reported) < MAX_RULES:
        reported.update((history.caller, rule) for rule in rules)


_REQUEST_RULES: Final = ("DEPR-001", "DEPR-002", "DEPR-005")

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            _REQUEST_RULES,
            requested_feature,
            (Response,),
            ASK_CARRIERS,
            within=STATELESS,
            members=INPUT_REQUESTS,
        ),
        Check(_REQUEST_RULES, requested_feature, (Request,), tuple(FEATURES)),
        Check(("DEPR-003",), logging, (Notification,), ("notifications/message",), within=STATELESS),
    ),
    http=(HttpCheck(("DEPR-004",), http_with_sse, ("request",), LEGACY, ("POST",)),),
    updates=(
        StateUpdate(remember_reported, (Response,), ASK_CARRIERS, within=STATELESS, members=INPUT_REQUESTS),
        StateUpdate(remember_reported, (Request,), tuple(FEATURES)),
        StateUpdate(remember_reported, (Notification,), ("notifications/message",)),
    ),
)

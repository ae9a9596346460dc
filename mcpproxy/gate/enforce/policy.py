"""Decide which requests break an enforced rule, and make the answers to them.

Only a request can be refused, because only a request gets an answer. A rule can be enforced if one of its
checks applies only to requests: the result of such a check is known before the request is forwarded. Findings
of the rule's other checks are only reported, as without enforcement.

A batch is refused as a whole, so that the receiver does not get a part of it. Each request in the batch gets
an answer."""

import json
from dataclasses import replace

from mcpproxy.gate.intercept.policies import Passing, Policy, Refused
from mcpproxy.judge.checks import STANDARD
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import Check, takes
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.session.frame import Event, Finding, Frame
from mcpproxy.protocol.error_message import INVALID_PARAMS, INVALID_REQUEST, error_message
from mcpproxy.protocol.jsonrpc import JSONObject, Message, Request
from mcpproxy.protocol.message_parts import member, singles
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.raw_json import written
from mcpproxy.protocol.rules import Catalogue


def _judges_only_requests(check: Check) -> bool:
    return takes(check, Request) and len(check.kinds) == 1


def enforceable_rules(dispatch: Dispatch = STANDARD) -> frozenset[str]:
    """Return the codes of all rules that can be enforced."""
    checks = (
        check for family in dispatch.families for check in family.checks if _judges_only_requests(check)
    )
    return frozenset(code for check in checks for code in check.rules)


def enforcing_dispatch(rules: frozenset[str], dispatch: Dispatch = STANDARD) -> Dispatch:
    """Return the part of ``dispatch`` that enforcement needs.

    A dispatch is a table of checks and of functions that update the state of the session. The returned part
    has all of these functions, but of the checks of messages only those that judge nothing but requests and
    report one of ``rules``.
    """
    return Dispatch(
        replace(
            family,
            checks=tuple(
                check
                for check in family.checks
                if _judges_only_requests(check) and not rules.isdisjoint(check.rules)
            ),
            http=(),
            events=(),
        )
        for family in dispatch.families
    )


class Enforcer(Policy):
    """Refuses requests that break one of ``rules`` before their receiver gets them.

    ``dispatch`` has the checks. The enforcer has to see everything that leaves in a session, in order. It
    raises only because of a bug in mcpproxy, never because of what a peer sends.
    """

    def __init__(self, catalogue: Catalogue, rules: frozenset[str], dispatch: Dispatch = STANDARD) -> None:
        self._rules = rules
        # ``lists_all``: every finding is returned, not only the first with the same cause; each may be
        # decisive.
        self._observer = Observer(catalogue, enforcing_dispatch(rules, dispatch), lists_all=True)

    def leave(self, passing: Passing) -> Refused | None:
        return self.refusal(passing.frame)

    def observe(self, event: Event, *, leaves: bool = True) -> None:
        """Let an event that cannot be refused become part of the session; ignore one that does not leave."""
        if leaves:
            self._observer.observe(event)

    def refusal(self, frame: Frame) -> Refused | None:
        """Return the refusal of a frame that must not be forwarded; ``None`` if it may be forwarded.

        On stdio only a forwarded frame becomes part of the session. Over HTTP a refused request becomes part
        of it, too, and is answered there by our own answer, an event marked ``by_proxy``.
        """
        is_request = bool(_requests(frame.message))
        # A frame marked as refused is judged, but does not change the state of the session.
        frame.refused = is_request and not frame.exchange
        findings = self._observer.observe(frame)
        if not is_request:
            return None
        if decisive := [finding for finding in findings if self._is_decisive(finding, frame)]:
            return _refused(frame.message, decisive)
        if frame.refused:
            frame.refused = False
            self._observer.observe(frame)
        return None

    def _is_decisive(self, finding: Finding, frame: Frame) -> bool:
        """Whether the sender broke an enforced rule with this frame; severity info does not count."""
        is_of_frame = finding.rule in self._rules and finding.frame == frame.seq
        return is_of_frame and finding.blame == frame.sender and finding.severity != "info"


def _requests(message: Message) -> list[Request]:
    items = singles(message)
    return [item for item in items if isinstance(item, Request)]


def _error_answer(message: Message, findings: list[Finding]) -> bytes:
    """Return the error that answers a request, or an array with an error for each request of a batch."""
    if isinstance(message, Request):
        return _error(message, findings[0])
    answers: list[bytes] = []
    for index, item in enumerate(singles(message)):
        if isinstance(item, Request):
            prefix = f"/{index}/"
            item_findings = [
                finding
                for finding in findings
                if finding.pointer is not None and f"{finding.pointer}/".startswith(prefix)
            ]
            answers.append(_error(item, (item_findings or findings)[0]))
    return b"[" + b",".join(answers) + b"]"


def _error(request: Request, finding: Finding) -> bytes:
    """Return the JSON-RPC error that answers the request that ``finding`` is about.

    Its code is "invalid params" if the finding points into the params, or has ``data``, which only checks
    of the params set; otherwise it is "invalid request".
    """
    data: JSONObject = finding.data or {
        "rule": finding.rule,
        "requirement": finding.requirement,
        "source": finding.source,
        "pointer": finding.pointer,
    }
    is_in_params = finding.pointer is not None and "/params" in finding.pointer
    code = INVALID_PARAMS if is_in_params or finding.data is not None else INVALID_REQUEST
    # ``data`` may hold long integers and lone surrogates, which orjson refuses.
    text = json.dumps(data, separators=(",", ":")).encode()
    return error_message(code, finding.message, written(request.id), text)


def _refused(message: Message, findings: list[Finding]) -> Refused:
    """Return the refusal; its HTTP status is 400 in a revision without sessions, which each request names."""
    rules = dict.fromkeys(finding.rule for finding in findings)
    is_stateless = any(member(item.params, "_meta", VERSION_KEY) is not None for item in _requests(message))
    return Refused(
        ", ".join(rules), findings[0].message, _error_answer(message, findings), 400 if is_stateless else 200
    )

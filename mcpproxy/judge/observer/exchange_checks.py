"""Run the checks of exchanges, at each of their moments, and make findings of the violations."""

from typing import Final

from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.http_facts import HttpFact
from mcpproxy.judge.checks.engine.rows import Moment
from mcpproxy.judge.observer.classify import asked_in
from mcpproxy.judge.observer.classify_http import revisions_for
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.observer.hidden_values import is_hidden
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Finding, Frame, Sender

_LONGEST_METHOD: Final = 20
"""In characters: a longer name of an HTTP method is looked up as if it were empty."""


class ExchangeChecks:
    """The checks of the exchanges of one recording. ``asked`` is the revision that the latest initialize
    requested, empty before the first."""

    def __init__(self, build_findings: FindingBuilder, dispatch: Dispatch) -> None:
        self._build_findings = build_findings
        self._dispatch = dispatch
        self.asked = ""

    def run(
        self,
        moment: Moment,
        exchange: HttpExchange,
        history: HttpHistory,
        sender: Sender,
        facts: HttpFact,
        frame: Frame | None = None,
    ) -> list[Finding]:
        """Run the checks of this moment that can find something, given ``facts``."""
        findings: list[Finding] = []
        build_findings = self._build_findings
        if exchange.initialize is not None:
            self.asked = asked_in(exchange.initialize.params)
        # The lookup is cached by method, and invalid methods of any length must not fill the cache.
        method = exchange.method if len(exchange.method) <= _LONGEST_METHOD else ""
        checks = self._dispatch.http_checks_for(moment, exchange.traffic, method, facts)
        if not checks:
            return findings
        judged_frame = exchange.body if frame is None else frame
        # An exchange without a known session, such as a login, counts as one of the latest session.
        asked = (exchange.session.judge.asked if exchange.session else "") or self.asked
        for check in checks:
            for violation in check(exchange, history, frame):
                pointer = violation.pointer
                if exchange.masked and pointer and judged_frame and is_hidden(judged_frame, pointer):
                    continue
                seq = exchange.request.seq if frame is None else frame.seq
                if moment in ("success", "refusal") and exchange.response is not None:
                    seq = exchange.response.seq
                count_before = build_findings.total
                findings += build_findings((violation,), seq, sender, revisions_for(exchange), asked)
                if build_findings.total > count_before:
                    exchange.broken_rules |= {violation.rule}
        return findings

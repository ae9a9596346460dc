"""Count the findings of repeated noise without judging it again: a server may write the same line for ever.

Noise is a line that is not a message, or an element of a batch that is not an object.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from mcpproxy.judge.checks.basic.frames import message_kind, not_a_message
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import Check, takes
from mcpproxy.judge.checks.transports.stdio import stray_output
from mcpproxy.judge.observer.findings import Cause, FindingBuilder
from mcpproxy.judge.session.frame import Finding, Frame
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Malformed

NOISE_BYTES: Final = 64
"""A longer line is judged each time."""
_MOST_LINES: Final = 1024
"""The number of lines that are remembered."""

NOT_AN_OBJECT: Final = None
"""The key for every element of a batch that is not an object; all these elements have equal findings."""


class RepeatedNoise:
    """Remembers short lines that are not messages, with the causes of their findings."""

    def __init__(self, build_findings: FindingBuilder) -> None:
        self._build_findings = build_findings
        self._causes: dict[tuple[object, ...], tuple[Cause, ...]] = {}

    def judge(
        self,
        raw: bytes | None,
        frame: Frame,
        history: History,
        dispatch: Dispatch,
        judge: Callable[[], list[Finding]],
    ) -> list[Finding]:
        """Return the findings of ``judge`` for noise in ``frame``.

        ``raw`` is the line, or ``NOT_AN_OBJECT``. If the noise is repeated, and its findings would only be
        counted and not given in full, they are counted without judging it again, and none are returned.
        """
        if frame.refused or not _checks_are_built_in(dispatch):
            return judge()
        key = (raw, frame.sender, frame.terminated, history.candidates, history.facts, frame.exchange > 0)
        causes = self._causes.get(key)
        if causes is not None and self._build_findings.count_repeated(causes, frame.seq, frame.sender):
            history.side(frame.sender).notified_seq = 0  # the sender's latest line is not a notification
            return []
        counts_before = self._build_findings.causes()
        findings = judge()
        if causes is None:
            if len(self._causes) >= _MOST_LINES:
                self._causes.clear()
            counts_after = self._build_findings.causes()
            self._causes[key] = tuple(
                cause for cause, count in counts_after.items() if count > counts_before.get(cause, 0)
            )
        return findings


@lru_cache(maxsize=64)
def _checks_are_built_in(dispatch: Dispatch) -> bool:
    """Whether only built-in checks judge noise. Their findings depend only on the key of the line."""
    rows = (*dispatch.message_checks, *dispatch.updates)
    checks = [row.check if isinstance(row, Check) else None for row in rows if takes(row, Malformed)]
    return all(check in (not_a_message, message_kind, stray_output) for check in checks)

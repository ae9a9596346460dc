"""Collects the checks (results) of a run, and reports them to the user while the run continues.

The revision and the name of the server are known only after the handshake, so checks before the handshake are
reported after it. As long as no check says anything about the server, no check is reported, because there may
be no server.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from mcpproxy.peers.validate.outcome import CheckResult
from mcpproxy.protocol.jsonrpc import JSONObject


@dataclass(slots=True)
class ProgressCallbacks:
    """The functions that are called while a validation runs.

    ``begins`` is called when a probe starts: with its name, its place among all probes, counted from 1, and
    their number. ``opens`` is called with the revision and the ``serverInfo`` before the first check of each
    revision. ``ends`` is called with each check.
    """

    begins: Callable[[str, int, int], None] = field(default=lambda _, __, ___: None)
    opens: Callable[[str, JSONObject], None] = field(default=lambda _, __: None)
    ends: Callable[[CheckResult], None] = field(default=lambda _: None)


class CheckList:
    """The checks of a run, in order. ``server`` is the ``serverInfo`` once it is known."""

    def __init__(self, progress: ProgressCallbacks) -> None:
        self.checks: Final[list[CheckResult]] = []
        self.server: JSONObject = {}
        self._progress: Final = progress
        self._is_handshake_tried = False
        """Whether the handshake was tried in the current revision."""
        self._revision_start = 0
        """The index of the first check of the current revision."""
        self._reported_count = 0
        """How many checks were reported."""

    @property
    def has_results(self) -> bool:
        """Whether any check says something about the server.

        The check ``connect`` does not: something other than an MCP server may listen at a URL.
        """
        return any(check.status != "skipped" and check.name != "connect" for check in self.checks)

    def begin_revision(self) -> None:
        """Begin the checks of another revision."""
        self._is_handshake_tried = False
        self._revision_start = len(self.checks)

    def clear(self) -> None:
        """Drop the checks so far, none of which says anything about the server."""
        self.checks.clear()
        self.begin_revision()

    def current_revision_checks(self) -> list[CheckResult]:
        """Return the checks of the current revision."""
        return self.checks[self._revision_start :]

    def add(self, check: CheckResult) -> None:
        """Add a check; report it if the handshake was tried and a check says something about the server."""
        self.checks.append(check)
        if self._is_handshake_tried:
            self._report_if_known()

    def set_revision(self, revision: str) -> None:
        """Set the revision of the current checks after the handshake was tried; report them as in ``add``."""
        if self._is_handshake_tried:
            return
        self._is_handshake_tried = True
        self.checks[self._revision_start :] = [
            replace(check, revision=revision) for check in self.current_revision_checks()
        ]
        self._report_if_known()

    def report_all(self) -> None:
        """Report all checks that were not reported yet."""
        revision = self._last_reported_revision()
        for check in self.checks[self._reported_count :]:
            if check.revision != revision:
                self._progress.opens(check.revision, self.server)
            revision = check.revision or self._last_reported_revision()
            self._progress.ends(check)
        self._reported_count = len(self.checks)

    def _last_reported_revision(self) -> str:
        return self.checks[self._reported_count - 1].revision if self._reported_count else ""

    def _report_if_known(self) -> None:
        if self.has_results:
            self.report_all()

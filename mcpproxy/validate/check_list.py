"""Passes on the checks of a run as they come.

The revision and the name of the server are known only after the handshake. The checks before it are held back
until then, and all of them while nothing of the server was seen: perhaps there is no server to report on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.validate.outcome import CheckResult


@dataclass(slots=True)
class ProgressCallbacks:
    """What is called while a validation runs.

    ``begins`` is called with the name of each probe as it starts; ``opens`` with each revision and the
    ``serverInfo`` before the first check of the revision; ``ends`` with each check.
    """

    begins: Callable[[str], None] = field(default=lambda _: None)
    opens: Callable[[str, JSONObject], None] = field(default=lambda _, __: None)
    ends: Callable[[CheckResult], None] = field(default=lambda _: None)


class CheckList:
    """The checks of a run, in order. ``server`` is the ``serverInfo`` once it is known."""

    def __init__(self, progress: ProgressCallbacks) -> None:
        self.checks: Final[list[CheckResult]] = []
        self.server: JSONObject = {}
        self._progress: Final = progress
        self._is_settled = False
        self._first = 0
        """The index of the first check of the current revision."""
        self._passed_on = 0
        """How many checks were passed on."""

    @property
    def has_results(self) -> bool:
        """Whether any check says something about the server."""
        return any(check.status != "skipped" and check.name != "connect" for check in self.checks)

    def begin_revision(self) -> None:
        """The next checks are those of another revision."""
        self._is_settled = False
        self._first = len(self.checks)

    def of_revision(self) -> list[CheckResult]:
        """The checks of the current revision."""
        return self.checks[self._first :]

    def add(self, check: CheckResult) -> None:
        """Add a check."""
        self.checks.append(check)
        if self._is_settled:
            self._pass_on()

    def settle(self, revision: str) -> None:
        """The handshake was tried, and ``revision`` is the one that is tested."""
        if self._is_settled:
            return
        self._is_settled = True
        self.checks[self._first :] = [replace(check, revision=revision) for check in self.of_revision()]
        self._pass_on()

    def pass_on_all(self) -> None:
        """Pass on what was held back."""
        known = ""
        for check in self.checks[self._passed_on :]:
            if check.revision != (known or self._revision_before()):
                self._progress.opens(check.revision, self.server)
            known = check.revision
            self._progress.ends(check)
        self._passed_on = len(self.checks)

    def _revision_before(self) -> str:
        return self.checks[self._passed_on - 1].revision if self._passed_on else ""

    def _pass_on(self) -> None:
        if self.has_results:
            self.pass_on_all()

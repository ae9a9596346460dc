"""What a validation has found out, before anybody decides how to print it.

A run is a list of named checks. A check that failed rests on a sentence of the specification, which
``source`` names, or on the server's end: it died, hung or said what nobody can read.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, get_args

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.session.frame import Finding, Severity

Status = Literal["passed", "failed", "warning", "skipped"]
Category = Literal[
    "connection",
    "lifecycle",
    "jsonrpc",
    "tools",
    "resources",
    "prompts",
    "completion",
    "logging",
    "schema",
    "sequence",
    "transport",
    "errors",
    "security",
    "robustness",
]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

STATUS_OF: Final[dict[Severity, Status]] = {"error": "failed", "warning": "warning", "info": "passed"}
"""What a finding of this severity makes of a check."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What one check came to: a clause for people, and the frames that show it.

    ``rule`` is the code of the rule that was broken and ``source`` the URL of the sentence, empty where none
    is.
    """

    status: Status
    message: str
    frames: tuple[int, ...] = ()
    rule: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a run.

    ``rules`` are the codes of the rules it rests on, ``trace`` is the recording with its frames. ``revision``
    is the protocol revision in which it was done. ``duration_ms`` is a wall-clock time. What a baseline
    accepts ``is_known``: it is told, and does not count.
    """

    name: str
    category: Category
    conclusion: Conclusion
    duration_ms: float
    rules: tuple[str, ...] = ()
    revision: str = ""
    trace: str = ""
    is_known: bool = False

    @property
    def status(self) -> Status:
        """How it went."""
        return self.conclusion.status


@dataclass(frozen=True, slots=True)
class JudgedRecording:
    """One recording of the run: its file and what the observer said of the server in it."""

    path: str
    findings: tuple[Finding, ...]
    frames: int


@dataclass(frozen=True)
class Validation:
    """A whole run against ``target`` (a command line or a URL).

    ``server`` is what the server said of itself (``serverInfo``), ``revisions`` those it was tested in.
    ``notes`` say what was not done, and why.
    """

    target: str
    transport: str
    server: JSONObject
    revisions: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    traces: tuple[JudgedRecording, ...]
    notes: tuple[str, ...] = ()
    strict: bool = False
    duration_ms: float = field(default=0, compare=False)

    @cached_property
    def counts(self) -> Counter[Status]:
        """Checks by how they went, without those that are known."""
        return Counter(check.status for check in self.checks if not check.is_known)

    @property
    def known(self) -> int:
        """How many failed or were warned of, and are accepted."""
        return sum(check.is_known for check in self.checks)

    def does_count(self, check: CheckResult) -> bool:
        """Whether this check makes the server invalid."""
        counts = ("failed", "warning") if self.strict else ("failed",)
        return check.status in counts and not check.is_known

    @property
    def is_valid(self) -> bool:
        """Whether nothing failed; with ``strict``, whether nothing was warned of either."""
        return not any(map(self.does_count, self.checks))

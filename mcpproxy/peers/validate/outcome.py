"""The result of a validation, independent of any report format.

A run is a list of named checks. A failed check rests on a sentence of the specification, which ``source``
names, or on a failure of the server: it exited, hung or sent something unreadable. A warning rests on a
sentence, too, or on a failure that no sentence forbids: after a mistake of the client, or because a tool
takes long. An info is about other behaviour that no sentence forbids but that troubles users.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, get_args

from mcpproxy.judge.session.frame import Blame, Finding, Severity
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

Status = Literal["passed", "failed", "warning", "info", "skipped"]
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
Verdict = Literal["valid", "invalid", "undecided"]

CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)

ANSWER_RULES: Final = ("RPC-008", "SEQ-001")
"""The rules that require an answer to every request. Their findings are not reported where our client has
provoked the server, or has ended sessions with open requests: there the server may be right to end."""

STATUS_OF: Final[dict[Severity, Status]] = {"error": "failed", "warning": "warning", "info": "info"}
"""The status of a check with a finding of this severity."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The result of one check: a clause for the user, and the frames that are evidence.

    ``rule`` is the code of the violated rule, ``requirement`` the id of its requirement, and ``source`` the
    URL of the sentence in the specification; each is empty if there is none.
    """

    status: Status
    message: str
    frames: tuple[int, ...] = ()
    rule: str = ""
    source: str = ""
    requirement: str = ""


def conclusion_of(finding: Finding, more: str = "") -> Conclusion:
    """Return a finding of the judge as a conclusion; ``more`` is added to its message."""
    return Conclusion(
        STATUS_OF[finding.severity],
        finding.message + more,
        tuple(number for number in (finding.frame, *finding.related) if number),
        finding.rule,
        finding.source,
        finding.requirement,
    )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a run.

    ``rules`` are the codes of the rules on which the check is based. ``trace`` is the path of the recording
    that contains its frames, and ``revision`` is the protocol revision of the session. ``is_known`` is true
    if the user's baseline, a file of accepted results, has the result. Such a result is reported but does not
    count.
    """

    name: str
    category: Category
    conclusion: Conclusion
    duration_ms: float
    rules: tuple[str, ...] = ()
    revision: str = ""
    trace: str = ""
    is_known: bool = False
    blame: Blame = "server"
    """Which peer is tested: whose fault it is if the check failed."""

    @property
    def status(self) -> Status:
        """The status of its conclusion."""
        return self.conclusion.status


@dataclass(frozen=True, slots=True)
class JudgedRecording:
    """One recording of the run: its file, the findings about the tested peer, and the numbers of frames.

    ``frames`` is the number of frames in both directions, and ``server_frames`` the number of the server's
    frames, without the pages of HTTP error statuses.
    """

    path: str
    findings: tuple[Finding, ...]
    frames: int
    server_frames: int = 0


@dataclass(frozen=True)
class Validation:
    """A whole run against ``target`` (a command line or a URL).

    ``server`` is the ``serverInfo`` of the server, and ``revisions`` are the revisions that were tested. Each
    of ``notes`` says what was not done, and why. ``faults`` are failures of mcpproxy itself, each a sentence.
    ``untested`` says why most checks could not be tried, such as missing credentials; it is empty otherwise.
    With ``strict``, warnings count as failures.
    """

    target: str
    transport: str
    server: JSONObject
    revisions: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    traces: tuple[JudgedRecording, ...]
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    untested: str = ""
    is_interrupted: bool = False
    strict: bool = False
    client: JSONObject = field(default_factory=dict[str, JSON])
    """The ``clientInfo`` of the client, where a client is tested."""
    duration_ms: float = field(default=0, compare=False)

    @cached_property
    def counts(self) -> Counter[Status]:
        """The number of checks by status, without known ones."""
        return Counter(check.status for check in self.checks if not check.is_known)

    @property
    def known(self) -> int:
        """How many failures and warnings a baseline accepts."""
        return sum(check.is_known for check in self.checks)

    def does_count(self, check: CheckResult) -> bool:
        """Whether this check makes the tested peer invalid."""
        counts = ("failed", "warning") if self.strict else ("failed",)
        return check.status in counts and not check.is_known

    @property
    def verdict(self) -> Verdict:
        """``valid`` if nothing failed and, with ``strict``, nothing gave a warning.

        A failed check makes the server ``invalid``, even if the run is not complete. If nothing failed but
        the run was interrupted, mcpproxy itself failed, or most checks could not be tried, the verdict is
        ``undecided``.
        """
        if any(map(self.does_count, self.checks)):
            return "invalid"
        return "undecided" if self.faults or self.untested or self.is_interrupted else "valid"

    @property
    def is_valid(self) -> bool:
        """Whether the verdict is ``valid``."""
        return self.verdict == "valid"

    @property
    def exit_code(self) -> int:
        """0 for a valid server or client, and 1 for an invalid one.

        It is 130 instead if the run was interrupted, else 2 if mcpproxy failed or most checks could not be
        tried, even if a check failed.
        """
        if self.is_interrupted:
            return 130
        if self.faults or self.untested:
            return 2
        return 0 if self.is_valid else 1

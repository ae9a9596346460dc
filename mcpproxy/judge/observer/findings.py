"""Make findings from violations: the catalogue of rules gives their severity and source.

A violation is what a check reports; a finding is what the user sees. A peer, or a single frame, can break one
requirement a million times. So that the trace and the reports stay small, only the first findings of each
cause, and of each fact about a host, are given in full; the others are counted. The texts in a finding have a
maximum length for the same reason.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.session.frame import CLIENT, Blame, Finding, Repeated, Sender, Severity, other
from mcpproxy.protocol.rules import RANK, Catalogue

IN_FULL: Final = 100
"""The number of findings of one cause that are given in full; the others are counted."""

PER_FRAME: Final = 100
"""The number of findings in one frame that are given in full, whatever their causes.

Findings about the session as a whole have no frame, and no such limit.
"""

MOST_HOST_FACTS: Final = 1000
"""The number of facts about hosts in findings that are remembered. There are some hundred such facts."""

MESSAGE_CHARACTERS: Final = 1000
POINTER_CHARACTERS: Final = 1000
MOST_RELATED: Final = 100
"""The limits of a finding: the lengths of its message and its pointer, and the number of related frames."""

Cause: TypeAlias = tuple[str, Severity, Blame, str]
"""Rule, severity, blame and requirement: findings that are equal in these four have the same cause."""


@slotted(frozen=True)
class Envelope:
    """The ACP message around an MCP message that is being judged.

    ``at`` is the JSON Pointer to the object with the members of the MCP message, and ``id_at`` the pointer to
    its id; ``None`` if it has no id of its own. Messages of its findings begin with ``label``. ``client`` is
    the ACP peer that is the MCP client. ``left_out`` are rules by which the MCP message is not judged.
    """

    at: str
    id_at: str | None
    label: str
    client: Sender
    left_out: frozenset[str] = frozenset()

    def in_acp_message(self, violation: Violation, sender: Sender) -> Violation | None:
        """Return a violation in the MCP message as a violation in the ACP message around it.

        ``sender`` is to blame if the violation blames nobody else. Return ``None`` if the rule is left out,
        or if the violation is about an id that the MCP message does not have.
        """
        pointer = None if violation.pointer is None else self.at + violation.pointer
        if violation.pointer == "/id":
            pointer = self.id_at
        if violation.rule in self.left_out or (violation.pointer == "/id" and pointer is None):
            return None
        blame = violation.blame or sender
        return Violation(
            violation.rule,
            violation.requirement,
            self.label + violation.message,
            pointer,
            violation.related,
            blame if blame == "proxy" or self.client == CLIENT else other(blame),
            violation.at_most,
            violation.frame,
            violation.candidates,
            violation.data,
        )


class FindingBuilder:
    """Turns the violations that checks report into findings. One builder serves a whole recording.

    With ``lists_all`` every finding is given in full, for callers that act on each finding. ``total`` is the
    number of all findings so far, also of findings that were only counted.
    """

    def __init__(self, catalogue: Catalogue, *, lists_all: bool = False) -> None:
        self._requirements = catalogue.requirements
        self._lists_all = lists_all
        self._counts: dict[Cause, int] = {}  # of all findings
        self._full_counts: dict[Cause, int] = {}  # of the findings that were given in full
        self._frame = (0, "")  # the frame of the latest finding, by its number and sender
        self._full_in_frame = 0  # the number of findings in that frame that were given in full
        self._host_facts: set[tuple[str, str, str]] = set()  # rule, host and fact
        self.envelope: Envelope | None = None
        """The ACP message around the message that is being judged, if there is one."""
        self.total = 0

    def __call__(
        self,
        violations: Iterable[Violation],
        seq: int,
        sender: Sender,
        candidates: tuple[str, ...],
        asked: str = "",
    ) -> Iterator[Finding]:
        """Yield the findings for ``violations`` in frame ``seq`` from ``sender``.

        ``candidates`` are the revisions that the frame may belong to; a violation may name its own. A
        violation is left out unless its requirement applies in every candidate. ``asked`` is the revision
        that the client requested; if it is a candidate, findings cite its page.
        """
        for reported in violations:
            violation = (
                self.envelope.in_acp_message(reported, sender) if self.envelope is not None else reported
            )
            if violation is None:
                continue
            requirement = self._requirements[f"{violation.rule}/{violation.requirement}"]
            judged_by = violation.candidates or candidates
            severity: Severity | None = requirement.severity(judged_by)
            if severity is None:
                continue
            if violation.at_most is not None and RANK[violation.at_most] < RANK[severity]:
                severity = violation.at_most
            blame = violation.blame or sender
            is_needed = self._is_first_of_host(violation)
            if not self._count_finding(
                (violation.rule, severity, blame, requirement.id), seq, sender, is_needed
            ):
                continue
            yield Finding(
                violation.rule,
                severity,
                blame,
                _shortened(violation.message, MESSAGE_CHARACTERS),
                frame=seq if violation.frame is None else violation.frame,
                related=violation.related[:MOST_RELATED],
                pointer=_shortened_pointer(violation.pointer),
                revision=judged_by[0] if len(judged_by) == 1 else None,
                source=requirement.source(judged_by, asked),
                requirement=requirement.id,
                data=violation.data,
            )

    def causes(self) -> dict[Cause, int]:
        """Return the number of findings of each cause so far; with ``lists_all`` none are counted."""
        return dict(self._counts)

    def count_repeated(self, causes: tuple[Cause, ...], seq: int, sender: Sender) -> bool:
        """Count one more finding of each of ``causes``, and return whether they were counted.

        They are not if one of them would have to be given in full, as with ``lists_all`` each has to be.
        """
        if self._lists_all:
            return False
        is_full = self._full_in_frame >= PER_FRAME and self._frame == (seq, sender)
        if not is_full and any(self._full_counts.get(cause, 0) < IN_FULL for cause in causes):
            return False
        for cause in causes:
            self._counts[cause] += 1
        self.total += len(causes)
        return True

    @property
    def more(self) -> tuple[Repeated, ...]:
        """The number of findings of each cause beyond those that were given in full."""
        counts = ((cause, count - self._full_counts.get(cause, 0)) for cause, count in self._counts.items())
        return tuple(Repeated(*cause, count) for cause, count in counts if count)

    def _is_first_of_host(self, violation: Violation) -> bool:
        """Whether a violation is the first with this fact about a host.

        It is given in full, however many findings its cause has, because a host that no finding mentions
        counts as one with which the server works.
        """
        data = violation.data
        if data is None or not violation.rule.startswith("HOST-"):
            return False  # the data of a custom rule may have any members
        fact = violation.rule, str(data["host"]), str(data["says"])
        if fact in self._host_facts or len(self._host_facts) >= MOST_HOST_FACTS:
            return False
        self._host_facts.add(fact)
        return True

    def _count_finding(self, cause: Cause, seq: int, sender: Sender, is_needed: bool) -> bool:
        """Count a finding, and return whether to give it in full.

        It always is if ``is_needed``, and with ``lists_all``, when only ``total`` is counted.
        """
        self.total += 1
        if self._lists_all:
            return True
        self._counts[cause] = self._counts.get(cause, 0) + 1
        if self._frame != (seq, sender):
            self._frame, self._full_in_frame = (seq, sender), 0
        full_count = self._full_counts.get(cause, 0)
        if not is_needed and (full_count >= IN_FULL or (seq and self._full_in_frame >= PER_FRAME)):
            return False
        self._full_counts[cause] = full_count + 1
        self._full_in_frame += 1
        return True


def _shortened(text: str, limit: int) -> str:
    """Return ``text``, cut to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _shortened_pointer(pointer: str | None) -> str | None:
    """Return the JSON Pointer; if it is too long, the longest prefix that still points to a value."""
    if pointer is None or len(pointer) <= POINTER_CHARACTERS:
        return pointer
    return pointer[: max(0, pointer.rfind("/", 0, POINTER_CHARACTERS + 1))]

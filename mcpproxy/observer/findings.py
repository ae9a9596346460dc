"""Make findings from violations: the catalogue gives their severity and source.

A peer, or a single frame, can break one requirement a million times. So that neither the trace nor a report
grows with that, the first findings of a cause are given in full and the others are counted. The length of
the texts in a finding is bounded for the same reason.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from mcpproxy.checks.engine.context import Violation
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Blame, Finding, Repeated, Sender, Severity

RANK: Final[dict[Severity, int]] = {"info": 0, "warning": 1, "error": 2}

IN_FULL: Final = 100
"""How many findings of one cause are given in full; the others are counted."""

PER_FRAME: Final = 100
"""How many findings of one frame are given in full, whatever their causes."""

MESSAGE_CHARACTERS: Final = 1000
POINTER_CHARACTERS: Final = 1000
MOST_RELATED: Final = 100

Cause: TypeAlias = tuple[str, Severity, Blame, str]
"""Rule, severity, blame and requirement: findings that agree in these four have one cause."""


class FindingBuilder:
    """Turns the violations that checks report into findings. One builder serves a whole recording.

    ``lists_all`` gives every finding in full, for callers that act on each. ``total`` is the number of
    findings so far, given in full or not.
    """

    def __init__(self, catalogue: Catalogue, *, lists_all: bool = False) -> None:
        self._requirements = catalogue.requirements
        self._lists_all = lists_all
        self._found: dict[Cause, int] = {}
        self._given: dict[Cause, int] = {}
        self._frame = (0, "")  # the frame of the latest finding, by its number and sender
        self._in_frame = 0
        self.total = 0

    def __call__(
        self, violations: Iterable[Violation], seq: int, sender: Sender, candidates: tuple[str, ...]
    ) -> Iterator[Finding]:
        """Yield the findings for ``violations`` in frame ``seq`` of ``sender``, judged by ``candidates``.

        A requirement that does not apply in all of these revisions is not broken.
        """
        for violation in violations:
            requirement = self._requirements[f"{violation.rule}/{violation.requirement}"]
            judged_by = violation.candidates or candidates
            severity: Severity | None = requirement.severity(judged_by)
            if severity is None:
                continue
            if violation.at_most is not None and RANK[violation.at_most] < RANK[severity]:
                severity = violation.at_most
            blame = violation.blame or sender
            if not self._is_given((violation.rule, severity, blame, requirement.id), seq, sender):
                continue
            yield Finding(
                violation.rule,
                severity,
                blame,
                _cut(violation.message, MESSAGE_CHARACTERS),
                frame=seq if violation.frame is None else violation.frame,
                related=violation.related[:MOST_RELATED],
                pointer=_nearest(violation.pointer),
                revision=judged_by[0] if len(judged_by) == 1 else None,
                source=requirement.source(judged_by),
                requirement=requirement.id,
                data=violation.data,
            )

    def causes(self) -> dict[Cause, int]:
        """Return how many findings each cause has had so far."""
        return dict(self._found)

    def repeats(self, causes: tuple[Cause, ...], seq: int, sender: Sender) -> bool:
        """Count one more finding of each of ``causes``, unless one of them would be given in full.

        Returns:
            Whether they were counted.
        """
        if self._lists_all:
            return False
        is_full = self._in_frame >= PER_FRAME and self._frame == (seq, sender)
        if not is_full and any(self._given.get(cause, 0) < IN_FULL for cause in causes):
            return False
        for cause in causes:
            self._found[cause] += 1
        self.total += len(causes)
        return True

    @property
    def more(self) -> tuple[Repeated, ...]:
        """The number of findings of each cause beyond those that were given in full."""
        rest = ((cause, count - self._given.get(cause, 0)) for cause, count in self._found.items())
        return tuple(Repeated(*cause, count) for cause, count in rest if count)

    def _is_given(self, cause: Cause, seq: int, sender: Sender) -> bool:
        """Count a finding, and return whether to give it in full."""
        self.total += 1
        if self._lists_all:
            return True
        self._found[cause] = self._found.get(cause, 0) + 1
        if self._frame != (seq, sender):
            self._frame, self._in_frame = (seq, sender), 0
        given = self._given.get(cause, 0)
        if given >= IN_FULL or (seq and self._in_frame >= PER_FRAME):
            return False
        self._given[cause] = given + 1
        self._in_frame += 1
        return True


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _nearest(pointer: str | None) -> str | None:
    """Return the JSON Pointer; if it is too long, the longest prefix that still points to a value."""
    if pointer is None or len(pointer) <= POINTER_CHARACTERS:
        return pointer
    return pointer[: max(0, pointer.rfind("/", 0, POINTER_CHARACTERS + 1))]

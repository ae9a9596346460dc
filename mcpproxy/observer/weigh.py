"""From breaches to findings: how bad it is and who says so follow from the catalogue."""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.breach import Breach
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Finding, Sender, Severity

RANK: Final[dict[Severity, int]] = {"info": 0, "warning": 1, "error": 2}


class Weigher:
    """Turns what a check saw into what users are told."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._requirements = catalogue.requirements

    def __call__(
        self, breaches: Iterable[Breach], seq: int, sender: Sender, candidates: tuple[str, ...]
    ) -> Iterator[Finding]:
        """Findings for ``breaches`` in frame ``seq`` of ``sender``, judged by ``candidates``.

        A breach of what does not hold in every one of the revisions is none.
        """
        for breach in breaches:
            requirement = self._requirements[f"{breach.rule}/{breach.requirement}"]
            judged_by = breach.candidates or candidates
            severity: Severity | None = requirement.severity(judged_by)
            if severity is None:
                continue
            if breach.at_most is not None and RANK[breach.at_most] < RANK[severity]:
                severity = breach.at_most
            yield Finding(
                breach.rule,
                severity,
                breach.blame or sender,
                breach.message,
                seq if breach.frame is None else breach.frame,
                breach.related,
                breach.pointer,
                judged_by[0] if len(judged_by) == 1 else None,
                requirement.source(judged_by),
                requirement.id,
                breach.data,
            )

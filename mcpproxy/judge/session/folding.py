"""Fold findings that say the same, so that text for people shows one of them, with a count.

Findings of one cause (rule, severity, blame and requirement) say the same if their texts differ only in names
and numbers: twenty-five tools with the same flaw, or the pages of a list whose cursor does not advance.
Reports for programs are not folded.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import Finding

LEAST: Final = 3
"""If at least this many findings say the same, they are folded; otherwise all are shown."""

_VARIABLE: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[0-9]+')
"""A quoted name or text from a peer, or a number."""

_MOST_LISTED: Final = 5
"""The number of names or frames of folded findings that are listed."""


@slotted()
class Folded:
    """Findings that say the same: the ``first``, which is shown, and the ``others``, in their order."""

    first: Finding
    others: list[Finding] = field(default_factory=list[Finding])

    @property
    def count_text(self) -> str:
        """The number of others and their places, as a clause; empty if there are none.

        Examples: ``24 more like it in this frame: "b", "c", …`` and ``7 more like it, in frames 5, 9, 13``.
        """
        if not self.others:
            return ""
        text = f"{len(self.others):,} more like it"
        frames = [str(frame) for frame in dict.fromkeys(f.frame for f in self.others) if frame]
        if frames == [str(self.first.frame)]:
            names = list(dict.fromkeys(map(self._own_name, self.others)))
            listed = _listed(list(filter(None, names)))
            return f"{text} in this frame{f': {listed}' if listed else ''}"
        return f"{text}, in frame{'' if len(frames) == 1 else 's'} {_listed(frames)}" if frames else text

    def _own_name(self, finding: Finding) -> str:
        """Return the first name in a finding that the first finding does not have; empty if there is none."""
        known = set(_VARIABLE.findall(self.first.message))
        names = (name for name in _VARIABLE.findall(finding.message) if name.startswith('"'))
        return next((name for name in names if name not in known), "")


def fold(findings: Iterable[Finding]) -> list[Folded]:
    """Return the findings in their order, with those that say the same folded into the first of them.

    Fewer than ``LEAST`` that say the same are not folded. A finding about the session as a whole is never
    folded into another.
    """
    all_findings = list(findings)
    groups: dict[tuple[str, ...], Folded] = {}
    counts: Counter[tuple[str, ...]] = Counter(map(_key, all_findings))
    folded: list[Folded] = []
    for finding in all_findings:
        key = _key(finding)
        if counts[key] >= LEAST and finding.frame and key in groups:
            groups[key].others.append(finding)
        else:
            groups[key] = Folded(finding)
            folded.append(groups[key])
    return folded


def _key(finding: Finding) -> tuple[str, ...]:
    """Return a key that is equal for findings that say the same."""
    constant_text = _VARIABLE.sub("", finding.message)
    return (finding.rule, finding.severity, finding.blame, finding.requirement, constant_text)


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:_MOST_LISTED]) + (", …" if len(texts) > _MOST_LISTED else "")

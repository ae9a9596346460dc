"""Report findings as Markdown: a table by rule, for the summary page of a build.

Text from a peer is escaped, so that it cannot add links, images or tables.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import WORST_FIRST
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports.located import Located, Remark, recording_name

_PUNCTUATION: Final = pattern(r"([!-/:-@\[-`{-~])")
_MESSAGE_CHARACTERS: Final = 160
"""The length to which the message of a finding is cut."""


def lines(
    heading: str,
    findings: Iterable[Located],
    remarks: Iterable[Remark],
    catalogue: Catalogue,
    hosts: Iterable[str] = (),
) -> Iterator[str]:
    """Yield a section: a heading, a row per level, rule and blame, remarks, the count of known findings.

    A known finding is one that a baseline accepts, and a remark is a note about a recording. ``hosts`` are
    the lines of the matrix of hosts, which come last.
    """
    findings, remarks = tuple(findings), tuple(remarks)
    yield f"## {escaped(heading)}"
    yield ""
    if rows := list(_rows([located for located in findings if not located.is_known], catalogue)):
        yield "| severity | rule | who | count | first | what |"
        yield "| --- | --- | --- | ---: | --- | --- |"
        yield from rows
        yield ""
    for remark in remarks:
        yield f"- {escaped(_name(remark.path))}: **{remark.kind}**: {escaped(remark.text)}"
    if remarks:
        yield ""
    if known_count := sum(located.is_known for located in findings):
        verb = "is" if known_count == 1 else "are"
        yield f"{count(known_count, 'finding')} of the baseline {verb} not listed."
        yield ""
    yield from hosts


def escaped(text: str) -> str:
    """Return ``text`` as one line of Markdown that renders as exactly this text."""
    return _PUNCTUATION.sub(r"\\\1", visible(text))


def _rows(findings: list[Located], catalogue: Catalogue) -> Iterator[str]:
    groups: dict[tuple[int, str, str], list[Located]] = {}
    for located in findings:
        finding = located.finding
        key = (WORST_FIRST.index(finding.severity), finding.rule, finding.blame)
        groups.setdefault(key, []).append(located)
    for (_, code, blame), group in sorted(groups.items(), key=lambda item: item[0]):
        first_finding = group[0].finding
        rule = catalogue.rules.get(code)
        title = escaped(f"{code} {rule.name}" if rule else code)
        linked = f"[{title}]({_link_target(first_finding.source)})" if first_finding.source else title
        message = (
            first_finding.message
            if len(first_finding.message) <= _MESSAGE_CHARACTERS
            else first_finding.message[: _MESSAGE_CHARACTERS - 1] + "…"
        )
        name = _name(group[0].path)
        where = f"{name}:{group[0].line}" if group[0].line else name
        place = f"frame {first_finding.frame}, {where}" if first_finding.frame else where
        cells = (first_finding.severity, linked, blame, str(len(group)), escaped(place), escaped(message))
        yield f"| {' | '.join(cells)} |"


def _name(path: str) -> str:
    """Return a relative path as it is; for an absolute one, of this machine alone, the recording's name."""
    return recording_name(path) if os.path.isabs(path) else path


def _link_target(url: str) -> str:
    """Return a URL in a form that is valid in a Markdown link."""
    return re.sub(r"[\s<>()|\\]", lambda match: f"%{ord(match[0]):02X}", url)

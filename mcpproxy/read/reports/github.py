"""Report findings as annotations of GitHub Actions: one workflow command per line, in the log of a step.

GitHub shows at most ten errors and ten warnings of a step. So the worst findings come first, and findings
with equal fingerprints in one file share one annotation.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.visible import visible, visible_lines
from mcpproxy.judge.session.frame import WORST_FIRST
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports.located import Located, Remark, RemarkKind, recording_name, relative

COMMAND: Final = {"error": "error", "warning": "warning", "info": "notice"}
"""Severity -> the workflow command for it."""

_REMARK_COMMAND: Final[dict[RemarkKind, str]] = {
    "incomplete recording": "warning",
    "more findings": "warning",
    "not judged": "error",
    "failed before any message": "error",
    "note": "notice",
}


def lines(
    findings: Iterable[Located], remarks: Iterable[Remark], catalogue: Catalogue, *, base: str | None
) -> Iterator[str]:
    """Yield a command for each group of equal findings that no baseline accepts, then one for each remark.

    A remark is a note about a recording, and no finding. Among findings of equal severity, those of rules
    come before the failed checks of ``mcpproxy validate``, which often are consequences of the former.

    File paths are relative to ``base``, the root of the repository. GitHub cannot show a recording outside
    ``base``, or any recording if ``base`` is ``None``, so the message has its name instead.
    """
    groups: dict[tuple[str, str], list[Located]] = {}
    for located in findings:
        if not located.is_known:
            groups.setdefault((located.path, located.fingerprint or str(located)), []).append(located)

    def rank(group: list[Located]) -> tuple[int, bool]:
        finding = group[0].finding
        return WORST_FIRST.index(finding.severity), finding.rule not in catalogue.rules

    for group in sorted(groups.values(), key=rank):
        finding = group[0].finding
        rule = catalogue.rules.get(finding.rule)
        title = f"{finding.rule} {rule.name}" if rule else finding.rule
        place = _place(group[0].path, max(group[0].line, 1), base)
        frame = f"frame {finding.frame}" if finding.frame else ""
        if not place:
            frame = f"{frame} of {recording_name(group[0].path)}" if frame else recording_name(group[0].path)
        repeats = f" ({len(group)} times)" if len(group) > 1 else ""
        message = f"{visible(frame)}{': ' if frame else ''}{visible(finding.message)}{repeats}"
        if finding.source:
            message += f"\n{visible(finding.source)}"
        yield command(COMMAND[finding.severity], message, **place, title=title)
    for remark in remarks:
        place = _place(remark.path, 0, base)
        yield command(_REMARK_COMMAND[remark.kind], visible(remark.text), **place, title=remark.kind)


def _place(path: str, line: int, base: str | None) -> dict[str, object]:
    """Return the properties for a line of a file in the repository; none if it is not there."""
    file = relative(path, base) if base is not None else ""
    if not file or os.path.isabs(file):
        return {}
    return {"file": file, "line": line} if line else {"file": file}


def command(name: str, message: str, **properties: object) -> str:
    """Return ``::name key=value,key=value::message``, with the values and the message escaped."""
    listed = ",".join(f"{key}={_escaped_property(visible(str(value)))}" for key, value in properties.items())
    return f"::{name} {listed}::{_escaped_data(message)}" if listed else f"::{name}::{_escaped_data(message)}"


def _escaped_data(text: str) -> str:
    return visible_lines(text).replace("%", "%25").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")

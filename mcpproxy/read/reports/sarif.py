"""Report findings as SARIF 2.1.0, which code hosts and editors read.

The log has one run, and a result for each finding. The location of a result is the line of the trace that
records its frame. Only rules that have findings, or had some in the baseline, are listed, because the texts
of all rules would make up most of every report. With a baseline (a file of accepted findings), each result
says whether it is new, unchanged or absent, and accepted findings are marked as suppressed, with the reason.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import mcpproxy
from mcpproxy.protocol.revisions import ACP, REVISIONS
from mcpproxy.protocol.rules import SEVERITY, Catalogue, Level, Rule, family
from mcpproxy.read.reports import fingerprint
from mcpproxy.read.reports.baseline import Entry
from mcpproxy.read.reports.judged_traces import host_members
from mcpproxy.read.reports.located import Located, Place, Remark, RemarkKind, recording_name, relative

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
INFORMATION_URI: Final = "https://modelcontextprotocol.io/specification/versioning"
"""The page about protocol revisions, which the rules follow."""

LEVEL: Final = {"error": "error", "warning": "warning", "info": "note"}
"""SARIF's names of the severities."""

_PROBLEM_SEVERITY: Final = {"error": "error", "warning": "warning", "info": "recommendation"}
"""The values of GitHub's rule property ``problem.severity``."""
_ROOT_SYMBOL: Final = "%SRCROOT%"
"""The symbol for the folder to which paths are relative."""
_NOTIFICATIONS: Final[dict[RemarkKind, tuple[str, str, str]]] = {
    "more findings": (
        "findings-not-listed",
        "warning",
        "One requirement was broken so often that only the first findings are listed.",
    ),
    "incomplete recording": (
        "incomplete-recording",
        "warning",
        "A part of the session was not recorded, so it was not judged.",
    ),
    "not judged": ("recording-not-judged", "error", "A recording could not be read, or not be judged."),
    "failed before any message": (
        "failed-before-any-message",
        "error",
        "A server could not be started, or exited with an error before any message: nothing was judged.",
    ),
    "note": ("note", "note", "What was tested, and what the server made of it."),
}
"""Kind of remark -> its id, level and description as a notification."""
_NOTHING_JUDGED: Final = ("not judged", "failed before any message")


def lines(
    findings: Iterable[Located],
    remarks: Iterable[Remark],
    catalogue: Catalogue,
    *,
    base: str | None,
    exit_code: int,
    fixed: Sequence[Entry] | None = None,
    hosts: Sequence[Mapping[str, object]] = (),
) -> Iterator[str]:
    """Yield the log as one indented JSON object.

    Paths inside the folder ``base`` are relative to it. If ``base`` is ``None``, readers of the log cannot
    open the recordings, and each is identified by its name alone. ``fixed`` are the entries of the
    baseline whose findings did not occur, ``None`` without a baseline. ``hosts`` is the matrix of hosts, as
    JSON values; ``exit_code`` is that of the command.
    """
    findings, remarks = tuple(findings), tuple(remarks)
    # Reversed, so that the first of several findings of a rule gives the source.
    sources = {located.finding.rule: located.finding.source for located in reversed(findings)}
    codes = sorted(sources.keys() | {entry.rule for entry in fixed or ()})
    paths = list(
        dict.fromkeys([*(located.path for located in findings), *(remark.path for remark in remarks)])
    )
    objects = _RunObjects(codes, paths, base, is_compared=fixed is not None)
    notifications = dict.fromkeys(_NOTIFICATIONS[remark.kind] for remark in remarks)
    driver: dict[str, object] = {
        "name": "mcpproxy",
        "version": mcpproxy.__version__,
        "semanticVersion": mcpproxy.__version__,
        "informationUri": INFORMATION_URI,
        "rules": [_descriptor(code, catalogue, sources.get(code, "")) for code in codes],
    }
    if notifications:
        driver["notifications"] = [
            {"id": id, "shortDescription": {"text": text}} for id, _, text in notifications
        ]
    run: dict[str, object] = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not any(remark.kind in _NOTHING_JUDGED for remark in remarks),
                "exitCode": exit_code,
                "toolExecutionNotifications": [objects.notification(remark) for remark in remarks],
            }
        ],
        "originalUriBaseIds": {_ROOT_SYMBOL: {"description": {"text": "The folder that mcpproxy ran in."}}},
        "artifacts": [{"location": objects.artifact(path), "roles": ["analysisTarget"]} for path in paths],
        "results": [
            *(objects.result(located) for located in findings),
            *(objects.absent(entry) for entry in fixed or ()),
        ],
        "columnKind": "unicodeCodePoints",
    }
    if hosts:
        run["properties"] = {"hosts": list(hosts)}
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


class _RunObjects:
    """Builds the objects of a run, which refer to rules and traces by index."""

    def __init__(self, codes: list[str], paths: list[str], base: str | None, *, is_compared: bool) -> None:
        self._codes: Final = codes
        self._paths: Final = {path: index for index, path in enumerate(paths)}
        self._base: Final = base
        self._is_compared: Final = is_compared

    def artifact(self, path: str) -> dict[str, object]:
        place: dict[str, object]
        relative_path = relative(path, self._base) if self._base is not None else ""
        if not relative_path:
            place = {"uri": quote(os.fsencode(f"{recording_name(path)}.jsonl"))}
        elif os.path.isabs(relative_path):
            place = {"uri": Path(relative_path).as_uri()}
        else:
            place = {"uri": quote(os.fsencode(relative_path), safe="/"), "uriBaseId": _ROOT_SYMBOL}
        return place | ({"index": self._paths[path]} if path in self._paths else {})

    def result(self, located: Located) -> dict[str, object]:
        finding = located.finding
        location: dict[str, object] = {
            "physicalLocation": self._physical_location(located.path, located.line)
        }
        frame = f"frame {finding.frame}" if finding.frame else "session"
        location["logicalLocations"] = [
            {"name": frame, "fullyQualifiedName": f"{frame}{finding.pointer or ''}", "kind": "frame"},
            {"name": finding.blame, "kind": "peer"},
        ]
        result: dict[str, object] = {
            "ruleId": finding.rule,
            "ruleIndex": self._codes.index(finding.rule),
            "level": LEVEL[finding.severity],
            "message": {"text": finding.message},
            "locations": [location],
            "partialFingerprints": {fingerprint.NAME: f"{located.fingerprint}:{located.occurrence}"},
        }
        if located.related:
            numbered = enumerate(located.related, start=1)
            result["relatedLocations"] = [self._related_location(id, place) for id, place in numbered]
        result["properties"] = {
            "frame": finding.frame,
            "blame": finding.blame,
            "pointer": finding.pointer,
            "revision": finding.revision,
            "requirement": finding.requirement,
            "source": finding.source,
            **host_members(finding),
        }
        if self._is_compared:
            # The standard demands these members in all results of a run or in none.
            accepted = {"kind": "external", "status": "accepted"}
            accepted |= {"justification": located.why} if located.why else {}
            result["baselineState"] = "unchanged" if located.is_known else "new"
            result["suppressions"] = [accepted] if located.is_known else []
        return result

    def absent(self, entry: Entry) -> dict[str, object]:
        """Return the result for an entry of the baseline whose finding did not occur."""
        return {
            "ruleId": entry.rule,
            "ruleIndex": self._codes.index(entry.rule),
            "level": LEVEL.get(entry.severity, "none"),
            "message": {"text": entry.message},
            "locations": [],
            "partialFingerprints": {fingerprint.NAME: f"{entry.fingerprint}:{entry.count}"},
            "baselineState": "absent",
            "suppressions": [],
        }

    def notification(self, remark: Remark) -> dict[str, object]:
        id, level, _ = _NOTIFICATIONS[remark.kind]
        return {
            "descriptor": {"id": id},
            "level": level,
            "message": {"text": remark.text},
            "locations": [{"physicalLocation": self._physical_location(remark.path, 0)}],
        }

    def _related_location(self, id: int, place: Place) -> dict[str, object]:
        physical = self._physical_location(place.path, place.line)
        return {"id": id, "message": {"text": f"frame {place.frame}"}, "physicalLocation": physical}

    def _physical_location(self, path: str, line: int) -> dict[str, object]:
        place: dict[str, object] = {"artifactLocation": self.artifact(path)}
        return place | ({"region": {"startLine": line}} if line else {})


def _descriptor(code: str, catalogue: Catalogue, cited_source: str) -> dict[str, object]:
    """Return a rule with its texts and the cited page. If the rule no longer exists, return only its code."""
    rule = catalogue.rules.get(code)
    if rule is None:
        return {"id": code}
    severity, newest_source = _strongest(rule)
    source = cited_source or newest_source
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": _help_text(rule, source), "markdown": _help_markdown(rule, source)},
        "helpUri": source,
        "defaultConfiguration": {"level": LEVEL[severity]},
        "properties": {
            "tags": ["mcp", family(code).lower()],
            "precision": "high",
            "problem.severity": _PROBLEM_SEVERITY[severity],
        },
    }


def _strongest(rule: Rule) -> tuple[Level, str]:
    """Return the strongest level of a rule in the newest revision in which it has one, and its source.

    For a rule without a level, return ``info`` and a source of its first requirement.
    """
    for version in (*reversed(REVISIONS), *reversed(ACP)):
        for keyword in rule.keywords(version):
            severity = SEVERITY[keyword]
            if severity is not None:
                matching = (r for r in rule.requirements if r.keywords.get(version) == keyword)
                return severity, next(matching).sources[version]
    return "info", next(iter(rule.requirements[0].sources.values()))


def _help_text(rule: Rule, source: str) -> str:
    return f"{rule.summary}\n\n{rule.why}\n\nInstead: {rule.instead}\n\nSource: {source}"


def _help_markdown(rule: Rule, source: str) -> str:
    example = rule.example.strip()
    return (
        f"{rule.summary}\n\n**Why it matters.** {rule.why}\n\n**Breaks it**\n\n```\n{example}\n```\n\n"
        f"**Do instead.** {rule.instead}\n\n[The specification]({source})"
    )

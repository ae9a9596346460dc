"""Turns the findings about the server in all sessions into checks.

Findings that belong to a probe (one test of the server) are not used again. Each violated rule gives a check.
A category of rules gives one passed check if its rules judged messages and none was violated. Findings of
severity ``info`` do not count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.judge.session.frame import Finding
from mcpproxy.peers.validate.outcome import Category, CheckResult, Conclusion, conclusion_of
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.protocol.rules import family

CATEGORY_OF: Final[Mapping[str, Category]] = {
    "RPC": "jsonrpc",
    "PROTO": "jsonrpc",
    "ERR": "errors",
    "LIFE": "lifecycle",
    "ERA": "lifecycle",
    "DISC": "lifecycle",
    "STAT": "lifecycle",
    "ROOT": "lifecycle",
    "SAMP": "lifecycle",
    "ELIC": "lifecycle",
    "STDIO": "transport",
    "HTTP": "transport",
    "SSE": "transport",
    "HDR": "transport",
    "AUTH": "security",
    "PIN": "security",
    "TOOL": "tools",
    "CONT": "tools",
    "TASK": "tools",
    "TASKX": "tools",
    "UI": "tools",
    "RES": "resources",
    "PROM": "prompts",
    "COMP": "completion",
    "LOG": "logging",
    "SCHEMA": "schema",
    "META": "schema",
    "ICON": "schema",
    "EXT": "schema",
    "APP": "tools",
    "SEQ": "sequence",
    "PROG": "sequence",
    "CANC": "sequence",
    "PAGE": "sequence",
    "SUB": "sequence",
    "MRTR": "sequence",
    "CACHE": "sequence",
    "DEPR": "lifecycle",
    "VER": "lifecycle",
}
"""Family of rules -> its category; that of any other family is ``sequence``."""

_FEATURES_OF: Final[Mapping[Category, tuple[str, ...]]] = {
    "lifecycle": ("initialize", "ping", "server", "roots", "sampling", "elicitation"),
    "tools": ("tools", "tasks", "notifications/tools"),
    "resources": ("resources", "notifications/resources"),
    "prompts": ("prompts", "notifications/prompts"),
    "completion": ("completion",),
    "logging": ("logging", "notifications/message"),
}
"""By category: the features that its rules are about. ``ServerMessages`` counts messages by feature."""

_ANY_MESSAGE: Final[tuple[Category, ...]] = ("jsonrpc", "transport", "schema", "sequence")
"""The categories whose rules judge every message."""

_TRANSPORT_OF_FAMILY: Final = {"STDIO": "stdio", "HTTP": "http", "SSE": "http", "HDR": "http", "AUTH": "http"}
"""Family of rules -> the only transport that they are about. Other families are about both."""


def rule_applies(code: str, transport: str) -> bool:
    """Whether a rule applies to this transport."""
    return _TRANSPORT_OF_FAMILY.get(family(code), transport) == transport


def message_counts(recordings: Iterable[SessionRecording]) -> Counter[Category]:
    """Return how many messages of the server the rules of each category could judge.

    For ``security`` these are the HTTP responses that ask for credentials, for ``errors`` the error
    responses.
    """
    totals: Counter[Category] = Counter()
    for sent in (recording.server_messages for recording in recordings):
        for category, features in _FEATURES_OF.items():
            totals[category] += sum(sent.by_feature[feature] for feature in features)
        totals["errors"] += sent.errors
        totals["security"] += sent.challenges
        for category in _ANY_MESSAGE:
            totals[category] += sent.messages
    return totals


def rule_checks(
    findings: Iterable[tuple[str, Finding]],
    messages: Mapping[Category, int],
    revision: str,
    names: Mapping[str, str],
) -> Iterator[CheckResult]:
    """Yield the checks for the findings of one revision.

    ``findings`` are pairs of the path of a recording and a finding. ``messages`` says how many messages
    were judged in each category; ``names`` are the names of the rules, by code.
    """
    violations = [(path, finding) for path, finding in findings if finding.severity != "info"]
    violated_categories = {CATEGORY_OF.get(family(finding.rule), "sequence") for _, finding in violations}
    judged_families = {family(code) for code in names}
    families_by_category: dict[Category, list[str]] = {}
    for name, category in CATEGORY_OF.items():
        if name in judged_families:
            families_by_category.setdefault(category, []).append(name)
    for category, families in families_by_category.items():
        message_count = messages.get(category, 0)
        if message_count and category not in violated_categories:
            codes = tuple(sorted(code for code in names if family(code) in families))
            rules = f"{count(len(codes), 'rule')} ({', '.join(families)})"
            conclusion = Conclusion("passed", f"{count(message_count, 'message')} kept {rules}")
            yield CheckResult(f"{category}-rules", category, conclusion, 0, codes, revision)
    violations.sort(key=lambda pair: pair[1].rule)
    for code, group in groupby(violations, key=lambda pair: pair[1].rule):
        yield _violation_check(code, names.get(code, code), list(group), revision)


def _violation_check(code: str, name: str, findings: list[tuple[str, Finding]], revision: str) -> CheckResult:
    """Return the check for a violated rule."""
    path, first = worst_finding(findings)
    # The same finding occurs each time that a list is requested, so only different messages are counted.
    other_messages = {finding.message for _, finding in findings} - {first.message}
    more = f" (and {len(other_messages)} more)" if other_messages else ""
    category, conclusion = CATEGORY_OF.get(family(code), "sequence"), conclusion_of(first, more)
    return CheckResult(
        f"{code} {name}", category, conclusion, 0, rules=(code,), revision=revision, trace=path
    )


def worst_finding(findings: list[tuple[str, Finding]]) -> tuple[str, Finding]:
    """Return the first pair whose finding is an error, else the first pair."""
    return next((pair for pair in findings if pair[1].severity == "error"), findings[0])

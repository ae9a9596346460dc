"""Checks from the findings about the server in all sessions, apart from findings that decided a probe.

Each category of rules gives one check that passed, or one check for each of its rules that was violated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.ruleset.selection import family
from mcpproxy.session.frame import Finding
from mcpproxy.validate.outcome import STATUS_OF, Category, CheckResult, Conclusion
from mcpproxy.validate.session_recording import SessionRecording

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
"""The category of each family of rules."""

_FEATURES_OF: Final[Mapping[Category, tuple[str, ...]]] = {
    "lifecycle": ("initialize", "ping", "server", "roots", "sampling", "elicitation"),
    "tools": ("tools", "tasks", "notifications/tools"),
    "resources": ("resources", "notifications/resources"),
    "prompts": ("prompts", "notifications/prompts"),
    "completion": ("completion",),
    "logging": ("logging", "notifications/message"),
}
"""For a category: the features whose messages its rules are about, as ``AnsweredMethods`` counts them."""

_ANY_MESSAGE: Final[tuple[Category, ...]] = ("jsonrpc", "transport", "schema", "sequence")
"""The categories whose rules judge every message."""

_OF_TRANSPORT: Final = {"STDIO": "stdio", "HTTP": "http", "SSE": "http", "HDR": "http", "AUTH": "http"}


def applies(code: str, transport: str) -> bool:
    """Whether a rule applies to this transport."""
    return _OF_TRANSPORT.get(family(code), transport) == transport


def counts(recordings: Iterable[SessionRecording]) -> Counter[Category]:
    """How many messages of the server the rules of each category could judge."""
    found: Counter[Category] = Counter()
    for answered in (recording.answered for recording in recordings):
        for category, features in _FEATURES_OF.items():
            found[category] += sum(answered.by_feature[feature] for feature in features)
        found["errors"] += answered.errors
        found["security"] += answered.challenges
        for category in _ANY_MESSAGE:
            found[category] += answered.messages
    return found


def checks(
    findings: Iterable[tuple[str, Finding]],
    messages: Mapping[Category, int],
    revision: str,
    names: Mapping[str, str],
) -> Iterator[CheckResult]:
    """The checks for the findings of one revision. A category of which no message was seen passes nothing.

    ``findings`` come with the path of their recording. ``messages`` is how many messages were judged in each
    category; ``names`` are the names of the rules, by code.
    """
    counted = [(path, one) for path, one in findings if one.severity != "info"]
    broken = {CATEGORY_OF.get(family(finding.rule), "sequence") for _, finding in counted}
    judged: dict[Category, list[str]] = {}
    families_of = {code: family(code) for code in names}
    for name, category in CATEGORY_OF.items():
        if name in families_of.values():
            judged.setdefault(category, []).append(name)
    for category, families in judged.items():
        if category not in broken and (number := messages.get(category, 0)):
            codes = tuple(sorted(code for code in names if families_of[code] in families))
            what = f"{count(number, 'message')} kept {count(len(codes), 'rule')} ({', '.join(families)})"
            conclusion = Conclusion("passed", what)
            yield CheckResult(f"{category}-rules", category, conclusion, 0, codes, revision)
    counted.sort(key=lambda each: each[1].rule)
    for code, group in groupby(counted, key=lambda each: each[1].rule):
        yield _violated(code, names.get(code, code), list(group), revision)


def _violated(code: str, name: str, found: list[tuple[str, Finding]], revision: str) -> CheckResult:
    path, first = next((each for each in found if each[1].severity == "error"), found[0])
    # The same finding comes back each time that a list is fetched: count different messages only.
    others = {one.message for _, one in found} - {first.message}
    more = f" (and {len(others)} more)" if others else ""
    frames = tuple(number for number in (first.frame, *first.related) if number)
    conclusion = Conclusion(STATUS_OF[first.severity], f"{first.message}{more}", frames, code, first.source)
    category = CATEGORY_OF.get(family(code), "sequence")
    return CheckResult(
        f"{code} {name}", category, conclusion, 0, rules=(code,), revision=revision, trace=path
    )

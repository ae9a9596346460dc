"""Checks from the findings about the server in all sessions, apart from findings that decided a probe.

Each category of rules gives one check that passed, or one check for each of its rules that was violated.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.ruleset.selection import family
from mcpproxy.session.frame import Finding
from mcpproxy.validate.outcome import STATUS_OF, Category, CheckResult, Conclusion

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


_OF_TRANSPORT: Final = {"STDIO": "stdio", "HTTP": "http", "SSE": "http", "HDR": "http", "AUTH": "http"}


def applies(code: str, transport: str) -> bool:
    """Whether a rule applies to this transport."""
    return _OF_TRANSPORT.get(family(code), transport) == transport


def checks(
    findings: Iterable[tuple[str, Finding]], frames: int, revision: str, names: Mapping[str, str]
) -> Iterator[CheckResult]:
    """The checks for the findings of one revision.

    ``findings`` come with the path of their recording; ``names`` are those of the rules, by code. ``frames``
    is how many were judged.
    """
    counted = [(path, one) for path, one in findings if one.severity != "info"]
    broken = {CATEGORY_OF.get(family(finding.rule), "sequence") for _, finding in counted}
    judged: dict[Category, list[str]] = {}
    families_of = {code: family(code) for code in names}
    for name, category in CATEGORY_OF.items():
        if name in families_of.values():
            judged.setdefault(category, []).append(name)
    for category, families in judged.items():
        if category not in broken:
            codes = tuple(sorted(code for code in names if families_of[code] in families))
            what = f"{count(len(codes), 'rule')} ({', '.join(families)}) held in {count(frames, 'frame')}"
            conclusion = Conclusion("passed", what)
            yield CheckResult(f"{category}-rules", category, conclusion, 0, codes, revision)
    counted.sort(key=lambda each: each[1].rule)
    for code, group in groupby(counted, key=lambda each: each[1].rule):
        yield _broken(code, names.get(code, code), list(group), revision)


def _broken(code: str, name: str, found: list[tuple[str, Finding]], revision: str) -> CheckResult:
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

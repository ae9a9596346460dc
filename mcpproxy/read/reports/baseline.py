"""Read and write a baseline: a file of accepted findings, each with its permitted count per recording.

A baseline lets a project start with existing findings: accepted findings are known and do not count, new
findings do. Findings are identified by their fingerprints (see ``fingerprint``). The file is sorted JSON that
people can read. Each entry has the rule and the message of the finding, and a ``why`` that users may fill in.
When the file is rewritten, ``why`` is kept.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import UsageError
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.reports.located import Located
from mcpproxy.record.trace.members import NotARecordError, member, read_object

FORMAT: Final = 1
"""The format that is written. A later one is refused."""

_LIMIT_BYTES: Final = 64 << 20
"""A larger file is not read."""

_FORMAT_MEMBER: Final = "mcpproxy_baseline"
_WRITE_ONE: Final = "--write-baseline writes one"


@slotted(frozen=True)
class Entry:
    """A finding that is accepted up to ``count`` times in one recording.

    The fields other than ``fingerprint``, ``rule`` and ``count`` are for people: the finding as it was when
    it was accepted, and ``why`` it is accepted, empty if no reason was given. An entry has nothing that
    differs between runs, such as paths, times and process ids.
    """

    fingerprint: str
    rule: str
    message: str
    count: int
    severity: str = ""
    blame: str = ""
    requirement: str = ""
    why: str = ""


@slotted(frozen=True)
class Baseline:
    """The entries of the file ``path``, by fingerprint."""

    path: str
    entries: Mapping[str, Entry]

    def marked(self, findings: Iterable[Located]) -> tuple[Located, ...]:
        """Return the findings of one recording in their order, with the accepted findings marked as known."""
        return tuple(self._marked(finding) for finding in findings)

    def _marked(self, finding: Located) -> Located:
        entry = self.entries.get(finding.fingerprint)
        if entry is None or finding.occurrence > entry.count:
            return finding
        return replace(finding, is_known=True, why=entry.why)

    def fixed(self, findings: Iterable[Located], was_judged: Callable[[str], bool]) -> tuple[Entry, ...]:
        """Return the entries whose findings did not occur, except entries of rules that were not judged.

        ``was_judged`` tells whether the rule with a code was judged.
        """
        fingerprints = {finding.fingerprint for finding in findings}
        return tuple(
            entry
            for entry in self.entries.values()
            if entry.fingerprint not in fingerprints and was_judged(entry.rule)
        )

    def renewed(self, findings: Iterable[Located], was_judged: Callable[[str], bool]) -> "Baseline":
        """Return a baseline that accepts all ``findings``.

        Entries of rules that were not judged are kept. Entries of findings that occurred again keep their
        message and ``why``, because a message may have numbers that differ between runs.
        """
        entries = {digest: e for digest, e in self.entries.items() if not was_judged(e.rule)}
        for finding in findings:
            new_entry = entries.get(finding.fingerprint)
            if new_entry is None:
                old_entry = self.entries.get(finding.fingerprint)
                new_entry = _entry(finding)
                if old_entry is not None:
                    new_entry = replace(new_entry, message=old_entry.message, why=old_entry.why)
                entries[finding.fingerprint] = new_entry
            elif finding.occurrence > new_entry.count:
                entries[finding.fingerprint] = replace(new_entry, count=finding.occurrence)
        ordered = sorted(entries.values(), key=lambda e: (e.rule, e.message, e.fingerprint))
        return Baseline(self.path, {e.fingerprint: e for e in ordered})

    def lines(self) -> Iterator[str]:
        """Yield the text of the file, in one piece."""
        findings = [as_object(entry) for entry in self.entries.values()]
        yield json.dumps({_FORMAT_MEMBER: FORMAT, "findings": findings}, indent=2, ensure_ascii=False)


def as_object(entry: Entry) -> dict[str, object]:
    """Return an entry as it is written to the file."""
    return {
        "rule": entry.rule,
        "severity": entry.severity,
        "blame": entry.blame,
        "message": entry.message,
        "count": entry.count,
        "requirement": entry.requirement,
        "fingerprint": entry.fingerprint,
        "why": entry.why,
    }


def read(path: str, *, may_be_missing: bool = False) -> Baseline:
    """Read the baseline in ``path``. If there is no file and it ``may_be_missing``, return an empty baseline.

    Raises:
        UsageError: the file cannot be read, is not a baseline, or has a later format.
    """
    try:
        text = files.read(path, _LIMIT_BYTES, follows=True)
    except FileNotFoundError:
        if may_be_missing:
            return Baseline(path, {})
        raise UsageError(path, "there is no such baseline", _WRITE_ONE) from None
    except (OSError, ValueError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        raise UsageError(path, reason.lower(), "name a baseline") from None
    try:
        members = read_object(text)
        version = member(members, _FORMAT_MEMBER, int)
    except NotARecordError:
        raise UsageError(path, "is not a baseline of mcpproxy", _WRITE_ONE) from None
    if version > FORMAT:
        raise UsageError(
            path, f"a baseline of format {version}, this mcpproxy reads up to {FORMAT}", "please update"
        )
    return Baseline(path, _entries(path, members.get("findings")))


def _entries(path: str, findings: JSON) -> dict[str, Entry]:
    if not isinstance(findings, list):
        raise UsageError(path, "is a baseline without findings", _WRITE_ONE)
    entries: dict[str, Entry] = {}
    for number, value in enumerate(findings, start=1):
        try:
            entry = _read_entry(value)
        except NotARecordError as fault:
            fact = str(fault).replace("a record", "it is an entry")
            raise UsageError(f"{path}: finding {number}", fact, f"correct it, or {_WRITE_ONE}") from None
        if (earlier := entries.get(entry.fingerprint)) is not None:  # two branches were merged
            entry = replace(entry, count=max(entry.count, earlier.count), why=earlier.why or entry.why)
        entries[entry.fingerprint] = entry
    return entries


def _read_entry(value: JSON) -> Entry:
    if not isinstance(value, dict):
        raise NotARecordError("a record that is not an object")
    count = member(value, "count", int, 1)
    if count < 1:
        raise NotARecordError("a record with a bad count")
    return Entry(
        member(value, "fingerprint", str),
        member(value, "rule", str),
        _text_member(value, "message"),
        count,
        *(_text_member(value, name) for name in ("severity", "blame", "requirement", "why")),
    )


def _text_member(value: JSONObject, name: str) -> str:
    return member(value, name, str, "")


def _entry(located: Located) -> Entry:
    finding = located.finding
    return Entry(
        located.fingerprint,
        finding.rule,
        finding.message,
        located.occurrence,
        severity=finding.severity,
        blame=finding.blame,
        requirement=finding.requirement,
    )

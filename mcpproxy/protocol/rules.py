"""Rules as data: what each requirement says, how strong it is in each revision, and its source.

A *rule* is what users see, name and switch off (``PROTO-005``). It is based on one or more *requirements*
(``R-028``). A requirement is one sentence of the specification, with a keyword for each revision. A check
reports the requirement that is broken; the severity and the source of the finding follow from this table.

The tables come from ``rules/<family>.toml``; this module reads no files. In a requirement, ``keyword``
and ``source`` are either one text for all revisions or a table whose keys mean "from this revision on":
``keyword = { "2024-11-05" = "SHOULD", "2025-06-18" = "MUST" }``. ``since`` and ``until`` bound a single
keyword; ``until`` names the first revision in which it no longer applies. A source is a page of the
specification with its section (``basic/lifecycle#initialization``) or a full URL.

A requirement may apply to versions of the Agent Client Protocol, alone (``since = "acp-1"``) or together with
revisions of MCP (a table with keys of both). "From this revision on" stays within one protocol.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, cast, get_args

from mcpproxy.base.slotted import slotted
from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.revisions import ACP, REVISIONS, VERSIONS, protocol_versions, since, until

Keyword = Literal[
    "MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "schema", "derived", "ambiguous", "info", "contract"
]
Level = Literal["error", "warning", "info"]

SEVERITY: Final[Mapping[Keyword, Level | None]] = {
    "MUST": "error",
    "MUST NOT": "error",
    "schema": "error",
    "contract": "error",  # not from the specification: what users require of their own peers
    "SHOULD": "warning",
    "SHOULD NOT": "warning",
    "derived": "warning",
    "ambiguous": "warning",
    "info": "info",
    "MAY": None,  # a permission: it cannot be broken, and it says why other rules do not report
}

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/{revision}/"
ACP_SPECIFICATION: Final = "https://agentclientprotocol.com/protocol/{version}/"

_RANK: Final[Mapping[Level, int]] = {"info": 0, "warning": 1, "error": 2}


class RuleError(McpProxyError, ValueError):
    """A rule table cannot be used; the text says which rule and why."""


@slotted(frozen=True)
class Requirement:
    """One sentence of the specification that a rule is based on.

    ``keywords`` maps each revision in which it applies to its keyword there, ``sources`` each of those
    revisions to the URL of the page and section. ``blame`` is who breaks it: ``client``, ``server`` or
    ``either``. ``unobservable`` says why no recording can show a violation; it is empty for a requirement
    that has a check.
    """

    id: str
    rule: str
    text: str
    blame: str
    keywords: Mapping[str, Keyword]
    sources: Mapping[str, str]
    unobservable: str = ""

    def severity(self, candidates: Iterable[str]) -> Level | None:
        """Return the severity of a violation in a session whose revision is one of ``candidates``.

        ``None`` unless the requirement applies in all of them, because the peer may speak one that allows
        what it did. If the severities differ, the mildest counts.
        """
        levels: list[Level | None] = [
            SEVERITY[self.keywords[r]] if r in self.keywords else None for r in candidates
        ]
        found: list[Level] = [level for level in levels if level is not None]
        if not found or len(found) < len(levels):
            return None
        return min(found, key=lambda level: _RANK[level])

    def source(self, candidates: Iterable[str]) -> str:
        """Return the URL of the page and section to cite: those of the newest candidate revision."""
        return self.sources[max((r for r in candidates if r in self.sources), key=VERSIONS.index)]


@slotted(frozen=True)
class Rule:
    """What ``mcpproxy explain`` shows. ``example`` is a list of messages, one per line.

    An ``opt_in`` rule is off unless it is requested.
    """

    code: str
    name: str
    summary: str
    why: str
    example: str
    instead: str
    requirements: tuple[Requirement, ...]
    opt_in: bool = False

    def keywords(self, revision: str) -> tuple[Keyword, ...]:
        """Return the keywords of its requirements in ``revision``, strongest first."""
        found: set[Keyword] = {r.keywords[revision] for r in self.requirements if revision in r.keywords}
        if len(found) < 2:
            return tuple(found)
        # A permission comes last, after a note.
        return tuple(sorted(found, key=lambda k: (-_RANK[SEVERITY[k] or "info"], SEVERITY[k] is None, k)))


@slotted(frozen=True)
class Catalogue:
    """All rules, by code, and their requirements, by id."""

    rules: Mapping[str, Rule]
    requirements: Mapping[str, Requirement]

    @classmethod
    def from_tables(cls, tables: Mapping[str, object]) -> "Catalogue":
        """Return the catalogue of parsed TOML, which has one table for each rule code.

        Raises:
            RuleError: a table lacks a member, or has one that is unknown or invalid.
        """
        rules = {code: _rule(code, _table(code, table)) for code, table in tables.items()}
        requirements: dict[str, Requirement] = {}
        for rule in rules.values():
            for requirement in rule.requirements:
                key = f"{rule.code}/{requirement.id}"
                requirements[key] = requirement
        return cls(rules, requirements)


def _rule(code: str, table: Mapping[str, object]) -> Rule:
    texts = {key: _text(code, table, key) for key in ("name", "summary", "why", "example", "instead")}
    requirements = _table(code, table.get("requirements"))
    if not requirements:
        raise RuleError(f"{code}: no requirements")
    if stray := set(table) - set(texts) - {"requirements", "opt-in"}:
        raise RuleError(f"{code}: unknown member {sorted(stray)[0]!r}")
    opt_in = table.get("opt-in", False)
    if not isinstance(opt_in, bool):
        raise RuleError(f"{code}: opt-in is true or false")
    return Rule(
        code,
        **texts,
        requirements=tuple(_requirement(code, id, _table(id, row)) for id, row in requirements.items()),
        opt_in=opt_in,
    )


def _requirement(code: str, id: str, row: Mapping[str, object]) -> Requirement:
    where = f"{code} {id}"
    known = {"text", "blame", "keyword", "since", "until", "source", "unobservable"}
    if stray := set(row) - known:
        raise RuleError(f"{where}: unknown member {sorted(stray)[0]!r}")
    keywords = _keywords(where, row)
    sources = _sources(where, row, keywords)
    blame = _text(where, row, "blame")
    if blame not in ("client", "server", "either"):
        raise RuleError(f"{where}: blame is client, server or either, not {blame!r}")
    unobservable = row.get("unobservable", "")
    return Requirement(
        id,
        code,
        _text(where, row, "text"),
        blame,
        keywords=keywords,
        sources=sources,
        unobservable=str(unobservable),
    )


def _keywords(where: str, row: Mapping[str, object]) -> dict[str, Keyword]:
    """Return the keyword for each revision, from a single word or from a table of changes."""
    keyword = row.get("keyword")
    if "since" in row and not isinstance(keyword, str):
        raise RuleError(f"{where}: since goes with a single keyword, not with one for each revision")
    steps = {str(row.get("since", REVISIONS[0])): keyword} if isinstance(keyword, str) else keyword
    found = _steps(where, _table(f"{where}: keyword", steps))
    ended: set[str] = set()
    if "until" in row:
        try:
            end = str(row["until"])
            ended.update(protocol_versions(end)[len(until(end)) :])
        except ValueError:
            raise RuleError(f"{where}: until is not a published revision") from None
    for word in found.values():
        if word not in get_args(Keyword):
            raise RuleError(f"{where}: keyword is one of {', '.join(get_args(Keyword))}, not {word!r}")
    return cast("dict[str, Keyword]", {r: word for r, word in found.items() if r not in ended})


def _sources(where: str, row: Mapping[str, object], revisions: Iterable[str]) -> dict[str, str]:
    source = row.get("source")
    if isinstance(source, str):
        return {r: _url(source, r) for r in revisions}
    pages = _steps(where, _table(f"{where}: source", source))
    missing = [r for r in revisions if r not in pages]
    if missing:
        raise RuleError(f"{where}: no source for {missing[0]}")
    return {r: _url(pages[r], r) for r in revisions}


def _steps(where: str, table: Mapping[str, object]) -> Mapping[str, str]:
    """Return the value for each revision, from a table whose keys mean "from this revision on"."""
    steps: list[tuple[str, str]] = []
    for first, value in table.items():
        if first not in VERSIONS or not isinstance(value, str):
            raise RuleError(f"{where}: {first!r} is not a published revision, or its value is not a string")
        steps.append((first, value))
    return _spread(tuple(steps))


@cache  # Few steps differ between requirements: without it all tables take 1.5 ms more.
def _spread(steps: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for first, value in sorted(steps, key=lambda step: VERSIONS.index(step[0])):
        found.update(dict.fromkeys(since(first), value))
    return found


def _url(page: str, revision: str) -> str:
    specification = ACP_SPECIFICATION if revision in ACP else SPECIFICATION
    url = page if page.startswith("https://") else specification + page
    return url.replace("{revision}", revision).replace("{version}", revision.replace("acp-", "v"))


def _table(where: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise RuleError(f"{where}: a table is needed")
    return cast("Mapping[str, object]", value)


def _text(where: str, table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise RuleError(f"{where}: {key} is missing or empty")
    return value.strip()

"""Rules as data: what each requirement says, how strongly in which revision, and its source.

A *rule* is what users see, name and switch off (``PROTO-005``). It is based on one or more
*requirements* (``R-028``), each one sentence of the specification with its own level per revision.
A check reports the requirement; severity and source follow from here, so that nobody sets a
severity by hand.

The tables come from ``rules/<family>.toml``; this module reads no files. In a requirement, ``keyword``
and ``source`` are either one text for all revisions or a table whose keys mean "from this revision on":
``keyword = { "2024-11-05" = "SHOULD", "2025-06-18" = "MUST" }``. ``since`` and ``until`` bound a single
keyword; ``until`` names the first revision in which it no longer holds. A source is a page of the
specification with its section (``basic/lifecycle#initialization``) or a full URL.

A requirement may hold in versions of the Agent Client Protocol, alone (``since = "acp-1"``) or beside
revisions of MCP (a table with keys of both). "From this revision on" never leads from one to the other.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, cast, get_args

from mcpproxy.base.slotted import slotted
from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.revisions import ACP, REVISIONS, VERSIONS, line, since, until

Keyword = Literal[
    "MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "schema", "derived", "ambiguous", "info", "contract"
]
Level = Literal["error", "warning", "info"]

SEVERITY: Final[Mapping[Keyword, Level | None]] = {
    "MUST": "error",
    "MUST NOT": "error",
    "schema": "error",
    "contract": "error",  # not the specification's: what users hold their own peers to
    "SHOULD": "warning",
    "SHOULD NOT": "warning",
    "derived": "warning",
    "ambiguous": "warning",
    "info": "info",
    "MAY": None,  # a permission: it keeps other rules quiet and is never broken itself
}

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/{revision}/"
ACP_SPECIFICATION: Final = "https://agentclientprotocol.com/protocol/{version}/"

_RANK: Final[Mapping[Level, int]] = {"info": 0, "warning": 1, "error": 2}


class RuleError(McpProxyError, ValueError):
    """A rule table cannot be used; the text says which rule and why."""


@slotted(frozen=True)
class Requirement:
    """One sentence of the specification that a rule rests on.

    ``keywords`` maps each revision in which it holds to its strength there. ``sources`` maps each
    of those revisions to the URL of page and section. ``unobservable`` says why the wire cannot
    show a breach, and is empty for a requirement that has a check.
    """

    id: str
    rule: str
    text: str
    blame: str
    keywords: Mapping[str, Keyword]
    sources: Mapping[str, str]
    unobservable: str = ""

    def severity(self, candidates: Iterable[str]) -> Level | None:
        """How bad a breach is when the session's revision is one of ``candidates``.

        ``None`` unless the requirement holds in every one of them: what a peer may be allowed to
        do is not held against it. Among several, the mildest counts.
        """
        levels: list[Level | None] = [
            SEVERITY[self.keywords[r]] if r in self.keywords else None for r in candidates
        ]
        found: list[Level] = [level for level in levels if level is not None]
        if not found or len(found) < len(levels):
            return None
        return min(found, key=lambda level: _RANK[level])

    def source(self, candidates: Iterable[str]) -> str:
        """The page and section to cite: that of the newest candidate revision."""
        return self.sources[max((r for r in candidates if r in self.sources), key=VERSIONS.index)]


@slotted(frozen=True)
class Rule:
    """What ``mcpproxy explain`` shows. ``example`` is the wire, one message a line.

    An ``opt_in`` rule says nothing unless it is asked for.
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
        """The strengths of its requirements in ``revision``, strongest first."""
        found: set[Keyword] = {r.keywords[revision] for r in self.requirements if revision in r.keywords}
        if len(found) < 2:
            return tuple(found)
        # A permission comes last, after what is only worth a note.
        return tuple(sorted(found, key=lambda k: (-_RANK[SEVERITY[k] or "info"], SEVERITY[k] is None, k)))


@slotted(frozen=True)
class Catalogue:
    """All rules, by code, and their requirements, by id."""

    rules: Mapping[str, Rule]
    requirements: Mapping[str, Requirement]

    @classmethod
    def from_tables(cls, tables: Mapping[str, object]) -> "Catalogue":
        """Build it from parsed TOML: one table per rule code.

        Raises:
            RuleError: a table lacks a member, or has one that is not understood.
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
    """The strength per revision: one word throughout, or a table of steps."""
    keyword = row.get("keyword")
    if "since" in row and not isinstance(keyword, str):
        raise RuleError(f"{where}: a keyword per revision leaves no room for since")
    steps = {str(row.get("since", REVISIONS[0])): keyword} if isinstance(keyword, str) else keyword
    found = _steps(where, _table(f"{where}: keyword", steps))
    over: set[str] = set()
    if "until" in row:
        try:
            end = str(row["until"])
            over.update(line(end)[len(until(end)) :])
        except ValueError:
            raise RuleError(f"{where}: until names a published revision") from None
    for word in found.values():
        if word not in get_args(Keyword):
            raise RuleError(f"{where}: keyword {word!r} is none of {', '.join(get_args(Keyword))}")
    return cast("dict[str, Keyword]", {r: word for r, word in found.items() if r not in over})


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
    """Spread a table keyed by "from this revision on" over all revisions it reaches."""
    steps: list[tuple[str, str]] = []
    for first, value in table.items():
        if first not in VERSIONS or not isinstance(value, str):
            raise RuleError(f"{where}: {first!r} is no published revision, or its value is no text")
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

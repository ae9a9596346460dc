"""Rules as data: what each requirement says, how strong it is in each revision, and its source.

A *rule* (``PROTO-005``) is the unit that users see in findings and can switch off. It is based on one or more
*requirements* (``R-028``). A requirement is one sentence of the specification, with a keyword for each
revision. A check reports the requirement that is broken. The catalogue gives the finding its severity and
source.

The tables come from ``rules/<family>.toml``; this module reads no files. In a requirement, ``keyword``
and ``source`` are either one text for all revisions or a table whose keys mean "from this revision on":
``keyword = { "2024-11-05" = "SHOULD", "2025-06-18" = "MUST" }``. ``since`` names the first revision of a
single keyword; without it that is the first revision of MCP. ``until`` names the first revision to which the
requirement no longer applies. A source is a page of the specification with its section
(``basic/lifecycle#initialization``) or a full URL. ``softer.info`` and ``softer.warning`` say when and why a
check reports a violation at a level below that of the keyword.

A requirement may apply to versions of the Agent Client Protocol, alone (``since = "acp-1"``) or together with
revisions of MCP (a table with keys of both). "From this revision on" stays within one protocol.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, cast, get_args

from mcpproxy.base.slotted import field, slotted
from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.revisions import ACP, REVISIONS, VERSIONS, since

Keyword = Literal[
    "MUST",
    "MUST NOT",
    "SHOULD",
    "SHOULD NOT",
    "MAY",
    "schema",  # only the schema says it
    "derived",  # the text implies it without saying it
    "ambiguous",  # the page and the schema differ, or the text can be read in two ways
    "info",  # nothing is broken: for example, what is used is deprecated
    "contract",  # see SEVERITY
    "host",  # see SEVERITY
]
Level = Literal["error", "warning", "info"]

SEVERITY: Final[Mapping[Keyword, Level | None]] = {
    "MUST": "error",
    "MUST NOT": "error",
    "schema": "error",
    "contract": "error",  # not from the specification: users require it of their own clients and servers
    "host": "warning",  # not from the specification either: some hosts (clients of servers) do not accept it
    "SHOULD": "warning",
    "SHOULD NOT": "warning",
    "derived": "warning",
    "ambiguous": "warning",
    "info": "info",
    "MAY": None,  # a permission cannot be broken; it is listed to explain why other rules do not report
}

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/{revision}/"
ACP_SPECIFICATION: Final = "https://agentclientprotocol.com/protocol/{version}/"

_KEYWORDS: Final = frozenset(get_args(Keyword))
_RULE_TEXTS: Final = ("name", "summary", "why", "example", "instead")
_RULE_MEMBERS: Final = frozenset((*_RULE_TEXTS, "requirements", "opt-in"))
_REQUIREMENT_MEMBERS: Final = frozenset(
    ("text", "blame", "keyword", "since", "until", "source", "unobservable", "softer")
)
RANK: Final[Mapping[Level, int]] = {"info": 0, "warning": 1, "error": 2}
"""The order of the levels, from mild to severe."""


def family(code: str) -> str:
    """Return the family of a rule or requirement: ``PROTO`` for ``PROTO-007`` and for ``PROTO-007/R-008``."""
    return code.partition("/")[0].rpartition("-")[0]


class RuleError(McpProxyError, ValueError):
    """A rule table cannot be used. The text names the rule and the reason."""


@slotted(frozen=True)
class Requirement:
    """One sentence of the specification that a rule is based on.

    ``keywords`` has the keyword for each revision in which the requirement applies; ``pages`` has the page
    and section for the same revisions, as the table names them. ``blame`` is who can break the requirement:
    ``client``, ``server`` or ``either``. ``unobservable`` says why no recording can show a violation; it is
    empty for a requirement that has a check. ``softer`` says when and why a violation has a level below that
    of the keyword: ``{"info": "for null: many clients read it as the end of the list"}``.
    """

    id: str
    rule: str
    text: str
    blame: str
    keywords: Mapping[str, Keyword]
    pages: Mapping[str, str]
    unobservable: str = ""
    softer: Mapping[Level, str] = field(default_factory=dict[Level, str])

    @property
    def sources(self) -> dict[str, str]:
        """The URL of the page and section for each revision in which the requirement applies."""
        return {revision: _url(page, revision) for revision, page in self.pages.items()}

    def severity(self, candidates: Iterable[str]) -> Level | None:
        """Return the severity of a violation in a session whose revision is one of ``candidates``.

        If the requirement does not apply in one of them, or is only a permission (``MAY``) there, the
        severity is ``None``, because the session may have that revision. It is ``None``, too, if there are no
        ``candidates``. If the severities differ, the mildest counts.
        """
        levels: list[Level | None] = [
            SEVERITY[self.keywords[revision]] if revision in self.keywords else None
            for revision in candidates
        ]
        applicable: list[Level] = [level for level in levels if level is not None]
        if not applicable or len(applicable) < len(levels):
            return None
        return min(applicable, key=lambda level: RANK[level])

    def source(self, candidates: Iterable[str], asked: str = "") -> str:
        """Return the URL to cite for a session whose revision is one of ``candidates``.

        It is the URL for the revision ``asked``, which the client requested, if the requirement applies in
        it and it is a candidate; else for the newest candidate in which the requirement applies.

        Raises:
            ValueError: the requirement applies in none of ``candidates``.
        """
        names = [name for name in candidates if name in self.pages]
        cited = asked if asked in names else max(names, key=VERSIONS.index)
        return _url(self.pages[cited], cited)


@slotted(frozen=True)
class Rule:
    """One rule, with the texts that ``mcpproxy explain`` shows.

    ``example`` has one message on each line. ``instead`` says what to do instead of what the example shows.
    An ``opt_in`` rule is off unless the user enables it.
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
        """Return the keywords of the rule's requirements in ``revision``, strongest first."""
        if len(self.requirements) == 1:
            keyword = self.requirements[0].keywords.get(revision)
            return (keyword,) if keyword else ()
        keywords: set[Keyword] = {
            requirement.keywords[revision]
            for requirement in self.requirements
            if revision in requirement.keywords
        }
        if len(keywords) < 2:
            return tuple(keywords)
        # ``MAY`` comes last, after ``info``.
        return tuple(
            sorted(
                keywords,
                key=lambda word: (-RANK[SEVERITY[word] or "info"], SEVERITY[word] is None, word),
            )
        )

    def level(self, revision: str) -> Level | None:
        """Return the most severe level of a violation in ``revision``; ``None`` if it has no level."""
        keywords = self.keywords(revision)
        return SEVERITY[keywords[0]] if keywords else None


@slotted(frozen=True)
class Catalogue:
    """All rules, by code, and their requirements, by ``code/id``."""

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


# Each of these functions raises ``RuleError`` if its table is not valid.


def _rule(code: str, table: Mapping[str, object]) -> Rule:
    """Return the rule in a parsed table."""
    texts = {key: _text(code, table, key) for key in _RULE_TEXTS}
    requirements = _table(code, table.get("requirements"))
    if not requirements:
        raise RuleError(f"{code}: no requirements")
    if unknown_members := table.keys() - _RULE_MEMBERS:
        raise RuleError(f"{code}: unknown member {sorted(unknown_members)[0]!r}")
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
    """Return the requirement in a parsed table of the rule ``code``."""
    where = f"{code} {id}"
    if unknown_members := row.keys() - _REQUIREMENT_MEMBERS:
        raise RuleError(f"{where}: unknown member {sorted(unknown_members)[0]!r}")
    keywords = _keywords(where, row)
    pages = _pages(where, row, keywords)
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
        pages=pages,
        unobservable=str(unobservable),
        softer=_softer(where, row),
    )


def _softer(where: str, row: Mapping[str, object]) -> dict[Level, str]:
    """Return when and why a violation has a level below that of the keyword."""
    table = _table(f"{where}: softer", row.get("softer", {}))
    if unknown_levels := table.keys() - {"info", "warning"}:
        raise RuleError(f"{where}: softer is info or warning, not {sorted(unknown_levels)[0]!r}")
    return {cast("Level", level): _text(f"{where}: softer", table, level) for level in table}


def _keywords(where: str, row: Mapping[str, object]) -> dict[str, Keyword]:
    """Return the keyword for each revision, from a single keyword or from a table of keywords."""
    value = row.get("keyword")
    if "since" in row and not isinstance(value, str):
        raise RuleError(f"{where}: since goes with a single keyword, not with one for each revision")
    steps = {str(row.get("since", REVISIONS[0])): value} if isinstance(value, str) else value
    keyword_by_revision = dict(_steps(where, _table(f"{where}: keyword", steps)))
    for keyword in keyword_by_revision.values():
        if keyword not in _KEYWORDS:
            raise RuleError(f"{where}: keyword is one of {', '.join(get_args(Keyword))}, not {keyword!r}")
    if "until" in row:
        try:
            ended_revisions = since(str(row["until"]))
        except ValueError:
            raise RuleError(f"{where}: until is not a published revision") from None
        for revision in ended_revisions:
            keyword_by_revision.pop(revision, None)
    return cast("dict[str, Keyword]", keyword_by_revision)


def _pages(where: str, row: Mapping[str, object], revisions: Iterable[str]) -> dict[str, str]:
    """Return the page and section for each of ``revisions``."""
    source = row.get("source")
    if isinstance(source, str):
        return dict.fromkeys(revisions, source)
    pages = _steps(where, _table(f"{where}: source", source))
    missing = [revision for revision in revisions if revision not in pages]
    if missing:
        raise RuleError(f"{where}: no source for {missing[0]}")
    return {revision: pages[revision] for revision in revisions}


def _steps(where: str, table: Mapping[str, object]) -> Mapping[str, str]:
    """Return the value for each revision, from a table whose keys mean "from this revision on"."""
    for first, value in table.items():
        if first not in VERSIONS or not isinstance(value, str):
            raise RuleError(f"{where}: {first!r} is not a published revision, or its value is not a string")
    return _spread(tuple(cast("Mapping[str, str]", table).items()))


@cache  # Most requirements have the same steps. Without the cache all tables take 1.5 ms more.
def _spread(steps: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the value for each revision: each step's value applies until the next step."""
    value_by_revision: dict[str, str] = {}
    for first, value in sorted(steps, key=lambda step: VERSIONS.index(step[0])):
        value_by_revision.update(dict.fromkeys(since(first), value))
    return value_by_revision


def _url(page: str, revision: str) -> str:
    specification = ACP_SPECIFICATION if revision in ACP else SPECIFICATION
    url = page if page.startswith("https://") else specification + page
    return url.replace("{revision}", revision).replace("{version}", revision.replace("acp-", "v"))


def _table(where: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise RuleError(f"{where}: a table is needed")
    return cast("dict[str, object]", value)


def _text(where: str, table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise RuleError(f"{where}: {key} is missing or empty")
    return text

"""``mcpproxy rules``: every rule, and how strict each protocol revision is about it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from mcpproxy.base.style import SEVERITY_COLOUR, Style, count
from mcpproxy.cli.terminal import emit, terminal_style
from mcpproxy.judge.ruleset.selection import known_rules, unknown
from mcpproxy.protocol.revisions import ACP, REVISIONS, VERSIONS
from mcpproxy.protocol.rules import SEVERITY, Catalogue, Keyword, Rule, family
from mcpproxy.read.reports.rule_json import as_object
from mcpproxy.read.reports.text_table import fitted, table, table_width, without_day

if TYPE_CHECKING:
    from mcpproxy.cli.arguments import Parser

EPILOG = """\
  mcpproxy rules --family PROTO

error    the specification says MUST, or its schema fixes it
warning  it says SHOULD, or the rule follows from other sentences
info     legal but worth knowing
allowed  it says MAY: a permission, which limits other rules
-        the revision has no such requirement

acp-1 and acp-2 are the versions of the Agent Client Protocol, which is detected automatically."""


def add_folders(parser: "Parser", verb: str) -> None:
    """Add the option ``--rules``; ``verb`` is what the command does with the rules."""
    parser.add_argument(
        "--rules",
        dest="folders",
        action="append",
        default=[],
        metavar="DIR",
        help=f"{verb} the rules in this folder too",
    )


def run(argv: list[str]) -> int:
    """Print the rules, those of one family, or with ``--coverage`` the requirements.

    Raises:
        McpProxyError: a family is unknown, or a folder has no usable rules.
    """
    options = _Options()
    if argv:
        _read_arguments(argv, options)
    catalogue = known_rules(options.folders)
    as_json = options.format == "json"
    if options.coverage:
        return _print_coverage(catalogue, as_json=as_json)
    rules = sorted(catalogue.rules.values(), key=lambda rule: rule.code)
    if options.family is not None:
        rules = [rule for rule in rules if family(rule.code).casefold() == options.family.strip().casefold()]
        if not rules:
            raise unknown("--family", catalogue, options.family)
    if as_json:
        import json

        emit([json.dumps({"rules": [as_object(rule) for rule in rules]}, indent=2)])
    else:
        lines = as_tables(rules, terminal_style())
        if rules:
            lines += ["", f"{count(len(rules), 'rule')}. What one means: mcpproxy explain {rules[0].code}"]
        emit(["\n".join(lines)])  # faster than line by line
    return 0


class _Options:
    """The values of the arguments. Without arguments, argparse is not used, and these are the defaults."""

    def __init__(self) -> None:
        self.format = "text"
        self.family: str | None = None
        self.coverage = False
        self.folders: list[str] = []


def _read_arguments(argv: list[str], options: _Options) -> None:
    from mcpproxy.cli.arguments import Parser  # argparse takes a tenth of the time of the whole command

    parser = Parser("rules", "List the rules and their levels per protocol revision.", EPILOG)
    parser.add_argument("--format", choices=("text", "json"), help="what to print (default: text)")
    parser.add_argument("--family", metavar="NAME", help="only one family, such as PROTO")
    parser.add_argument(
        "--coverage", action="store_true", help="list the requirements instead, each with its rules"
    )
    add_folders(parser, "list")
    parser.parse_into(argv, options)


def _print_coverage(catalogue: Catalogue, *, as_json: bool) -> int:
    """Print the requirements with their rules, and return the exit code."""
    import json

    from mcpproxy.read.reports import coverage

    rows = coverage.rows(catalogue)
    emit(
        [json.dumps(coverage.as_objects(rows), indent=2)]
        if as_json
        else coverage.lines(rows, terminal_style())
    )
    return 0


def level_words(rule: Rule) -> dict[str, str]:
    """Return the word for the level of ``rule`` in each version to which it applies.

    For a permission, the word is ``allowed``.
    """
    keywords: Mapping[str, Keyword]
    if len(rule.requirements) == 1:
        keywords = rule.requirements[0].keywords
    else:
        keywords = {version: found[0] for version in VERSIONS if (found := rule.keywords(version))}
    return {version: SEVERITY[keyword] or "allowed" for version, keyword in keywords.items()}


def as_tables(rules: Iterable[Rule], style: Style) -> list[str]:
    """Return a line per rule: code, name, and its level in each revision of the protocols that occur.

    On a narrow terminal each protocol has a table of its own.
    """
    words = [(rule, level_words(rule)) for rule in rules]
    applicable = {version for _, word_by_version in words for version in word_by_version}
    protocols = [versions for versions in (REVISIONS, ACP) if not applicable.isdisjoint(versions)]
    rows = _rows(words, tuple(chain(*protocols)))
    if style.width is None or table_width(rows) <= style.width:
        return _as_table(rows, style)
    lines: list[str] = []
    for versions in protocols:
        rows = _rows(
            [(rule, levels) for rule, levels in words if not levels.keys().isdisjoint(versions)], versions
        )
        rows[0] = tuple(map(without_day, rows[0]))
        narrow = fitted(rows, style, cut=("NAME",), left_out=rows[0][2:-1], least=20)
        lines += [*([""] if lines else []), *_as_table(narrow, style)]
    return lines


def _rows(words: Iterable[tuple[Rule, Mapping[str, str]]], versions: Sequence[str]) -> list[Sequence[str]]:
    """Return the headings, and the cells of each rule with its level in each of ``versions``."""
    cells = [
        (rule.code, rule.name, *[levels.get(version, "-") for version in versions]) for rule, levels in words
    ]
    return [("RULE", "NAME", *versions), *cells]


def _as_table(rows: Sequence[Sequence[str]], style: Style) -> list[str]:
    """Return the lines of a table of rules, with the levels in their colours."""

    def paint(column: int, cell: str, padded: str) -> str:
        colour = SEVERITY_COLOUR.get(cell) if column > 1 else None
        return style.paint(padded, colour) if colour else padded

    return table(rows, style, paint=paint if style.colour else None)

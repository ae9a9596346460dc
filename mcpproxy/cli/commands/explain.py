"""``mcpproxy explain``: describe a rule to a user who has seen its code in a finding."""

import os
from collections.abc import Iterator

from mcpproxy.base import paths
from mcpproxy.base.style import PLAIN, SEVERITY_COLOUR, Style, count
from mcpproxy.cli.calls.json_layout import laid_out
from mcpproxy.cli.calls.prose import PROSE_COLUMNS, heading, prose
from mcpproxy.cli.commands.rules import add_folders, level_words
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import UsageError
from mcpproxy.judge.ruleset.selection import known_rules, resolve, unknown
from mcpproxy.protocol.revisions import ACP, REVISIONS, VERSIONS
from mcpproxy.protocol.rules import Catalogue, Requirement, Rule

_EXAMPLES = """\
  mcpproxy explain PROTO-007
  mcpproxy explain HOST-008 session.jsonl"""


def run(argv: list[str]) -> int:
    """Explain each named rule, or the rules that the latest recording breaks.

    Raises:
        McpProxyError: the arguments cannot be used, or the recording cannot be read or breaks no known rule.
    """
    words, folders = argv, list[str]()
    if any(argument.startswith("-") for argument in argv):
        words, folders = _read_arguments(argv)
    catalogue = known_rules(folders)
    recordings = [name for name in words if name.endswith(".jsonl") or os.path.isfile(name)]
    names = [name for name in words if name not in recordings]
    if len(names) > 1 and not recordings and not resolve(catalogue, names[-1]):
        recordings = _by_handle(names[-1])
        names = names[: len(names) - len(recordings)]
    if recordings and not names:
        raise UsageError("explain", "a recording, and no rule", f"mcpproxy explain HOST-008 {recordings[0]}")
    if len(recordings) > 1:
        raise UsageError("explain", "several recordings", "name one")
    names = names or _broken_rules(catalogue)
    rules: list[Rule] = []
    for name in names:
        codes = resolve(catalogue, name)
        if not codes:
            hint = "" if folders else " (for a rule of your own: --rules DIR)"
            raise unknown("explain", catalogue, name, hint=hint)
        if len(codes) > 1:
            raise UsageError("explain", f"{name} is a family of rules", f"see mcpproxy rules --family {name}")
        rules += (catalogue.rules[code] for code in codes)
    style = terminal_style()
    if recordings and (others := [rule.code for rule in rules if not _is_about_hosts(rule)]):
        raise UsageError("explain", f"{others[0]} is not about hosts", "leave the recording out")
    for number, rule in enumerate(rules):
        if number > 0:
            emit([""])
        emit(lines(rule, style))
        if _is_about_hosts(rule):
            from mcpproxy.cli.calls import explained_hosts  # for a few rules only

            emit(explained_hosts.lines(rule, recordings[0] if recordings else "", style))
    return 0


def _by_handle(name: str) -> list[str]:
    """Return the recording that a handle (see ``find_traces``) means; empty if it means none or several."""
    from mcpproxy.cli import find_traces  # not needed for names of rules

    try:
        path = find_traces.one(name)
    except UsageError:
        return []
    return [path] if os.path.exists(path) else []


def _broken_rules(catalogue: Catalogue) -> list[str]:
    """Return the codes of the rules that the latest recording breaks.

    Raises:
        UsageError: there is no recording, it has no findings, or their rules are not known.
    """
    from mcpproxy.cli import find_traces  # not needed for names of rules
    from mcpproxy.read.view.view import open_view

    example = "name a rule: mcpproxy explain PROTO-007; all: mcpproxy rules"
    if not find_traces.recent(paths.state_dir()):
        raise UsageError("explain", "nothing recorded yet", example)
    path = find_traces.one(None, tells=False)
    with open_view(path) as view:
        broken = [group.rule for group in view.findings.by_rule()]
    if not broken:
        raise UsageError("explain", f"{path} has no findings", example)
    known = [rule for rule in broken if rule in catalogue.rules]
    if not known:
        fact = f"{path} breaks {', '.join(broken)}, of which nothing is known here"
        raise UsageError("explain", fact, "name the folder of their rules: --rules DIR")
    tell(f"{count(len(known), 'rule')} broken in the latest recording: {path}")
    return known


def _read_arguments(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the words that name rules or a recording, and the folders of custom rules."""
    from mcpproxy.cli.arguments import Parser  # argparse takes a tenth of the time of the whole command

    description = "Explain a rule: what it means, why it matters, what to do instead."
    parser = Parser("explain", description, _EXAMPLES)
    add, broken = parser.add_argument, "those that the latest recording breaks"
    add("rules", nargs="*", metavar="RULE", help=f"a code (PROTO-007) or a name (default: {broken})")
    add("recording", nargs="?", metavar="TRACE", help="of a rule about hosts: write its tools in another way")
    add_folders(parser, "explain")
    options = parser.parse_args(argv)
    return options.rules, options.folders


def lines(rule: Rule, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines that explain ``rule``."""
    columns = min(style.width or PROSE_COLUMNS, PROSE_COLUMNS)
    yield f"{style.paint(rule.code, 'bold')} {style.paint(rule.name, 'bold')}"
    yield ""
    yield from prose(rule.summary, columns)
    yield from heading("Levels", style)
    for first_revision, last_revision, severity, keywords in _spans(rule):
        span = first_revision if first_revision == last_revision else f"{first_revision} to {last_revision}"
        wording = f"  {style.paint(f'({keywords})', 'dim')}" if keywords else ""
        colour = SEVERITY_COLOUR.get(severity or "", "dim")
        word = style.paint(f"{severity:<7}" if severity else "does not apply", colour)
        yield f"  {span:<24}  {word}{wording}"
    yield from _softer_lines(rule, columns)
    yield from heading("Why it matters", style)
    yield from prose(rule.why, columns)
    yield from heading("Meets it" if _is_about_hosts(rule) else "Breaks it", style)
    for line in rule.example.splitlines():
        yield from _example_lines(line, columns)
    yield from heading("Do instead", style)
    yield from prose(rule.instead, columns)
    yield from heading("Rests on", style)
    for requirement in rule.requirements:
        yield from _requirement_lines(requirement, columns, style)


def _is_about_hosts(rule: Rule) -> bool:
    """Whether only hosts, not a specification, ask for what the rule says.

    A session does not break such a rule, but meets it.
    """
    return all(word == "host" for requirement in rule.requirements for word in requirement.keywords.values())


def _softer_lines(rule: Rule, columns: int) -> Iterator[str]:
    """Yield sentences about when and why a violation has a lower level than its requirement."""
    softer = [requirement for requirement in rule.requirements if requirement.softer]
    for requirement in softer:
        which = f" ({requirement.id})" if len(rule.requirements) > 1 else ""
        for level, why in requirement.softer.items():
            noun = f"{'an' if level == 'info' else 'a'} {level}{which}"
            rest = why.removeprefix("always")
            yield from prose(f"but always {noun}{rest}" if rest != why else f"but {noun} {why}", columns)


def _example_lines(line: str, columns: int) -> Iterator[str]:
    """Yield a message of an example: on one line, or if that is too long, laid out below its sender."""
    sender, _, text = line.partition(": ")
    if len(line) + 2 <= columns or not text.startswith(("{", "[")):
        yield f"  {line}"
        return
    yield f"  {sender}:"
    yield from (f"    {part}" for part in laid_out(text, columns - 4))


def _spans(rule: Rule) -> list[tuple[str, str, str | None, str]]:
    """Return ranges of revisions in which the rule has the same level: first, last, level, keywords (MUST).

    The level is ``None`` where the rule does not apply. A protocol that the rule does not cover is left out.
    """
    words = level_words(rule)
    spans: list[tuple[str, str, str | None, str]] = []
    for versions in (REVISIONS, ACP):
        runs: list[tuple[str, str, str | None, str]] = []
        for revision in versions:
            severity, keywords = words.get(revision), ", ".join(rule.keywords(revision))
            if runs and runs[-1][2:] == (severity, keywords):
                runs[-1] = runs[-1][0], revision, severity, keywords
            else:
                runs.append((revision, revision, severity, keywords))
        spans += runs if any(severity for _, _, severity, _ in runs) else []
    return spans


def _requirement_lines(requirement: Requirement, columns: int, style: Style) -> Iterator[str]:
    """Yield a requirement's sentence, whom it binds, why it is not checked, and its pages, newest first."""
    bound = "both peers" if requirement.blame == "either" else f"the {requirement.blame}"
    yield from prose(f"{requirement.id} (binds {bound}): {requirement.text}", columns)
    if requirement.unobservable:
        yield from prose(f"Not checked: {requirement.unobservable}", columns, indent="    ")
    for source in dict.fromkeys(
        requirement.sources[r] for r in reversed(VERSIONS) if r in requirement.sources
    ):
        yield f"    {style.paint(source, 'cyan')}"

"""The hosts that a user names with ``--hosts``, so that a session is judged by the known facts about them."""

import datetime
from collections.abc import Iterable, Iterator

from mcpproxy.errors import UsageError, nearest
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.checks.hosts.facts import GRADES, SEEN, Grade, HostChoice, HostFact, KnownHost
from mcpproxy.judge.checks.hosts.family import host_checks
from mcpproxy.judge.ruleset import host_facts

ALL = "all"
"""The word that names all known hosts."""


def chosen(values: Iterable[str], grade: str = "", option: str = "--hosts") -> HostChoice:
    """Return the hosts in ``values``: lists of ids, each with a version (``codex@0.171.0``) or without.

    ``grade`` is the lowest grade of facts that count (``GRADES``); empty for ``source``. Errors name
    ``option``.

    Raises:
        UsageError: no host is named, a host or grade is unknown, or a version does not begin with numbers.
        RuleError: a table of facts is not valid.
    """
    known = {host.id: host for host in host_facts.load(today())}
    names = [name for value in values for name in map(str.strip, value.split(",")) if name]
    if not names:
        raise UsageError(option, "no host is named", f"name some of {', '.join(known)}, {SEEN} or {ALL}")
    grades: dict[str, Grade] = {known_grade: known_grade for known_grade in GRADES}
    lowest_grade = grades.get(grade or "source")
    if lowest_grade is None:
        raise UsageError(f"{option}-grade", f"{grade!r} is not a grade", f"use one of {', '.join(GRADES)}")
    versions = dict(pair for name in names for pair in _named_hosts(name, known, option))
    return HostChoice(
        tuple((known[id], version) for id, version in versions.items()),
        tuple(known.values()) if SEEN in names else (),
        lowest_grade,
    )


def family(values: Iterable[str], grade: str = "", option: str = "--hosts") -> RuleFamily:
    """Return the checks of the family HOST for the hosts that ``chosen`` returns for these arguments.

    Raises:
        UsageError, RuleError: as ``chosen``.
    """
    return host_checks(chosen(values, grade, option))


def facts_of(rule: str) -> Iterator[tuple[KnownHost, HostFact]]:
    """Yield the facts that a rule reports, each with its host.

    Raises:
        RuleError: a table of facts is not valid.
    """
    for host in host_facts.load(today()):
        for fact in host.facts:
            if host_facts.RULES[fact.kind][0] == rule:
                yield host, fact


def today() -> datetime.date:
    """Return the current date (UTC), by which the age of facts is computed."""
    return datetime.datetime.now(datetime.UTC).date()


def _named_hosts(name: str, known: dict[str, KnownHost], option: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the version (empty if none is named) of each host that ``name`` means.

    Raises:
        UsageError: it means no host, or its version has no numbers.
    """
    id, sign, version = name.partition("@")
    if name == ALL:
        yield from ((known_id, "") for known_id in known)
    elif id in known:
        if sign and not host_facts.numbers_of(version):
            fact = f"{version!r} is not a version of {known[id].name}"
            raise UsageError(option, fact, f"write its numbers: {id}@1.2.3, or {id} alone")
        yield id, version
    elif name != SEEN:
        guess = nearest(id, [*known, SEEN, ALL])
        next_step = f"did you mean {guess}?" if guess else f"use one of {', '.join(known)}, {SEEN} or {ALL}"
        raise UsageError(option, f"nothing is known of a host {id!r}", next_step)

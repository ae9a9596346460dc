"""The hosts that a user names, for a judgement by what is known of them."""

import datetime
from collections.abc import Iterable, Iterator

from mcpproxy.errors import UsageError, nearest
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.checks.hosts.facts import GRADES, SEEN, Grade, HostChoice, HostFact, KnownHost
from mcpproxy.judge.checks.hosts.family import host_checks
from mcpproxy.judge.ruleset import host_facts

ALL = "all"


def chosen(values: Iterable[str], grade: str = "", option: str = "--hosts") -> HostChoice:
    """Return the hosts in ``values``: lists of ids, each with a version (``codex@0.171.0``) or without.

    ``grade`` is the worst grade of the facts; empty for ``source``. ``option`` is what errors name.

    Raises:
        UsageError: there is no such host or grade.
        RuleError: a table of facts is not valid.
    """
    known = {host.id: host for host in host_facts.load(today())}
    names = [name for value in values for name in map(str.strip, value.split(",")) if name]
    if not names:
        raise UsageError(option, "no host is named", f"name some of {', '.join(known)}, {SEEN} or {ALL}")
    grades: dict[str, Grade] = {each: each for each in GRADES}
    least = grades.get(grade or "source")
    if least is None:
        raise UsageError(f"{option}-grade", f"{grade!r} is not a grade", f"use one of {', '.join(GRADES)}")
    named = dict(each for name in names for each in _named(name, known, option))
    return HostChoice(
        tuple((known[id], version) for id, version in named.items()),
        tuple(known.values()) if SEEN in names else (),
        least,
    )


def family(values: Iterable[str], grade: str = "", option: str = "--hosts") -> RuleFamily:
    """Return the checks of the family HOST for the hosts in ``values``, which ``chosen`` describes.

    Raises:
        UsageError, RuleError: as ``chosen``.
    """
    return host_checks(chosen(values, grade, option))


def facts_of(rule: str) -> Iterator[tuple[KnownHost, HostFact]]:
    """Yield the facts that a rule reports, each with its host."""
    for host in host_facts.load(today()):
        for fact in host.facts:
            if host_facts.RULES[fact.kind][0] == rule:
                yield host, fact


def today() -> datetime.date:
    """Return the day by which facts are old."""
    return datetime.datetime.now(datetime.UTC).date()


def _named(name: str, known: dict[str, KnownHost], option: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the version of each host that ``name`` stands for."""
    id, sign, version = name.partition("@")
    if name == ALL:
        yield from ((each, "") for each in known)
    elif id in known:
        if sign and not host_facts.numbers_of(version):
            fact = f"{version!r} is not a version of {known[id].name}"
            raise UsageError(option, fact, f"write its numbers: {id}@1.2.3, or {id} alone")
        yield id, version
    elif name != SEEN:
        guess = nearest(id, [*known, SEEN, ALL])
        next_step = f"did you mean {guess}?" if guess else f"use one of {', '.join(known)}, {SEEN} or {ALL}"
        raise UsageError(option, f"nothing is known of a host {id!r}", next_step)

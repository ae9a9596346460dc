"""``--hosts`` and ``--hosts-grade``: the hosts by whose limits a server is judged, too."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcpproxy.errors import UsageError
from mcpproxy.read import judging
from mcpproxy.read.reports.judged_traces import host_of
from mcpproxy.read.view.growing_trace import GrowingTrace
from mcpproxy.send.fleet.judge.rules import JudgeRules

if TYPE_CHECKING:  # most runs are not about hosts
    from mcpproxy.read.reports.host_matrix import HostMatrix


def add(parser: argparse.ArgumentParser) -> None:
    """Add both options."""
    parser.add_argument(
        "--hosts",
        action="append",
        metavar="HOST,...",
        help="report what these hosts refuse, lose or change: codex, codex@0.171.0, seen (the client), all",
    )
    parser.add_argument(
        "--hosts-grade",
        metavar="GRADE",
        help="also by facts no better than this: changelog, document, thread (default: source)",
    )


def chosen(options: argparse.Namespace) -> tuple[tuple[str, ...], str]:
    """Return the named hosts, and the weakest grade of evidence that counts, empty for the default.

    Raises:
        UsageError: a grade is given without a host.
    """
    if options.hosts_grade and not options.hosts:
        raise UsageError("--hosts-grade", "goes together with --hosts", "name hosts: --hosts seen")
    return tuple(options.hosts or ()), options.hosts_grade or ""


def named_rules(options: argparse.Namespace) -> JudgeRules | None:
    """Return the rules about hosts for a command that is itself the client; ``None`` if no host is named.

    Raises:
        UsageError: as for ``chosen``, a host is unknown, or only ``seen`` (the client in the recording) is
            named.
    """
    hosts, grade = chosen(options)
    if not hosts:
        return None
    rules = JudgeRules(select=("HOST",), hosts=hosts, hosts_grade=grade)
    if not rules.named_hosts():
        raise UsageError("--hosts", "the client is mcpproxy itself", "name hosts, or all: --hosts all")
    return rules


def matrix_of(recordings: Iterable[str], judge_rules: JudgeRules) -> "HostMatrix":
    """Return the matrix of what the hosts do with the server in these recordings.

    Of findings with the same message it has the first, with its place.

    Raises:
        TraceError: a recording cannot be read.
    """
    from mcpproxy.read.reports.host_matrix import HostMatrix, host_rows
    from mcpproxy.read.reports.located import Located, locate

    rules, selection = judge_rules.load()
    hosts = judge_rules.named_hosts()
    ids = {id for id, _, _ in hosts}
    messages_seen = set[str]()
    located: list[Located] = []
    for path in recordings:
        trace = GrowingTrace(path).open()
        findings = {
            finding.message: finding
            for finding in reversed(judging.judge(trace, rules, selection).findings)
            if host_of(finding) in ids and finding.message not in messages_seen
        }
        located += locate(trace, reversed(findings.values()))
        messages_seen |= findings.keys()
    return HostMatrix(host_rows(hosts, (entry.finding for entry in located)), tuple(located))

"""The options that choose hosts, whose limits a server is then held against."""

import argparse
from collections.abc import Iterable

from mcpproxy import judging
from mcpproxy.errors import UsageError
from mcpproxy.fleet.judge.rules import JudgeRules
from mcpproxy.reports.host_matrix import HostRow, host_rows
from mcpproxy.view.growing_trace import GrowingTrace


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
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


def named_rules(options: argparse.Namespace) -> JudgeRules | None:
    """Return the rules about hosts for a command that is itself the client; ``None`` if no host is named.

    Raises:
        UsageError: there is no such host, or only the client that is there is named.
    """
    if not options.hosts:
        return None
    rules = JudgeRules(select=("HOST",), hosts=tuple(options.hosts), hosts_grade=options.hosts_grade or "")
    if not rules.named_hosts():
        raise UsageError("--hosts", "the client is mcpproxy itself", "name hosts, or all: --hosts all")
    return rules


def rows_of(recordings: Iterable[str], judge_rules: JudgeRules) -> tuple[HostRow, ...]:
    """Return what the hosts do with the server in these recordings.

    Raises:
        TraceError: a recording cannot be read.
    """
    rules, selection = judge_rules.load()
    findings = (
        finding
        for path in recordings
        for finding in judging.judge(GrowingTrace(path).open(), rules, selection).findings
    )
    return host_rows(judge_rules.named_hosts(), findings)

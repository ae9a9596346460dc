"""In which hosts the server of a recording works, for the page."""

from typing import cast

from mcpproxy.judge.checks.hosts.family import host_checks
from mcpproxy.judge.ruleset import host_choice, ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read import judging
from mcpproxy.read.reports.host_matrix import STATES, as_objects, host_rows, is_of_server, named_hosts
from mcpproxy.read.view.growing_trace import GrowingTrace

_FAMILY = "HOST"


def works_in(path: str) -> JSONObject:
    """Return the matrix of ``mcpproxy check --hosts all`` for the recording at ``path``.

    ``states`` are the possible states of a server in a host with known facts, the best first. ``has_server``
    says whether an MCP server has answered in the recording; if not, all states are unknown.

    Raises:
        TraceError: the recording cannot be read.
        RuleError: a table of facts is not valid.
    """
    choice = host_choice.chosen((host_choice.ALL,))
    rules = ruleset.load(())
    selection = Selection.of(rules.catalogue, (_FAMILY,), (), (_FAMILY,))
    rules = rules.extended(selection.wanted or (), [host_checks(choice)])
    judged = judging.judge(GrowingTrace(path).open(), rules, selection)
    has_server = bool(judged.findings) or is_of_server(judged.revision)
    rows = host_rows(named_hosts(choice), judged.findings, has_server=has_server)
    shown = {"states": [*STATES], "hosts": as_objects(rows), "has_server": has_server}
    return cast("JSONObject", shown)

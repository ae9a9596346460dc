"""``mcpproxy faults``: lists the ready-made sets of faults, and says what rules would do to a recording."""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.base.style import Style
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, nearest
from mcpproxy.cli.terminal import emit, terminal_style
from mcpproxy.gate.intercept import fault_sets
from mcpproxy.gate.intercept.fault_plan import FaultPlanner, PlannedFault
from mcpproxy.gate.intercept.fault_rules import about, read_faults, transports_of
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.text_table import table

PARTS: Final = {
    "list": "the ready-made sets of fault rules",
    "plan": "which messages of a recording rules would act on",
}

EPILOG: Final = """\
RULES is the name of a ready-made set, a file of rules, or one rule as for --fault. Messages of mcpproxy in
the recording are left out. With the same seed a new session with the same messages meets the same faults.

  mcpproxy faults plan slow-tools session.jsonl
  mcpproxy faults plan 'from:server tool:search* => delay 2s, nth 3'"""


def run(argv: list[str]) -> int:
    """Run ``faults list`` or ``faults plan``, and return its exit code. Without arguments, print the help.

    Raises:
        McpProxyError: there is no such part, or it fails.
    """
    part = argv[0] if argv else "--help"
    if part in ("-h", "--help"):
        parser = Parser(
            "faults", "List the ready-made sets of faults, and show what rules would do.", _part_lines()
        )
        parser.usage = "mcpproxy faults {list,plan} [OPTION...]"
        parser.print_help()
        return 0
    if part == "list":
        return list_sets(argv[1:])
    if part == "plan":
        return plan(argv[1:])
    guess = nearest(part, PARTS)
    raise UsageError(
        f"faults {part}", "neither list nor plan", f"did you mean {guess}?" if guess else "say faults list"
    )


def _part_lines() -> str:
    return "\n".join(f"  mcpproxy faults {name:<6}{line}" for name, line in PARTS.items())


def list_sets(argv: Sequence[str]) -> int:
    """Print the ready-made sets."""
    parser = Parser("faults list", "List the ready-made sets of fault rules, for --faults NAME.")
    parser.parse_args(argv)
    rows = [("NAME", "ON", "WHAT HAPPENS")]
    rows += [(name, ", ".join(transports_of(name)), about(name)) for name in fault_sets.names()]
    emit(table(rows, terminal_style()))
    return 0


def plan(argv: Sequence[str]) -> int:
    """Print what rules would do to one recording.

    Raises:
        McpProxyError: the rules or the recording cannot be read, or a rule matches no message, which is said
            after the plan.
    """
    options = _plan_arguments(argv)
    path = find_traces.one(options.trace)
    trace = open_trace(path)
    is_spec = "=>" in options.rules
    files, specs = ([], [options.rules]) if is_spec else ([options.rules], [])
    rules = read_faults(files, specs, trace.header.transport, options.fault_seed)
    planner = FaultPlanner(rules)
    findings = list(trace.findings()) if rules.ask_for_findings else []
    events = (event for event in trace.events() if not isinstance(event, Finding))
    planned = list(planner.plan(events, findings))
    if options.format == "json":
        emit([json.dumps({"seed": rules.seed, "faults": [_as_object(fault) for fault in planned]}, indent=2)])
    else:
        emit(_plan_lines(planned, rules.seed, terminal_style()))
    if unmatched := planner.unmatched:
        names = ", ".join(unmatched)
        fact = f"{'rule matches' if len(unmatched) == 1 else 'rules match'} no message: {visible(names)}"
        raise UsageError(path, fact, "correct its filter, or name another recording")
    return 0


def _plan_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("faults plan", "Say which messages of a recording fault rules would act on.", EPILOG)
    parser.add_argument("rules", metavar="RULES", help="a ready-made set, a file, or 'FILTER => ACTION'")
    parser.add_argument("trace", metavar="TRACE", nargs="?", help="a recording (default: the latest)")
    parser.add_argument("--fault-seed", type=int, metavar="NUMBER", help="the seed (default: random)")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="what to print (default: text)"
    )
    return parser.parse_args(argv)


def _plan_lines(planned: list[PlannedFault], seed: int, style: Style) -> Iterator[str]:
    """Yield a table of the faults that a plan would make, and their number."""
    if planned:
        rows = [("FRAME", "FROM", "WHAT", "RULE", "NO.", "ACTION")]
        rows += [
            (
                str(fault.seq),
                fault.sender,
                visible(fault.what),
                visible(fault.decision.rule.name),
                str(fault.decision.occurrence),
                _action_text(fault),
            )
            for fault in planned
        ]
        yield from table(rows, style, right={0, 4})
    yield f"{len(planned)} fault{'s' * (len(planned) != 1)} by seed {seed}"


def _action_text(fault: PlannedFault) -> str:
    action = fault.decision.rule.action.verb
    if not fault.fits:
        return f"{action} (there is no such place)"
    if not 0 < fault.decision.delay_ns < 1 << 60:
        return action
    after = f"{fault.decision.delay_ns / 1e9:.3g} s"
    return f"{action} {after}" if action == "delay" else f"{action} after {after}"


def _as_object(fault: PlannedFault) -> dict[str, object]:
    return {
        "frame": fault.seq,
        "from": fault.sender,
        "what": fault.what,
        "rule": fault.decision.rule.name,
        "occurrence": fault.decision.occurrence,
        "action": fault.decision.rule.action.verb,
        "delay_ns": fault.decision.delay_ns,
        "fits": fault.fits,
    }

"""``mcpproxy fuzz``: send changed copies of recorded requests to a server, and report its faults."""

import argparse
import dataclasses
import json
import os
import time
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.base import paths
from mcpproxy.base.authority import is_loopback
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.cli import async_main, find_traces, upstream_options
from mcpproxy.cli.arguments import Parser, UsageError, move_url, positive, seconds, url, variable
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import StatusLine, emit, tell, terminal_style
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.fuzz.campaign import Campaign
from mcpproxy.peers.fuzz.material import material
from mcpproxy.peers.fuzz.results import FuzzOptions, FuzzResult, ServerFault
from mcpproxy.peers.fuzz.symptoms import KINDS, Kind
from mcpproxy.peers.fuzz.trial import TrialLimits
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.read.reports.text_table import table

DESCRIPTION: Final = """\
Send changed copies of the requests in a recording to a server: hostile values for its schemas, broken lines
and headers, odd ids, messages out of order. Report what makes the server crash, hang, break the protocol or
leak a value of another request, each as a small recording. Tools are called with all kinds of arguments: use
a server that may lose its data."""

EPILOG: Final = """\
exit codes: 0 no faults (with --strict also no warnings), 1 faults, 2 the server could not be fuzzed,
            130 interrupted

  mcpproxy fuzz session.jsonl -- python server.py
  mcpproxy fuzz session.jsonl http://127.0.0.1:3000/mcp --time 300 --seed 7
  mcpproxy replay client faults/01-crash.jsonl -- python server.py"""

_REPLAYED: Final[dict[bool | None, str]] = {True: "yes", False: "no", None: "not tried"}


def run(argv: list[str]) -> int:
    """Fuzz one server; return 1 if faults were found, 130 if the user interrupted the search, otherwise 0.

    Raises:
        McpProxyError: the arguments are not valid, the recording has no request, or no server answers.
    """
    options, command = _arguments(argv)
    target = _target(options, command)
    trace = find_traces.one(options.trace)
    recorded = material(load(trace))
    limits = TrialLimits(options.timeout, options.start_timeout)
    folder = options.output or _new_folder(paths.label_for(command) if command else "http")
    status = StatusLine()
    campaign = Campaign(
        target,
        recorded,
        ruleset.load(),
        FuzzOptions(
            options.seed, options.time, options.count, options.faults, limits, options.strict, options.only
        ),
        folder,
        on_fault=None if options.json else partial(_tell_fault, status),
        on_progress=status.show,
    )
    try:
        result = async_main.run_until_terminated(campaign.run())
    except KeyboardInterrupt:
        result = campaign.result
        result.is_interrupted = True
    finally:
        status.clear()
    if options.json:
        emit([json.dumps(dataclasses.asdict(result), indent=2, ensure_ascii=False)])
    else:
        emit(_result_lines(result))
    if result.is_interrupted:
        return 130
    return 1 if result.counted else 0


def _tell_fault(status: StatusLine, fault: ServerFault) -> None:
    status.clear()
    tell(f"{_fault_label(fault)} after {fault.after_s:.1f} s: {fault.changes}: {fault.text}")


def _fault_label(fault: ServerFault) -> str:
    """Return the kind of a fault; ``warning`` for a fault that counts only with ``--strict``."""
    return "warning" if fault.severity == "warning" else fault.kind


def _result_lines(result: FuzzResult) -> list[str]:
    """Return the table of faults, the symptoms that were not confirmed, and the numbers of the search."""
    lines: list[str] = []
    if result.faults:
        rows = [("FAULT", "FRAMES", "REPLAYS", "RECORDING")]
        for fault in result.faults:
            rows.append(
                (_fault_label(fault), str(fault.frames), _REPLAYED[fault.is_replayed], visible(fault.trace))
            )
        head, *body = table(rows, terminal_style(), right={1})
        lines.append(head)
        for line, fault in zip(body, result.faults, strict=True):
            lines += [line, f"  {visible(fault.changes)}", f"  → {visible(fault.text)}"]
    lines += [f"seen once and not again, so not reported: {visible(text)}" for text in result.once]
    lines += [
        f"seen, but the time was over before it was confirmed, so not reported: {visible(text)}; more: --time"
        for text in result.unconfirmed
    ]
    warnings = sum(fault.severity == "warning" for fault in result.faults)
    faults = len(result.faults) - warnings
    none = "no fault confirmed" if result.unconfirmed else "no faults" if result.sent else "nothing was tried"
    how_many = count(faults, "fault") if faults else none
    how_many += f", {count(warnings, 'warning')}" if warnings else ""
    # Each change is sent once before any is sent again.
    changes = f"{'of ' if result.sent < result.changes else ''}{count(result.changes, 'different change')}"
    lines.append(
        f"{how_many}: {count(result.sent, 'changed message')} ({changes}) in "
        f"{count(result.sessions, 'session')}, {result.seconds:.0f} s, seed {result.seed}"
    )
    if result.is_interrupted:
        lines.append("interrupted: what was not confirmed by then is not listed")
    elif not (result.sent or result.stopped):
        lines.append("the time was over when the server had answered the unchanged recording; more: --time")
    if result.stopped:
        lines.append(f"stopped early: {visible(result.stopped)}")
    return lines


def _target(options: argparse.Namespace, command: list[str]) -> Target:
    """Return the server to fuzz.

    Raises:
        UsageError: it is on another machine, and no argument allows that, or an option does not fit it.
    """
    upstream = upstream_options.from_namespace(options, options.url or "")
    if command:
        return Target(tuple(command), env=dict(options.env))
    address: str = options.url
    host = (urlsplit(address).hostname or "").lower()
    allowed = {name.lower() for name in options.allow_host}
    if not (is_loopback(host) or host in allowed):
        fact = "is not on this machine, and what is sent may harm it"
        raise UsageError(host or address, fact, f"--allow-host {host} if the server is yours")
    return Target(url=address, headers=tuple(options.header), upstream=upstream)


def _new_folder(label: str) -> str:
    """Return the path of a folder for the recordings of faults; it does not exist yet."""
    stem, _ = os.path.splitext(paths.trace_name(f"fuzz-{label}"))
    return os.path.join(paths.probe_folder("fuzz"), stem)


def _kinds(text: str) -> frozenset[Kind]:
    """Return the kinds of faults in an argument, which has commas between them."""
    wanted = frozenset(name.strip() for name in text.split(","))
    if unknown := sorted(wanted.difference(KINDS)):
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no kind of fault; one of {', '.join(KINDS)}")
    return frozenset(kind for kind in KINDS if kind in wanted)


def _seed(text: str) -> int:
    """Return the seed in an argument, a whole number of up to 18 digits."""
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of up to 18 digits")
    return int(text)


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("fuzz", DESCRIPTION, EPILOG)
    parser.usage = "mcpproxy fuzz [TRACE] [OPTION...] (-- COMMAND [ARG...] | URL)"
    add = parser.add_argument
    add("trace", metavar="TRACE", nargs="?", help=find_traces.HELP)
    add("url", metavar="URL", nargs="?", type=url, help="the MCP endpoint of a server over HTTP")
    add("--seed", metavar="N", type=_seed, help="the same seed makes the same choices")
    add(
        "--time",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long to search and to confirm what was seen (default: 60)",
    )
    add("--count", metavar="N", type=positive, default=0, help="end after so many changed messages")
    add("--faults", metavar="N", type=positive, default=0, help="end after so many faults")
    add(
        "--only",
        metavar="KIND,...",
        type=_kinds,
        default=frozenset(KINDS),
        help=f"kinds of faults to look for: {', '.join(KINDS)} (default: all)",
    )
    add("--strict", action="store_true", help="let warnings count as faults do")
    add("-o", "--output", metavar="DIR", default="", help="where the recordings of faults are kept")
    add("--json", action="store_true", help="print the result as JSON")
    add(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=10.0,
        help="how long the server may take to answer before that is a hang (default: 10)",
    )
    add(
        "--start-timeout",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long it may take to start and give its first answer (default: 60)",
    )
    add(
        "--allow-host",
        metavar="HOST",
        action="append",
        default=[],
        help="a host that may be fuzzed although it is not this machine",
    )
    add("--env", metavar="NAME=VALUE", action="append", type=variable, default=[], help="for a command")
    upstream_options.add_options(parser)
    options = parser.parse_args(argv)
    move_url(options)
    if bool(options.url) == bool(command):
        fact, next_step = "one of -- COMMAND and URL is needed", "mcpproxy fuzz TRACE -- python server.py"
        raise UsageError("fuzz", fact, next_step)
    if options.header and command:
        raise UsageError("--header", "goes together with a URL", "use --env for a command")
    if options.env and not command:
        raise UsageError("--env", "goes together with -- COMMAND", "use --header for a URL")
    if options.seed is None:
        options.seed = time.time_ns() % 1_000_000
    return options, command

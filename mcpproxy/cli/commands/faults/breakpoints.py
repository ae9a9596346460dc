"""``mcpproxy breakpoints``: the messages that ``--break`` holds in a running session."""

import argparse
import base64
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final, cast

from mcpproxy.base.visible import visible, visible_lines
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import emit, terminal_style
from mcpproxy.gate.intercept.asking.control_client import ask
from mcpproxy.gate.intercept.control import Command
from mcpproxy.read.reports.text_table import table

ACTIONS: Final = ("list", "show", "resume", "drop", "edit", "error")

EPILOG: Final = """\
A message is held until it is answered here, or until --break-timeout is over. The client's own
time limit runs on. edit opens the message in $EDITOR, unless --text has the new one. If messages are held for
what is wrong with them, the list names the rules, and show says on stderr what is wrong.

  mcpproxy --break 'from:client tool:pay' -- python server.py
  mcpproxy --break 'severity:error' -- python server.py
  mcpproxy breakpoints
  mcpproxy breakpoints resume 3
  mcpproxy breakpoints edit 3 --text '{"jsonrpc":"2.0","id":7,"method":"ping"}'"""


def run(argv: list[str]) -> int:
    """List the held messages, or show or answer one of them; return 0.

    Raises:
        McpProxyError: the arguments are not valid, the session does not run, or it holds no such message.
    """
    options = _arguments(argv)
    trace = find_traces.one(options.trace)
    if options.action == "list":
        emit(_table_lines(_held_messages(trace, {"do": "list", "starts": True})))
        return 0
    command: Command = {"do": options.action, "number": options.number}
    if options.action in ("show", "edit"):
        (line,) = _held_messages(trace, {"do": "show", "number": options.number})
        raw = base64.b64decode(line["base64"])
        if options.action == "show":
            for finding in line["findings"]:  # not on stdout, where a program may want the message alone
                sys.stderr.write(f"{visible(finding['rule'])}: {visible(finding['message'])}\n")
            emit([visible_lines(_indented_json(raw))])
            return 0
        new = _encoded_text(options.text) if options.text is not None else _message_from_editor(raw)
        command["base64"] = base64.b64encode(new).decode()
    elif options.action == "error":
        command |= {"code": options.code, "message": options.text or "Internal error"}
    ask(trace, command)
    return 0


def _held_messages(trace: str, command: Command) -> list[dict[str, Any]]:
    """Send a command to the session that records into ``trace``; return the held messages in its answer."""
    return cast("list[dict[str, Any]]", ask(trace, command)["held"])


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    description = "Answer the messages that breakpoints hold in a running session."
    parser = Parser("breakpoints", description, EPILOG)
    parser.add_argument(
        "action", nargs="?", choices=ACTIONS, default="list", help="what to do (default: list)"
    )
    parser.add_argument("number", nargs="?", type=int, help="the number of a message, as listed")
    parser.add_argument("--trace", metavar="TRACE", help="the recording of the session (default: the latest)")
    parser.add_argument("--text", help="the new message for edit, or the text of an error")
    parser.add_argument("--code", type=int, default=-32603, help="the code of an error (default: -32603)")
    options = parser.parse_args(argv)
    if options.action != "list" and options.number is None:
        raise UsageError("breakpoints", f"{options.action} needs the number of a message", "see the list")
    return options


def _table_lines(lines: list[dict[str, Any]]) -> list[str]:
    """Return a table of the held messages in ``lines``, which are as the session sent them."""
    if not lines:
        return ["nothing is held"]
    has_findings = any(line["findings"] for line in lines)
    rows = [("NO.", "FROM", "HELD", "LEFT", *(("FOUND",) if has_findings else ()), "MESSAGE")]
    for line in lines:
        text = visible(base64.b64decode(line["start"]).decode("utf-8", "replace"))
        left = f"{line['left_s']:.0f} s, then {visible(line['then'])}"
        rules = visible(", ".join(dict.fromkeys(finding["rule"] for finding in line["findings"])))
        rule_cell = (rules,) if has_findings else ()
        rows.append(
            (str(line["number"]), visible(line["from"]), f"{line['held_s']:.1f} s", left, *rule_cell, text)
        )
    return table(rows, terminal_style(), right={0})


def _indented_json(raw: bytes) -> str:
    try:
        return json.dumps(json.loads(raw), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # it is not JSON, or nests deeper than is read
        return raw.decode("utf-8", "replace")


def _encoded_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError("breakpoints", "--text is not UTF-8", "the message is still held") from None


def _message_from_editor(raw: bytes) -> bytes:
    """Return a message as the user has changed it in an editor.

    Raises:
        UsageError: there is no editor, or it has failed.
    """
    editor = _editor()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "message.json")
        with open(path, "wb") as file:
            file.write(raw + b"\n")
        try:
            code = subprocess.call([*editor, path])
        except OSError as error:
            fact = f"{editor[0]} cannot be started ({error.strerror})"
            raise UsageError("breakpoints", fact, "set EDITOR, or give --text") from None
        if code:
            raise UsageError("breakpoints", f"{editor[0]} ended with {code}", "the message is still held")
        with open(path, "rb") as file:
            return file.read().strip()


def _editor() -> list[str]:
    """Return the command of the user's editor.

    Raises:
        UsageError: the variable that names it cannot be read as a command, or names none.
    """
    variable = "VISUAL" if os.environ.get("VISUAL") else "EDITOR"
    named = os.environ.get(variable) or "vi"
    next_step = f"set {variable} to a command, or give --text"
    try:
        words = shlex.split(named)
    except ValueError as fault:
        fact = f"{variable}={visible(named)} cannot be read ({fault})"
        raise UsageError("breakpoints", fact, next_step) from None
    if not words or not words[0]:
        raise UsageError("breakpoints", f"{variable} names no editor", next_step)
    return words

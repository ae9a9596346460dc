"""``python -m tests.real_hosts [--runs N] [HOST...]``: what becomes of the awkward server inside real hosts.

Each host is installed in its pinned version, and plays a script ``N`` times (3 without the option), each time
in a new home folder. What ``mcpproxy prompt`` says of the recordings is printed as a table. The exit code is
1 if a turn failed, if another version played, if two runs do not say the same, or if what ``hosts.py`` knows
of a host is not so. Not part of the gate: the hosts are large, and the first run fetches them.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from mcpproxy.model.dialect import DIALECTS
from mcpproxy.model.tool_names import written
from mcpproxy.read.prompt.report import PromptReport, ServerWay
from mcpproxy.read.prompt.words import call_words, list_words, text_words, tool_words
from tests.peers.install import PeerUnavailableError
from tests.real_hosts.hosts import HOSTS
from tests.real_hosts.played import Played, played
from tests.real_hosts.script import script_for

LONGEST: Final = 30
WHILE_STARTING: Final = ("WaitForMcpServers",)
"""Tools that a host offers only until its servers have started, which its first request may find done."""


def main() -> int:
    """Play every host, or those that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_hosts", description=__doc__)
    parser.add_argument("host", nargs="*", metavar="HOST", help=", ".join(HOSTS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this new folder")
    options = parser.parse_args()
    # Hosts are started in a folder of their own, where a relative path leads elsewhere.
    keep = options.keep.resolve() if options.keep is not None else None
    failed = False
    for name in options.host or HOSTS:
        try:
            text, is_good = told(name, options.runs, keep)
        except PeerUnavailableError as unavailable:
            text, is_good = f"## {name}\n\nnot to be had: {unavailable}\n", False
        except subprocess.TimeoutExpired as late:
            text, is_good = (
                f"## {name}\n\nended after {late.timeout:.0f} s, without all of the script\n",
                False,
            )
        failed = failed or not is_good
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    return int(failed)


def told(name: str, runs: int, keep: Path | None) -> tuple[str, bool]:
    """Play a host, and return what to print and whether all is as it should be."""
    host = HOSTS[name]
    plays: list[Played] = []
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="real-host-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch) if keep is None else keep / f"{name}-{number + 1}"
            folder.mkdir(parents=True, exist_ok=True)
            plays.append(played(host, folder, script_for(host.results)))
    tables = [list(table(play.report)) for play in plays]
    seconds = ", ".join(f"{play.seconds:.1f}" for play in plays)
    troubles = [trouble for play in plays for trouble in play.troubles]
    for play in plays:
        troubles += unexpected(play.errors, host.errors)
    for number, other in enumerate(tables[1:], 2):
        troubles += [f"run {number} differs: {row}" for row in set(tables[0]) ^ set(other)]
    clients = ", ".join(f"{client} {version}" for client, version in plays[0].clients)
    lines = [f"## {name}", "", f"{clients}; {seconds} s", "", *tables[0], *troubles, ""]
    return "\n".join(lines), not troubles


def unexpected(errors: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Yield the findings that are not known of a host, and those that are and did not come."""
    yield from (f"not known of the host: {error}" for error in errors if error not in known)
    yield from (f"known of the host, and not so: {error}" for error in known if error not in errors)


def table(report: PromptReport) -> Iterator[str]:
    """Yield a report as a table of Markdown: what was on the wire, and what of it was in the prompt."""
    yield "| on the wire | in the prompt |"
    yield "| --- | --- |"
    dialect = DIALECTS[report.dialect].title if report.dialect else ""
    requests = report.requests - report.first + 1  # before it, a host waits for its servers or does not
    yield f"| {requests} requests from the first with a tool of a server | {dialect}, {report.model} |"
    for server in report.servers:
        for wire, prompt in _rows(server):
            yield f"| {wire} | {prompt} |"
    others = [written(tool) for tool in report.others if tool.name not in WHILE_STARTING]
    yield f"| | other tools: {', '.join(sorted(others))} |"


def _rows(server: ServerWay) -> Iterator[tuple[str, str]]:
    yield (
        f"{len(server.tools)} tools of {server.server.label}",
        f"{len(server.offered)}, named {server.prefix}NAME",
    )
    yield from (("list of tools", words) for words in list_words(server))
    yield "instructions", "; ".join(text_words("instructions", server.instructions)) or "the same"
    yield from _alike((way.match.tool.name, tool_words(way, server)) for way in server.tools)
    yield from _alike((f"{way.wire.name}()", call_words(way)) for way in server.calls)


def _alike(rows: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, str]]:
    """Yield the rows, those of which the same is to be said together."""
    names: dict[str, list[str]] = {}
    for name, words in rows:
        names.setdefault("; ".join(words) or "the same", []).append(shortened(name))
    yield from ((", ".join(alike), words) for words, alike in names.items())


def shortened(name: str) -> str:
    """Return a long name with its middle left out, by which the two that collide are still told apart."""
    return name if len(name) <= LONGEST else f"{name[:12]}…{name[59:75]}…{name[-12:]}"


if __name__ == "__main__":
    sys.exit(main())

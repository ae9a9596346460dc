"""``python -m tests.hosts.measure [HOST...]``: holds what is known of hosts against runs of them.

Each host plays before a server for each kind of fact, with a scripted model, offline. For each row of its
table in ``rules/hosts`` it is printed whether the recordings confirm it, contradict it, or do not decide it,
with the place where that is seen; then what no row says. ``--keep`` keeps the recordings, and ``--from``
reads kept ones and runs nothing. Not part of the gate: the hosts are large, and the first run fetches them.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Final

from mcpproxy.judge.checks.hosts.facts import KnownHost
from mcpproxy.judge.ruleset import host_facts
from tests.hosts.measure.decisions import decided
from tests.hosts.measure.news import news
from tests.hosts.measure.probes import PROBES, Probe, beyond
from tests.hosts.measure.seen import SAID, Evidence, Seen, read_seen
from tests.hosts.measure.verdicts import State
from tests.peers.install import PeerUnavailableError
from tests.real_hosts.hosts import HOSTS, RealHost
from tests.real_hosts.played import played

DEFAULT: Final = (
    "codex", "claude-code-2.1.197", "claude-code-2.1.332", "gemini-cli", "copilot-cli-chat", "opencode",
    "cline", "continue", "openai-agents-own-times",
)  # fmt: skip

_IN_OTHER_VERSIONS: Final[Mapping[State, str]] = {
    "confirmed": "so in this version, too",
    "contradicted": "not so in this version",
    "not decidable": "not decidable",
}
"""What a verdict means for a row that does not speak of the version that played."""

HOST_S: Final = 120
"""How long a host may take besides the answers of a probe."""


def main() -> int:
    """Measure every host, or those that the arguments name; 1 if a row is contradicted."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.measure", description=__doc__)
    parser.add_argument(
        "host", nargs="*", default=[], choices=[*HOSTS, []], metavar="HOST", help=", ".join(HOSTS)
    )
    parser.add_argument(
        "--probe", action="append", choices=PROBES, metavar="PROBE", help="only these: " + ", ".join(PROBES)
    )
    parser.add_argument("--longest", type=float, default=80, metavar="S", help="no slower answers (80)")
    recordings = parser.add_mutually_exclusive_group()
    recordings.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings there")
    recordings.add_argument(
        "--from", type=Path, metavar="FOLDER", help="read recordings that were kept there"
    )
    options = parser.parse_args()
    known = {host.id: host for host in host_facts.load(date.today())}
    is_contradicted = False
    for name in options.host or DEFAULT:
        rows = known.get(rows_of(name, known))
        probes = dict(PROBES) | (beyond(rows.facts, options.longest) if rows else {})
        wanted = {key: probes[key] for key in options.probe or probes if key in probes}
        kept: Path | None = getattr(options, "from")
        with tempfile.TemporaryDirectory(prefix="measured-", ignore_cleanup_errors=True) as scratch:
            folder = (kept or options.keep or Path(scratch)) / name
            if kept is None:
                _run(HOSTS[name], folder, wanted)
            evidence = Evidence(name, HOSTS[name].version, tuple(_read(folder, wanted)))
            lines, bad = told(evidence, rows)
        is_contradicted |= bad
        sys.stdout.write("\n".join(lines) + "\n\n")
        sys.stdout.flush()
    return int(is_contradicted)


def rows_of(name: str, known: Mapping[str, KnownHost]) -> str:
    """Return the id of the table of a host: the longest with which its name begins."""
    return max((id for id in known if name.startswith(id)), key=len, default="")


def told(evidence: Evidence, rows: KnownHost | None) -> tuple[list[str], bool]:
    """Return what to print of a host, and whether a row that speaks of its version is contradicted."""
    lines = [
        f"## {evidence.host} {evidence.version}",
        "",
        "| row | says | | seen | where |",
        "| --- " * 5 + "|",
    ]
    bad = False
    for fact in rows.facts if rows else ():
        verdict = decided(fact, evidence)
        is_of_version = fact.holds_in is not None and fact.holds_in(evidence.version)
        bad |= is_of_version and verdict.state == "contradicted"
        state = verdict.state if is_of_version else _IN_OTHER_VERSIONS[verdict.state]
        versions = fact.versions or "unknown"
        lines.append(
            f"| {fact.kind} ({fact.grade}, {versions}) | {fact.says} | {state} | {verdict.words} | "
            f"{verdict.place} |"
        )
    lines += [
        "",
        "Not in the rows:",
        "",
        *(f"- {line}" for line in news(evidence, rows.facts if rows else ())),
    ]
    return lines, bad


def _run(host: RealHost, folder: Path, probes: Mapping[str, Probe]) -> None:
    for key, probe in probes.items():
        place = folder / key
        rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        sys.stderr.write(f"{folder.name} {key}\n")
        try:
            ran = played(
                host,
                place,
                probe.script,
                probe.command(place),
                name=probe.name,
                timeout_s=HOST_S + 2 * probe.seconds,
            )
            said = "\n".join((*ran.troubles, *ran.errors))
        except (PeerUnavailableError, subprocess.TimeoutExpired) as error:
            said = f"{error}"
        (place / SAID).write_text(said, encoding="utf-8")
        rmtree(place / "home", ignore_errors=True)


def _read(folder: Path, probes: Mapping[str, Probe]) -> list[Seen]:
    """Read what is there of the recordings of a host."""
    return [
        read_seen(folder / key, key, (str(turn["call"]) for turn in probe.script if "call" in turn))
        for key, probe in probes.items()
        if (folder / key).exists()
    ]


if __name__ == "__main__":
    sys.exit(main())

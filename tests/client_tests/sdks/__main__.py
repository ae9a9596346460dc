"""``python -m tests.client_tests.sdks [--http] [--only GROUP] [CLIENT...]``: the verdicts on clients of SDKs.

Prints a table of scenarios and clients, and a line on stderr when a client is done. The exit code is 1 if a
verdict is another than ``clients.py`` knows. With ``--keep`` the reports and recordings stay. Not part of the
gate: a client takes some minutes, and the first run fetches it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from mcpproxy.peers.client_tests.scenarios import SCENARIOS
from tests.client_tests.sdks.clients import CLIENTS, SdkClient
from tests.peers.install import PeerUnavailableError

SIGNS: Final = {"passed": ".", "failed": "FAIL", "warning": "warn", "skipped": "s"}


def main() -> int:
    """Test the clients that the arguments name, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.client_tests.sdks", description=__doc__)
    parser.add_argument("client", nargs="*", metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--http", action="store_true", help="over HTTP instead of stdio")
    parser.add_argument("--only", default="lawful,wrong", metavar="GROUP,...")
    parser.add_argument("--keep", metavar="FOLDER", help="where reports and recordings stay")
    parser.add_argument("--calls", type=int, default=1, help="of each tool at once")
    options = parser.parse_args()
    reports: dict[str, dict[str, Any]] = {}
    unknown: list[str] = []
    for name in options.client or CLIENTS:
        try:
            command = CLIENTS[name].command(options.calls)
        except PeerUnavailableError as unavailable:
            unknown.append(f"{name} is not to be had: {unavailable}")
            said(unknown[-1])
            continue
        began = time.monotonic()
        keep = Path(options.keep) / name if options.keep else None
        reports[name] = checks(command, options.only, is_http=options.http, keep=keep)
        said(f"{name}: {summary(reports[name])} in {time.monotonic() - began:.0f} s")
        for line in surprises(name, CLIENTS[name], reports[name]):
            unknown.append(line)
            said(f"  {line}")
    sys.stdout.write(table(reports) + "".join(f"{line}\n" for line in unknown))
    return int(bool(unknown))


def said(line: str) -> None:
    """Say how far it is: a client takes minutes, and who waits sees that it goes on."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def summary(found: dict[str, Any]) -> str:
    """Return how many checks have which status."""
    counts = Counter(check["status"] for check in found.values())
    return ", ".join(f"{number} {status}" for status, number in counts.items()) or "no report"


def checks(command: list[str], only: str, *, is_http: bool, keep: Path | None = None) -> dict[str, Any]:
    """Test a client, and return its checks by name. Its report and recordings stay in the folder ``keep``."""
    listen = ["--listen=127.0.0.1:0"] if is_http else []
    scratch = tempfile.TemporaryDirectory(prefix="sdk-client-", ignore_cleanup_errors=True)
    with scratch if keep is None else nullcontext(keep) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        report = Path(folder) / "report.json"
        options = ["--json", f"-o={report}", f"--trace-dir={folder}/recordings", f"--only={only}", *listen]
        program = [sys.executable, "-m", "mcpproxy", "validate", "client"]
        subprocess.run([*program, *options, "--", *command], check=False, stderr=subprocess.DEVNULL)
        if not report.exists():
            return {}
        found = json.loads(report.read_text(encoding="utf-8"))["checks"]
    return {check["name"]: check for check in found}


def surprises(name: str, client: SdkClient, found: dict[str, Any]) -> list[str]:
    """Return what is not known of a client."""
    told: list[str] = []
    ordinary = found.get("ordinary")
    if ordinary is None or (ordinary["status"] != "passed" and not ordinary["broken"]):
        told.append(f"{name}: nothing can be said, for it did not do all with the ordinary server")
    for scenario, check in found.items():
        wrong = check["status"] in ("failed", "warning")
        is_known = (
            scenario in client.given_up
            if not check["broken"]
            else (client.broken.get(scenario) == check["broken"])
        )
        if wrong and not is_known:
            broken = f" ({check['broken']})" if check["broken"] else ""
            told.append(f"{name}: {check['status']} {scenario}: {check['message']}{broken}")
    return told


def table(reports: dict[str, dict[str, Any]]) -> str:
    """Return scenarios and clients as a table of Markdown."""
    lines = [f"| scenario | {' | '.join(reports)} |", "| --- " * (len(reports) + 1) + "|"]
    for scenario in SCENARIOS:
        signs = (SIGNS.get(found.get(scenario.name, {}).get("status", ""), "") for found in reports.values())
        lines.append(f"| {scenario.name} | {' | '.join(signs)} |")
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    sys.exit(main())

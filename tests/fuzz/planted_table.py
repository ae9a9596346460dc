"""``python -m tests.fuzz.planted_table [FAULT...]``: how soon each planted fault is found, and how small.

Each fault is planted alone, in a fresh server, and ``mcpproxy fuzz`` runs until its first report. FOUND is
the time until the fault was met, DONE until it was confirmed and its recording was kept.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.fuzz.planted import CONVERSATION, FAULTS

PYTHON: Final = sys.executable
TIME_S: Final = 60


def command(*faults: str) -> list[str]:
    """Return the command of a server with ``faults``."""
    return [PYTHON, "-m", "tests.fuzz.planted", *faults]


def record(trace: Path) -> None:
    """Record a session with the server without faults; the client waits for each answer."""
    wrapped = [PYTHON, "-m", "mcpproxy", "run", "--trace", str(trace), "--", *command()]
    with subprocess.Popen(
        wrapped, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in CONVERSATION:
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                assert server.stdout.readline()
        server.stdin.close()
        server.wait()


def fuzz(trace: Path, target: Sequence[str], folder: Path, *options: str) -> dict[str, Any]:
    """Run ``mcpproxy fuzz`` and return its report. ``target`` is ``--`` with a command, or a URL."""
    done = subprocess.run(
        [PYTHON, "-m", "mcpproxy", "fuzz", str(trace), "--json", "-o", str(folder), *options, *target],
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    return json.loads(done.stdout)


def main() -> None:
    print(f"{'FAULT':24} {'FOUND':>7} {'DONE':>7} {'SENT':>6} {'FRAMES':>6}  REPLAYS  REPORT")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "recorded.jsonl"
        record(trace)
        for name in sys.argv[1:] or FAULTS:
            options = ("--faults", "1", "--time", str(TIME_S), "--seed", "1")
            report = fuzz(trace, ["--", *command(name)], Path(folder) / name, *options)
            rows = report["faults"]
            if not rows:
                print(f"{name:24} not found; once: {report['once']}", flush=True)  # noqa: T201
            for row in rows:
                text = f"{row['kind']}: {row['changes']}: {row['text']}"
                print(  # noqa: T201
                    f"{name:24} {row['after_s']:6.1f}s {row['took_s']:6.1f}s {report['sent']:6} "
                    f"{row['frames']:6}  {'yes' if row['is_replayed'] else 'no':7}  {text[:150]}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

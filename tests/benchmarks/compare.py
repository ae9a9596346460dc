"""Another version of mcpproxy beside this one: every figure of both in one table, measured in turns.

``MCPPROXY_BEFORE`` is the path of the other version's command, installed in an environment of its own. This
version is measured as it is installed in the environment that runs the benchmark. Both should be installed
alike (not in editable mode), because a script of an editable install takes longer to start.

Both are measured by the same programs, those of this checkout: each benchmark is run with the interpreter of
one version and then with that of the other, in a folder that has everything of the checkout but mcpproxy.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section, loads
from tests.benchmarks.sessions import ROOT

BEFORE: Final = os.environ.get("MCPPROXY_BEFORE", str(Path(sys.executable).parent / "mcpproxy"))
PYTHONS: Final = {"before": str(Path(BEFORE).parent / "python"), "after": sys.executable}
PATIENCE_S: Final = 300


@dataclass(frozen=True)
class Share:
    """How much of a benchmark is run: its sizes divided by ``part``, of five rounds so many."""

    part: int = 1
    rounds: int = 5


PLAN: Final = {
    "stdio": Share(part=4),
    "http": Share(part=4),
    "model": Share(rounds=2),
    "bridge": Share(part=10, rounds=2),
    "offline": Share(part=2),
    "start": Share(),
    "instructions": Share(rounds=2),
    "judge": Share(),
    "recorder": Share(part=2),
    "view": Share(part=10, rounds=3),
    "page": Share(part=16, rounds=2),
    "watched": Share(part=4, rounds=2),
    "spans": Share(part=4, rounds=2),
    "tui": Share(part=2, rounds=2),
    "faults": Share(part=5, rounds=2),
    "agents": Share(part=10, rounds=2),
    "fleet": Share(part=20, rounds=2),
    "hosts": Share(),
    "replay": Share(part=4, rounds=3),
    "bounds": Share(part=10, rounds=2),
}
SHORT: Final = ("offline", "start", "judge", "recorder")


def run(options: Options) -> list[Section]:
    """Run each benchmark with both versions in turns, and return what they have measured.

    What a version cannot give stays empty, and a note says why. It is a failure if it is this version.
    """
    notes = [f"Before is `{BEFORE}`, after is `{PYTHONS['after']}`."]
    found: dict[str, Samples] = {}
    failed = False
    with _checkout_without_mcpproxy() as folder:
        for name, version, part in _turns(options):
            began_s = time.monotonic()
            try:
                for section in _measured(PYTHONS[version], name, part, options, folder):
                    notes += _add(found.setdefault(section.title, Samples()), version, section)
            except (OSError, subprocess.SubprocessError, ValueError) as fault:
                notes.append(f"{name}, {version}: {fault}.")
                failed |= version == "after"
            sys.stderr.write(f"{name}, {version}: {time.monotonic() - began_s:.1f} s\n")
    last = found[list(found)[-1]] if found else found.setdefault("nothing", Samples())
    last.notes += dict.fromkeys(notes)
    return [Section(title, samples, tuple(PYTHONS), failed=failed) for title, samples in found.items()]


def _turns(options: Options) -> Iterator[tuple[str, str, int]]:
    """What to run, one after the other: the name of a benchmark, the version, the part of its sizes."""
    for name in options.only or (SHORT if options.short else PLAN):
        share = PLAN.get(name, Share())
        for number in range(1 if options.short else -(-share.rounds * options.rounds // 5)):
            for version in PYTHONS if number % 2 else reversed(PYTHONS):
                yield name, version, share.part


def _measured(python: str, name: str, part: int, options: Options, folder: str) -> list[Section]:
    """Run a benchmark with the mcpproxy that ``python`` has.

    Raises:
        ValueError: it failed; what it said last.
        subprocess.TimeoutExpired: it did not end.
    """
    channels = options.kinds[0] if len(options.kinds) == 1 else "both"
    command = [python, "-m", "tests.benchmarks", name, "--json", "--ours", "--channels", channels]
    command += ["--short"] if options.short else ["--rounds", "1", "--part", str(part)]
    # As users have it: compiled once, and not anew at every start.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    if ran.returncode:
        raise ValueError((ran.stderr.strip() or "nothing").splitlines()[-1])
    return loads(ran.stdout)


def _add(samples: Samples, version: str, section: Section) -> list[str]:
    """Add the values of one run; return what is to be said about them."""
    for row in section.samples.rows():
        for variant in section.variants:
            if values := section.samples.values(row, variant):
                samples.add(row if len(section.variants) == 1 else f"{row}: {variant}", version, *values)
    digests = section.samples.digests.items()
    return [
        f"{row}: the versions do not give the same bytes."
        for row, digest in digests
        if samples.digests.setdefault(row, digest) != digest
    ]


@contextmanager
def _checkout_without_mcpproxy() -> Generator[str]:
    """A folder from which Python finds the tests of this checkout, and the mcpproxy that is installed."""
    with tempfile.TemporaryDirectory(prefix="mcpproxy-compare-") as folder:
        for path in ROOT.iterdir():
            if path.name != "mcpproxy" and not path.name.startswith("."):
                Path(folder, path.name).symlink_to(path)
        yield folder

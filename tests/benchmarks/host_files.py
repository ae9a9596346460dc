"""What wrapping costs: every server of a home folder with 20 hosts and 60 servers, and back."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT, WrongBytesError
from tests.hosts.many import HOSTS, make

VARIANTS: Final = ("mcpproxy",)
COMMANDS: Final = {
    "wrap --all": ("wrap", "--all", "--yes"),
    "hosts": ("hosts",),
    "unwrap --all": ("unwrap", "--all", "--yes"),
}


def run(options: Options) -> list[Section]:
    """Wrap and unwrap everything.

    Raises:
        WrongBytesError: a file was not changed by the wrap, or is not as it was after the unwrap.
    """
    samples = Samples()
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as folder:
            home = Path(folder)
            files = make(home)
            environment = {**os.environ, "HOME": folder, "XDG_STATE_HOME": str(home / "state")}
            environment |= {"PYTHONPATH": str(ROOT)}
            for name, command in COMMANDS.items():
                start = time.monotonic()
                subprocess.run(
                    [sys.executable, "-m", "mcpproxy", *command],
                    cwd=home,
                    env=environment,
                    capture_output=True,
                    check=True,
                )
                took_ms = (time.monotonic() - start) * 1000
                samples.add(f"{name}, {HOSTS} hosts with 60 servers, ms", "mcpproxy", took_ms)
                same = [path for path, data in files.items() if path.read_bytes() == data]
                if len(same) != (len(files) if name.startswith("unwrap") else 0):
                    raise WrongBytesError(f"{name}: {len(same)} of {len(files)} files are as they were")
    return [Section("hosts", samples, VARIANTS)]

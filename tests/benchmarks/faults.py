"""What fault rules, breakpoints and addons cost that act on nothing, on stdio."""

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks import stdio
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import Load, Variant

LOADS: Final = {
    stdio.PING_PONG: Load(150, 5_000, 1),
    stdio.SMALL: Load(150, 30_000, 64),
    stdio.MEDIUM: Load(4096, 10_000, 64),
}


def _with(name: str, *options: str) -> Variant:
    """Return mcpproxy with options."""

    def wrap(command: list[str], trace: Path) -> list[str]:
        return [sys.executable, "-m", "mcpproxy", "--trace", str(trace), *options, "--", *command]

    return Variant(name, wrap, records=True)


SAME: Final = """
from mcpproxy.addons import Addon

class Same(Addon):
    def request(self, session, message):
        return message

    def response(self, session, request, message):
        return message
"""


def variants(addon: Path) -> tuple[Variant, ...]:
    """Return what is compared; ``addon`` is an addon that returns its message."""
    return (
        Variant("direct", lambda command, trace: command),
        _with("no option"),
        _with("one rule", "--fault", "tool:none => drop"),
        _with(
            "five rules", *(word for rule in range(5) for word in ("--fault", f"tool:none-{rule} => drop"))
        ),
        _with("a breakpoint elsewhere", "--break", "tool:none"),
        _with("an addon", "--addon", str(addon)),
    )


def run(options: Options) -> list[Section]:
    """Measure every variant in turn.

    Raises:
        WrongBytesError: a frame was lost or changed.
    """
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as folder:
        addon = Path(folder) / "same.py"
        addon.write_text(SAME)
        compared = variants(addon)[1 if options.ours else 0 :]
        for _ in range(options.rounds):
            for name, load in stdio.sized(LOADS, options).items():
                for variant in compared:
                    stdio.measure(
                        samples, variant, options.kinds[0], name, load, Path(folder) / "trace.jsonl"
                    )
    return [Section("faults", samples, [variant.name for variant in compared], ratios=False)]

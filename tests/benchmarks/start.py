"""What a wrapper adds to start-up and to the end: from start to the first answer, from close to exit."""

import compileall
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import (
    CLOSE,
    ROOT,
    Load,
    Session,
    Variant,
    variants_for,
    verify,
    wait_until_recorded,
)

BOOT_MS: Final = (0, 30)

LOAD: Final = Load(150, 1, 1)

SCRIPT: Final = """\
#!{python}
import sys
sys.path[0] = {root!r}
from mcpproxy.cli.main import main
if __name__ == '__main__':
    sys.exit(main())
"""
"""The command as installers write it, of this checkout: ``python -m`` takes a third longer to start."""


def run(options: Options) -> list[Section]:
    """Start and end sessions of one call, every variant in turn.

    Raises:
        WrongBytesError: a frame was lost or changed.
    """
    variants, missing = variants_for(options)
    samples = Samples(missing)
    compileall.compile_dir(ROOT / "mcpproxy", quiet=2)  # as installers do
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as folder:
        variants = (*variants[:-1], as_installed(Path(folder)))
        trace = Path(folder) / "trace.jsonl"
        for _ in range(options.rounds if options.short else 4 * options.rounds):
            for boot_ms in BOOT_MS:
                server = f"server that takes {boot_ms} ms" if boot_ms else "server that is there at once"
                for variant in variants:
                    with Session(variant, "pipe", LOAD, trace, boot_ms) as session:
                        session.go()
                        exit_us = session.close()
                    samples.add(f"start to first answer, {server}, ms", variant.name, session.start_us / 1000)
                    samples.add(f"close to exit, {server}, ms", variant.name, exit_us / 1000)
                    if variant.records:
                        wait_until_recorded(trace, CLOSE)
                        verify(trace, LOAD)
                        trace.unlink()
    return [Section("start and end", samples, [variant.name for variant in variants])]


def as_installed(folder: Path) -> Variant:
    """mcpproxy, started by a script in ``folder``."""
    script = folder / "mcpproxy"
    script.write_text(SCRIPT.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    script.chmod(0o755)
    return Variant(
        "mcpproxy",
        lambda command, trace: [str(script), "--trace", str(trace), "--", *command],
        records=True,
    )

"""``python -m tests.soak [--minutes 30]``: prints what is used each minute, and whether anything was lost."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests import signals
from tests.peers import install
from tests.peers.object_store import BUCKET, ObjectStore
from tests.soak.sidecars import Plan, play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--sidecars", type=int, default=20)
    parser.add_argument("--calls", type=float, default=200, help="a second, of all sidecars")
    parser.add_argument("--sample", type=float, default=60, help="seconds between two lines")
    parser.add_argument("--rotate", default="1min")
    parser.add_argument("--kills", type=int, default=0, help="of shippers and recorders")
    options = parser.parse_args()
    signals.restore_defaults()
    seconds = options.minutes * 60
    plan = Plan(
        options.sidecars,
        options.calls,
        seconds,
        options.rotate,
        sample_s=options.sample,
        kills=options.kills,
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        store = ObjectStore(install.object_store(), Path(folder) / "store")
        try:
            store.start()
            store.wait_until_ready()
            os.environ.update(store.variables)
            url = f"s3://{BUCKET}/soak"
            outcome = asyncio.run(play(Path(folder), url, plan, store.variables, store.pid, _tell))
        finally:
            store.kill()
    sys.stdout.write(
        f"{outcome.calls:,} calls in {outcome.files:,} files: {len(outcome.lost)} lost, "
        f"{len(outcome.doubled)} doubled, {len(outcome.left)} files left, exit codes {dict(outcome.codes)}\n"
        f"SIGTERM to the last byte shipped: {outcome.last_byte_s:.1f} s at most\n"
        f"miscounted {outcome.miscounted}, incomplete {outcome.incomplete}\n"
        f"verify: {outcome.verify or 'clean'}\n"
    )
    return 0 if outcome.is_good else 1


def _tell(sample: object) -> None:
    sys.stdout.write(f"{sample}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

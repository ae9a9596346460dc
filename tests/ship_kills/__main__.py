"""``python -m tests.ship_kills [RECORDINGS [KILLS]]``: ships, kills, verifies, and prints what was found."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import signals
from tests.peers import install
from tests.peers.object_store import ObjectStore
from tests.ship_kills.shipping import Plan, play


def main() -> int:
    words = [*sys.argv[1:], *("1000", "200")[len(sys.argv) - 1 :]]
    recordings, kills = int(words[0]), int(words[1])
    signals.restore_defaults()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ship-kills-") as folder:
        disk = Path(folder) / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
        has_disk = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
        store = ObjectStore(install.object_store(), Path(folder) / "store")
        try:
            found = play(store, disk, Plan(recordings, kills, fills_disk=has_disk))
        finally:
            store.kill()
            if has_disk:
                subprocess.run(["umount", "--lazy", str(disk)], check=True)
    sys.stdout.write(f"{found}\n{time.monotonic() - started:.0f} s\n")
    return 0 if found.is_good else 1


if __name__ == "__main__":
    sys.exit(main())

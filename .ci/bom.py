"""Holds a bill of materials to the list that it was installed from: the same packages in the same versions.

python .ci/bom.py BOM LIST
"""

import json
import re
import sys
from pathlib import Path


def main(bom: str, listed: str) -> int:
    """0 if they agree; what does not is told on stderr."""
    document = json.loads(Path(bom).read_text("utf-8"))
    held = {(plain(part["name"]), part["version"]) for part in document["components"]}
    lines = re.findall(r"^(\S+)==(\S+) (;?)", Path(listed).read_text("utf-8"), re.M)
    # What another system or another Python needs is listed, and need not be there.
    wanted = {(plain(name), version) for name, version, only in lines if not only}
    optional = {(plain(name), version) for name, version, only in lines if only}
    wrong = sorted((held ^ wanted) - optional)
    if document["bomFormat"] != "CycloneDX" or not held or wrong:
        sys.stderr.write(f"{bom}: does not agree with {listed}: {wrong}\n")
        return 1
    sys.stdout.write(f"{bom}: {len(held)} packages, as listed\n")
    return 0


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

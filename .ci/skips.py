"""Fail on a skipped test whose reason is not listed: ``python .ci/skips.py JUNIT_XML ACCEPTED``."""

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree


def accepted(path: str) -> list[re.Pattern[str]]:
    """The reasons that hold here: all of the list, or, where ``CI`` is set, those that hold anywhere."""
    lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    rows = [line.split("\t", 1) for line in lines]
    return [re.compile(reason) for where, reason in rows if where == "anywhere" or not os.environ.get("CI")]


def main(report: str, listed: str) -> int:
    patterns = accepted(listed)
    unlisted = [
        f"{case.get('classname')}::{case.get('name')}: {reason}"
        for case in ElementTree.parse(report).iter("testcase")
        for skipped in case.findall("skipped")
        if not any(pattern.fullmatch(reason := skipped.get("message", "")) for pattern in patterns)
    ]
    for line in unlisted:
        sys.stderr.write(f"skipped for a reason that is not listed: {line}\n")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Read the findings of a recording while it is being written, for the ``finding`` hook of addons."""

import json
from typing import Any

from mcpproxy.addons import Finding


class FindingReader:
    """Reads the findings in the recording at ``path``, which need not exist yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0
        """The offset in bytes at which the last complete line ended."""

    def read(self) -> list[Finding]:
        """Return the findings that were written since the last call; none if the file cannot be read.

        Of each finding, only the rule, the blame, the message and the frame are read.
        """
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                content = file.read()
        except OSError:
            return []
        lines = content[: content.rfind(b"\n") + 1]
        self._position += len(lines)
        findings = [_finding(line) for line in lines.splitlines() if line.startswith(b'{"type":"finding"')]
        return [finding for finding in findings if finding is not None]


def _finding(line: bytes) -> Finding | None:
    try:
        members: dict[str, Any] = json.loads(line)
        return Finding(members["rule"], members["blame"], members["message"], members["frame"])
    except (ValueError, KeyError, RecursionError):  # not a line that our recorder writes
        return None

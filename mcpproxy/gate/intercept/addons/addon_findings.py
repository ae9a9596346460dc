"""The findings of a recording that is still being written, for the hook ``finding`` of addons."""

import json
from typing import Any

from mcpproxy.addons import Finding


class FindingReader:
    """Reads the findings in the recording at ``path``. It need not be there yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0
        """Where the last whole line ended."""

    def read(self) -> list[Finding]:
        """Return the findings that were written since the last call."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                content = file.read()
        except OSError:
            return []
        lines = content[: content.rfind(b"\n") + 1]
        self._position += len(lines)
        found = [_finding(line) for line in lines.splitlines() if line.startswith(b'{"type":"finding"')]
        return [finding for finding in found if finding is not None]


def _finding(line: bytes) -> Finding | None:
    try:
        found: dict[str, Any] = json.loads(line)
        return Finding(found["rule"], found["blame"], found["message"], found["frame"])
    except (ValueError, KeyError, RecursionError):  # not one that our recorder writes
        return None

"""What a caller of mcpproxy may have to catch.

    McpProxyError
    └── TraceError       a recording that cannot be read, or not from here on

What a peer does wrong is never an exception: that is a finding.
"""


class McpProxyError(Exception):
    """The base of every error that is meant for people; its text is one line."""


class TraceError(McpProxyError):
    """A trace that cannot be used.

    ``line`` counts from 1; it is ``None`` when the file as a whole is the trouble. The text gives
    place, fact and next step: ``s.jsonl:118: not a trace record; the 117 records before it are whole``.
    """

    def __init__(self, path: str, line: int | None, fact: str, next_step: str) -> None:
        super().__init__(path, line, fact, next_step)
        self.path = path
        self.line = line
        self.fact = fact
        self.next_step = next_step

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.fact}; {self.next_step}"

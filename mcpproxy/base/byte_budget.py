"""A budget of bytes: what somebody else's data may become when it is decompressed or fetched.

A few kilobytes can become gigabytes, and many small files one full disk. So every decompressor and every
download of mcpproxy counts what comes out against a ``ByteBudget``, while it comes out.
"""


class ByteBudget:
    """``left`` is how many bytes may still come out; each byte that goes in allows ``ratio`` more."""

    __slots__ = ("left", "ratio")

    def __init__(self, limit: int, ratio: int = 0) -> None:
        self.left = limit
        self.ratio = ratio

    def receive(self, size: int) -> None:
        """Count bytes that go in."""
        self.left += self.ratio * size

    def take(self, size: int) -> bool:
        """Count bytes that come out, and return whether they were allowed."""
        self.left -= size
        return self.left >= 0

"""A limit on the bytes that foreign data may yield when it is decompressed or fetched.

A few kilobytes can decompress to gigabytes, and many small files can fill a disk. So code that decompresses
or fetches such data counts the output against a ``ByteBudget`` as it arrives.
"""


class ByteBudget:
    """Counts bytes. ``left`` bytes of output are still allowed; each byte of input allows ``ratio`` more."""

    __slots__ = ("left", "ratio")

    def __init__(self, limit: int, ratio: int = 0) -> None:
        self.left = limit
        self.ratio = ratio

    def receive(self, size: int) -> None:
        """Count ``size`` bytes of input."""
        self.left += self.ratio * size

    def take(self, size: int) -> bool:
        """Count ``size`` bytes of output, and return whether they were allowed."""
        self.left -= size
        return self.left >= 0

"""Read the bytes of a recording. Offsets count through all of its files, as if they were one."""

import os
import weakref
from bisect import bisect_right
from collections.abc import Iterator
from typing import BinaryIO, Final

from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.trace_file import open_file


class Source:
    """The files of an open recording.

    Raises:
        TraceError: one of them cannot be opened.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace: Final = trace
        self._files: Final[list[BinaryIO]] = []
        self.close: Final = weakref.finalize(self, _close_files, self._files)
        """Closes the files. They are also closed when this object is garbage-collected."""
        self._starts: Final[list[int]] = []
        """The offset at which each file begins."""
        if trace.is_import or trace.upgrade_steps:
            self._add_file(_temporary_copy(trace))
        else:
            for path in trace.readable_files:
                self._add_file(open_file(path))

    def _add_file(self, file: BinaryIO) -> None:
        self._starts.append(self.size)
        self._files.append(file)

    @property
    def size(self) -> int:
        """The number of bytes in all files; it grows while a recorder writes."""
        return self._starts[-1] + os.fstat(self._files[-1].fileno()).st_size if self._files else 0

    def add_files(self, paths: list[str]) -> None:
        """Add the files in which the recording was continued. ``paths`` are all of its files.

        Raises:
            TraceError: one of them cannot be opened.
        """
        for path in paths[len(self._files) :]:
            self._add_file(open_file(path))

    def has_files_of(self, trace: Trace) -> bool:
        """Whether ``trace``, the same recording opened again, still has the files of this source.

        It does not if a file was replaced or deleted.
        """
        for file, path in zip(self._files, trace.readable_files, strict=False):
            try:
                if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    return False
            except OSError:
                return False
        return len(self._files) <= len(trace.readable_files)

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes at ``offset``, fewer at the end of a file."""
        index = bisect_right(self._starts, offset) - 1
        file = self._files[index]
        file.seek(offset - self._starts[index])
        return file.read(length)

    def line_at(self, offset: int) -> bytes:
        """Return the line that begins at ``offset``; empty at the end of the recording."""
        index = bisect_right(self._starts, offset) - 1
        file = self._files[index]
        file.seek(offset - self._starts[index])
        return file.readline()

    def lines(self, offset: int) -> Iterator[bytes]:
        """Yield the lines from ``offset`` on.

        A last line without a line feed is left out: it is still being written.
        """
        for index in range(bisect_right(self._starts, offset) - 1, len(self._files)):
            file = self._files[index]
            file.seek(max(offset - self._starts[index], 0))
            for line in file:
                if not line.endswith(b"\n"):
                    return
                yield line


def _close_files(files: list[BinaryIO]) -> None:
    for file in files:
        file.close()


def _temporary_copy(trace: Trace) -> BinaryIO:
    """Return a temporary file that has an import, or a trace of an older format, in the current format."""
    import tempfile  # Imported here: our own recordings need no copy, and it takes 3 ms.

    from mcpproxy.record.trace.encode import encode_header

    file = tempfile.TemporaryFile(prefix="mcpproxy-")  # noqa: SIM115 - it lives as long as the source
    file.write(encode_header(trace.header))
    for _, line in trace.lines():
        file.write(line)
    return file

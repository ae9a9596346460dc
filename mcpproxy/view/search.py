"""Find a text in a recording: a scan of its bytes, without parsing them."""

from collections.abc import Generator, Iterable
from typing import Final

from mcpproxy.trace.decode import decode
from mcpproxy.trace.short_lines import Lines
from mcpproxy.view.calls import Progress
from mcpproxy.view.columns import Columns
from mcpproxy.view.source import Source

_MESSAGE: Final = b'"message":'


def search(
    columns: Columns, odd_lines: Iterable[int], source: Source, texts: tuple[str, ...]
) -> Generator[Progress, None, set[int]]:
    """Return the rows with a frame that has one of ``texts``, whatever the case of its ASCII letters."""
    wanted = [text.encode("utf-8").lower() for text in texts]
    found: set[int] = set()
    done = 0
    odd = set(odd_lines)
    for number, line in enumerate(source.lines(0)):
        if number >= columns.lines:
            break
        done += len(line)
        if (row := columns.line_row[number]) and row not in found:
            if number in odd:
                record = decode(line)
                content = (
                    b"\n".join(record.raws) if isinstance(record, Lines) else getattr(record, "raw", b"")
                )
            else:
                content = line[line.find(_MESSAGE) + len(_MESSAGE) :]
            if any(text in content.lower() for text in wanted):
                found.add(row)
        if number % 4096 == 0:
            yield Progress(done, source.size, len(found))
    return found

"""Find what the body of a request repeats of an earlier one, so that it is recorded once.

What is left out are the first items of arrays: messages, and tools. So what is recorded is JSON, with the new
items of the conversation.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import Frame
from mcpproxy.record.recorder.model.json_tree import JsonPlace, tree_of
from mcpproxy.record.trace.repeated_bodies import EarlierBodies, Shortened, may_be_repeated

_DEEPEST: Final = 2
"""How deep the arrays may be that are looked at: some services wrap the request."""

_SHORTEST: Final = 64
"""What is repeated must have so many bytes: the record says of each run where it is."""

_STEP: Final = 64 << 10

_MOST_VALUES: Final = 150_000
"""A body with more values is recorded whole."""


@slotted(frozen=True)
class _Body:
    """A body with its arrays: the path of each -> where its first item begins and its last one ends."""

    raw: bytes
    arrays: dict[str, tuple[int, int]]


class RepeatFinder:
    """Shortens the frames of one file. It is told of all of them, in order."""

    def __init__(self) -> None:
        self._earlier = EarlierBodies()
        self._read: dict[int, _Body] = {}

    def shortened(self, frame: Frame) -> Shortened | None:
        """Return a frame without what it repeats; ``None`` if it is to be recorded whole."""
        if not may_be_repeated(frame):
            return None
        arrays = _arrays(frame.raw)
        found: Shortened | None = None
        most = 0
        for seq, other in self._read.items():
            runs = sorted(_runs(frame.raw, arrays, other))
            if (size := sum(length for _, _, length in runs)) > most:
                most = size
                found = Shortened(_without(frame, runs), seq, tuple(runs))
        self._earlier.put(frame, found.base if found else 0)
        ends = {path: (items[0][0], items[-1][1]) for path, items in arrays.items()}
        self._read[frame.seq] = _Body(frame.raw, ends)
        self._read = {seq: read for seq, read in self._read.items() if seq in self._earlier}
        return found


def _arrays(raw: bytes) -> dict[str, list[tuple[int, int]]]:
    """Return the arrays of a body: the path of each -> where its items begin and end."""
    tree = tree_of(raw.decode("latin-1"), _MOST_VALUES)
    return {} if tree is None else dict(_arrays_in(tree, "", 1))


def _arrays_in(place: JsonPlace, path: str, depth: int) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    for one in place.inner:
        name = f"{path}/{one.name}"
        if one.kind == "[" and one.inner:
            quoted = [(item, item.kind == '"') for item in one.inner]
            yield name, [(item.start - quote, item.end + quote) for item, quote in quoted]
        elif one.kind == "{" and depth < _DEEPEST:
            yield from _arrays_in(one, name, depth + 1)


def _runs(
    raw: bytes, arrays: dict[str, list[tuple[int, int]]], other: _Body
) -> Iterator[tuple[int, int, int]]:
    """Yield what the arrays of a body have at their beginning as those of ``other`` have it."""
    for name, items in arrays.items():
        if (known := other.arrays.get(name)) is None:
            continue
        start, end, (known_start, known_end) = items[0][0], items[-1][1], known
        common = _common(raw, start, end, other.raw, known_start, known_end)
        count = sum(1 for _, item_end in items if item_end - start <= common)
        if not count:
            continue
        size = items[count - 1][1] - start
        # What is left is JSON only without the comma behind the last item, which may be elsewhere.
        comma = raw[start + size : items[count][0]] if count < len(items) else b""
        if (comma_at := other.raw.find(comma)) < 0:
            size, comma = items[count - 1][0] - start, b""
        if size < _SHORTEST:
            continue
        yield start, known_start, size
        if comma:
            yield start + size, comma_at, len(comma)


def _common(one: bytes, start: int, end: int, other: bytes, from_start: int, from_end: int) -> int:
    """Return how many bytes two parts of texts have in common at their beginning."""
    most = min(end - start, from_end - from_start)
    size = 0
    step = _STEP
    while step and size < most:
        step = min(step, most - size)
        if one[start + size : start + size + step] == other[from_start + size : from_start + size + step]:
            size += step
        else:
            step //= 2
    return size


def _without(frame: Frame, runs: list[tuple[int, int, int]]) -> Frame:
    parts: list[bytes] = []
    copied = 0
    for at, _, size in runs:
        parts.append(frame.raw[copied:at])
        copied = at + size
    raw = b"".join((*parts, frame.raw[copied:]))
    return Frame(
        frame.seq,
        frame.sender,
        raw,
        frame.observed_at_ns,
        exchange=frame.exchange,
        connection=frame.connection,
    )

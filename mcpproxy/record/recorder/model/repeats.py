"""Find the parts of a request's body that repeat an earlier body, so that they are recorded only once.

Each request to a language model repeats the conversation so far. Only the first items of arrays (messages and
tools) are left out, so the recorded rest is JSON, too, with the new items of the conversation.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import Frame
from mcpproxy.record.recorder.model.json_tree import JsonPlace, tree_of
from mcpproxy.record.trace.repeated_bodies import EarlierBodies, Shortened, may_be_repeated

_DEEPEST: Final = 2
"""How deep in a body arrays are searched for: some services wrap the request in an object."""

_SHORTEST: Final = 64
"""The shortest run of repeated bytes that is left out: the record must say where each run is."""

_STEP: Final = 64 << 10
"""How many bytes are compared at a time."""


@slotted(frozen=True)
class _Body:
    """An earlier body. ``arrays``: path of an array -> where its first item begins and its last item ends."""

    raw: bytes
    arrays: dict[str, tuple[int, int]]


class RepeatFinder:
    """Shortens the frames of one trace file. Call ``shortened`` with every frame of the file, in order."""

    def __init__(self) -> None:
        self._earlier = EarlierBodies()
        self._bodies: dict[int, _Body] = {}

    def shortened(self, frame: Frame) -> Shortened | None:
        """Return a frame without the parts that repeat an earlier one; ``None`` if it is not shortened."""
        if not may_be_repeated(frame):
            return None
        arrays = _arrays(frame.raw)
        shortest: Shortened | None = None
        most = 0
        for seq, other in self._bodies.items():
            runs = sorted(_repeated_runs(frame.raw, arrays, other))
            if (size := sum(length for _, _, length in runs)) > most:
                most = size
                shortest = Shortened(_without_runs(frame, runs), seq, tuple(runs))
        self._earlier.put(frame, shortest.base if shortest else 0)
        ends = {path: (items[0][0], items[-1][1]) for path, items in arrays.items()}
        self._bodies[frame.seq] = _Body(frame.raw, ends)
        self._bodies = {seq: read for seq, read in self._bodies.items() if seq in self._earlier}
        return shortest


def _arrays(raw: bytes) -> dict[str, list[tuple[int, int]]]:
    """Return the arrays of a body: the path of each -> where its items begin and end."""
    tree = tree_of(raw.decode("latin-1"))
    return {} if tree is None else dict(_arrays_in(tree, "", 1))


def _arrays_in(place: JsonPlace, path: str, depth: int) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    for inner in place.inner:
        name = f"{path}/{inner.name}"
        if inner.kind == "[" and inner.inner:
            quoted = [(item, item.kind == '"') for item in inner.inner]
            yield name, [(item.start - quote, item.end + quote) for item, quote in quoted]
        elif inner.kind == "{" and depth < _DEEPEST:
            yield from _arrays_in(inner, name, depth + 1)


def _repeated_runs(
    raw: bytes, arrays: dict[str, list[tuple[int, int]]], other: _Body
) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of bytes that the arrays of a body begin with, as in ``other``.

    A run is: where it begins in the body, where it begins in ``other``, and its length, all in bytes.
    """
    for name, items in arrays.items():
        if (known := other.arrays.get(name)) is None:
            continue
        start, end, (known_start, known_end) = items[0][0], items[-1][1], known
        common = _common_length(raw, start, end, other.raw, known_start, known_end)
        count = sum(1 for _, item_end in items if item_end - start <= common)
        if not count:
            continue
        size = items[count - 1][1] - start
        # The rest is JSON only without the comma after the last repeated item. In ``other`` that comma need
        # not follow the item, so take it from any place.
        comma = raw[start + size : items[count][0]] if count < len(items) else b""
        if (comma_at := other.raw.find(comma)) < 0:
            size, comma = items[count - 1][0] - start, b""
        if size < _SHORTEST:
            continue
        yield start, known_start, size
        if comma:
            yield start + size, comma_at, len(comma)


def _common_length(raw: bytes, start: int, end: int, other: bytes, other_start: int, other_end: int) -> int:
    """Return with how many equal bytes ``raw[start:end]`` and ``other[other_start:other_end]`` begin."""
    most = min(end - start, other_end - other_start)
    size = 0
    step = _STEP
    while step and size < most:
        step = min(step, most - size)
        if raw[start + size : start + size + step] == other[other_start + size : other_start + size + step]:
            size += step
        else:
            step //= 2
    return size


def _without_runs(frame: Frame, runs: list[tuple[int, int, int]]) -> Frame:
    """Return a copy of a frame without ``runs`` of its bytes."""
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

"""The frames of many recordings as one table.

A call of pyarrow takes as long for a recording of forty frames as for one of thousands. So the scans of all
recordings (``FrameScan``) are appended here, and made into columns at once.
"""

from array import array
from collections.abc import Iterable
from typing import Any, Final

from mcpproxy.judge.session.outcomes import Kind
from mcpproxy.read.view.index.columns import FROM_SERVER, KINDS, NO_CODE, OUTCOMES, WITHOUT_ANSWER
from mcpproxy.send.fleet.columns.arrow import Array, Table, pa, pc
from mcpproxy.send.fleet.columns.frame_scan import MESSAGE_KINDS, FrameScan
from mcpproxy.send.fleet.columns.schema import FRAMES

CALL_TOOL: Final = "tools/call"

_ARROW_TYPES: Final = {
    "B": pa.uint8(), "H": pa.uint16(), "I": pa.uint32(), "i": pa.int32(), "q": pa.int64(),
}  # fmt: skip
# Scalars of pyarrow, because for each number of Python it would look for pandas. ``_KIND_BITS`` are the bits
# of a row's kind without the flag ``FROM_SERVER``.
_REQUEST: Final[Any] = pa.scalar(MESSAGE_KINDS.index("request"), pa.uint8())
_ROW_REQUEST: Final[Any] = pa.scalar(KINDS.index(Kind.REQUEST), pa.uint8())
_KIND_BITS: Final[Any] = pa.scalar(0xFF & ~FROM_SERVER, pa.uint8())
_NO_CODE: Final[Any] = pa.scalar(NO_CODE, pa.int32())
_ZERO: Final[Any] = pa.scalar(0)
_NS_IN_US: Final[Any] = pa.scalar(1000)


class FrameBatch:
    """The frames of many recordings, in columns with a number for each recording, frame, row or name.

    A row is one of the recording's index (``read.view.index``): a request with its answer, or another record.
    """

    def __init__(self) -> None:
        self._recordings: Final[list[str]] = []
        # One number for each recording:
        self._started_us: Final[array[int]] = array("q")
        self._first_row: Final[array[int]] = array("q")
        self._first_name: Final[array[int]] = array("q")
        # One for each frame:
        self._recording: Final[array[int]] = array("i")
        self._seq: Final[array[int]] = array("q")
        self._call: Final[array[int]] = array("I")
        self._time_ns: Final[array[int]] = array("q")
        self._bytes: Final[array[int]] = array("I")
        self._kind: Final[array[int]] = array("B")
        self._is_of_client: Final[array[int]] = array("B")
        self._name: Final[array[int]] = array("H")
        self._exchange: Final[array[int]] = array("I")
        # One for each row:
        self._first_seq: Final[array[int]] = array("q")
        self._row_kind: Final[array[int]] = array("B")
        self._answer_line: Final[array[int]] = array("I")
        self._code: Final[array[int]] = array("i")
        self._session: Final[array[int]] = array("H")
        self._outcome: Final[array[int]] = array("B")
        self._latency_ns: Final[array[int]] = array("q")
        self._waited_ns: Final[array[int]] = array("q")
        self._answer_bytes: Final[array[int]] = array("I")
        # One for each name of a recording; -1 is none:
        self._method_of: Final[array[int]] = array("i")
        self._tool_of: Final[array[int]] = array("i")
        self._numbers_of: Final[dict[tuple[str, str | None], tuple[int, int]]] = {}
        """Method and target -> the numbers of the method and of the tool, -1 for none."""
        self._methods: Final[dict[str, int]] = {}
        self._tools: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._seq)

    def add(self, recording: str, started_us: int, scan: FrameScan) -> None:
        """Add the frames of a recording that began at ``started_us``: microseconds of Unix time."""
        columns = scan.columns
        count = len(scan.of_seq)
        self._recording.extend(array("i", [len(self._recordings)]) * count)
        self._recordings.append(recording)
        self._started_us.append(started_us)
        self._first_row.append(len(self._first_seq))
        self._first_name.append(len(self._method_of))
        self._seq.extend(scan.of_seq)
        self._call.extend(scan.of_index_row)
        self._time_ns.extend(scan.of_time_ns)
        self._bytes.extend(scan.of_bytes)
        self._kind.extend(scan.of_kind)
        self._is_of_client.extend(scan.is_of_client)
        self._name.extend(scan.of_name)
        self._exchange.extend(scan.of_exchange)
        self._first_seq.extend(scan.first_seq)
        self._row_kind.extend(columns.kind)
        self._answer_line.extend(columns.answer_line)
        self._code.extend(columns.code)
        self._session.extend(columns.session)
        self._outcome.extend(columns.outcome)
        self._latency_ns.extend(columns.latency_ns)
        self._waited_ns.extend(
            columns.waited_ns(row, scan.last_ns) if outcome in WITHOUT_ANSWER else -1
            for row, outcome in enumerate(columns.outcome)
        )
        self._answer_bytes.extend(columns.answer_bytes)
        for name in columns.names:
            numbers = self._numbers_of.get(name)
            if numbers is None:
                numbers = self._numbers_of[name] = self._numbers_for(*name)
            self._method_of.append(numbers[0])
            self._tool_of.append(numbers[1])

    def _numbers_for(self, method: str, target: str | None) -> tuple[int, int]:
        methods, tools = self._methods, self._tools
        is_tool = method == CALL_TOOL and target is not None
        return (
            methods.setdefault(text(method), len(methods)) if method else -1,
            tools.setdefault(text(target), len(tools)) if is_tool else -1,
        )

    def table(self) -> Table:
        """Return the frames as a table. Nothing can be added afterwards."""
        recording = _arrow(self._recording)
        call = pc.add(_arrow(self._call), pc.take(_arrow(self._first_row), recording))
        name = pc.add(_arrow(self._name), pc.take(_arrow(self._first_name), recording))
        kind = _arrow(self._kind)
        is_request = pc.equal(kind, _REQUEST)
        row_kinds = pc.bit_wise_and(_arrow(self._row_kind), _KIND_BITS)
        is_request = pc.and_(is_request, pc.equal(pc.take(row_kinds, call), _ROW_REQUEST))
        waited_ns = pc.take(_arrow(self._waited_ns), call)
        latency_ns = pc.take(_arrow(self._latency_ns), call)
        answered = pc.and_(is_request, pc.greater(pc.take(_arrow(self._answer_line), call), _ZERO))
        code = pc.take(_arrow(self._code), call)
        has_code = pc.and_(is_request, pc.not_equal(code, _NO_CODE))
        first_seq = pc.take(_arrow(self._first_seq), call)
        exchange = _arrow(self._exchange)
        started_us = pc.take(_arrow(self._started_us), recording)
        arrays = {
            "recording": _words(recording, self._recordings),
            "frame": _arrow(self._seq),
            "time": pc.add(pc.divide(_arrow(self._time_ns), _NS_IN_US), started_us),
            "sender": _words(_arrow(self._is_of_client), ("server", "client")),
            "kind": _words(kind, MESSAGE_KINDS),
            "method": _words(_with_nulls(pc.take(_arrow(self._method_of), name)), self._methods),
            "tool": _words(_with_nulls(pc.take(_arrow(self._tool_of), name)), self._tools),
            "session": pc.take(_arrow(self._session), call),
            "call": _where(pc.greater(first_seq, _ZERO), first_seq),
            "outcome": _words(_where(is_request, pc.take(_arrow(self._outcome), call)), OUTCOMES),
            "error_code": _where(has_code, code),
            "latency_ns": _where(pc.and_(answered, pc.greater_equal(latency_ns, _ZERO)), latency_ns),
            "waited_ns": _where(
                pc.and_(is_request, pc.and_not(pc.greater_equal(waited_ns, _ZERO), answered)), waited_ns
            ),
            "bytes": _arrow(self._bytes),
            "answer_bytes": _where(answered, pc.take(_arrow(self._answer_bytes), call)),
            "exchange": _where(pc.greater(exchange, _ZERO), exchange),
        }
        cast_arrays = [pc.cast(arrays[field.name], field.type) for field in FRAMES]
        return pa.Table.from_arrays(cast_arrays, schema=FRAMES)


def text(value: str | None) -> str:
    """Return a text whose lone surrogates, which UTF-8 cannot encode, are escaped; empty for ``None``."""
    return (value or "").encode("utf-8", "backslashreplace").decode()


def _arrow(values: "array[int]") -> Array:
    """Return a column without copying it."""
    kind = _ARROW_TYPES[values.typecode]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _words(numbers: Array, words: Iterable[str]) -> Array:
    """Return a column of texts: ``numbers`` are their positions in ``words``."""
    known = pa.array(list(words) or [""], pa.string())
    return pa.DictionaryArray.from_arrays(pc.cast(numbers, pa.int32()), known)


def _with_nulls(numbers: Array) -> Array:
    """Return ``numbers`` with null instead of -1."""
    return _where(pc.greater_equal(numbers, _ZERO), numbers)


def _where(condition: Array, values: Array) -> Array:
    """Return ``values`` with null where ``condition`` is false."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))

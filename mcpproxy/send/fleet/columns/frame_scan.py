"""The messages of a recording as columns, which are filled in the pass that makes its index.

A row is a message; a row of the index (``read.view.index``) is a request with its answer, or another record.
A batch has several rows with one frame number, and a frame that is not a message has one.
"""

from array import array
from typing import Any, Final

from mcpproxy.judge.session.frame import Frame
from mcpproxy.read.view.index.columns import LARGEST, Columns
from mcpproxy.read.view.index.scan import Scan
from mcpproxy.read.view.index.scan_messages import Seen
from mcpproxy.record.trace.short_lines import Lines

MESSAGE_KINDS: Final = ("request", "notification", "result", "error", "other")
_REQUEST, _NOTIFICATION, _RESULT, _ERROR, _OTHER = range(5)


class _NumberedColumns(Columns):
    """Columns that remember the last sequence number."""

    def __init__(self) -> None:
        super().__init__()
        self.last_seq = 0

    def put_seq(self, seq: int, line: int) -> None:
        self.last_seq = seq
        super().put_seq(seq, line)


class FrameScan(Scan):
    """A scan that also keeps a row for each message.

    The columns with ``of_``, and ``is_of_client``, have one number for each row. ``of_kind`` is a position in
    ``MESSAGE_KINDS``. Sizes and numbers of exchanges are at most ``LARGEST``; exchange 0 means none.
    """

    def __init__(self) -> None:
        self._numbered: Final = _NumberedColumns()
        super().__init__(self._numbered)
        self.of_seq: Final[array[int]] = array("q")
        self.of_index_row: Final[array[int]] = array("I")
        """The row of the index to which the message belongs; 0 if it belongs to none."""
        self.of_time_ns: Final[array[int]] = array("q")
        self.of_bytes: Final[array[int]] = array("I")
        self.of_kind: Final[array[int]] = array("B")
        self.is_of_client: Final[array[int]] = array("B")
        self.of_name: Final[array[int]] = array("H")
        """The position of the method and target in ``columns.names``; see ``no_name``."""
        self.of_exchange: Final[array[int]] = array("I")
        self.first_seq: Final[array[int]] = array("q", [0])
        """Row of the index -> number of its first frame; 0 if it has none."""
        self.no_name: Final = self._numbered.number_of("", None)
        """The name for messages of no known method, and for names that are too long or too many."""

    def _add_message(self, message: dict[str, Any], seen: Seen, line: bytes) -> int:
        row = super()._add_message(message, seen, line)
        if "method" in message:
            kind = _REQUEST if "id" in message else _NOTIFICATION
        elif "error" in message:
            kind = _ERROR
        else:
            kind = _RESULT if "result" in message else _OTHER
        columns = self._numbered
        if kind == _NOTIFICATION:
            method = message["method"]
            name = columns.number_of(method, None) if type(method) is str else self.no_name
        else:
            name = columns.name[row] if row else self.no_name
        line_of_seq = columns.line_of_seq
        seq = len(line_of_seq) - 1 if line_of_seq[-1] == seen.line else columns.last_seq
        self._add_row(seq, row, seen, kind, name)
        return row

    def _add_frame(self, frame: object, at: int) -> int:
        before = len(self.of_seq)
        row = super()._add_frame(frame, at)
        if isinstance(frame, Frame):
            if len(self.of_seq) == before:  # no message, or a piece of one
                seen = Seen(frame.sender == "client", at, frame.observed_at_ns, len(frame.raw))
                self._add_row(frame.seq, row, seen, _OTHER, self.no_name, frame.exchange)
            else:
                for index in range(before, len(self.of_seq)):
                    self.of_seq[index] = frame.seq
        return row

    def _add_short_lines(self, run: object, at: int) -> int:
        row = super()._add_short_lines(run, at)
        if isinstance(run, Lines) and run.source != "stderr":
            for seq, raw in enumerate(run.raws, start=run.seq):
                seen = Seen(run.source == "client", at, run.at_ns, len(raw))
                self._add_row(seq, row, seen, _OTHER, self.no_name)
        return row

    def _add_row(
        self, seq: int, row: int, seen: Seen, kind: int, name: int, exchange: int | None = None
    ) -> None:
        first_seq = self.first_seq
        if row >= len(first_seq):
            first_seq.extend([0] * (row - len(first_seq)))
            first_seq.append(seq)
        elif row and not first_seq[row]:
            first_seq[row] = seq
        self.of_time_ns.append(seen.at_ns)  # first: it raises OverflowError for a time that is too large
        self.of_seq.append(seq)
        self.of_index_row.append(row)
        self.of_bytes.append(seen.size if seen.size < LARGEST else LARGEST)
        self.of_kind.append(kind)
        self.is_of_client.append(seen.client)
        self.of_name.append(name)
        if exchange is None:
            exchange = seen.exchange.number if seen.exchange is not None else 0
        self.of_exchange.append(exchange if exchange < LARGEST else LARGEST)

    def finish(self) -> None:
        """Complete ``first_seq`` after the last line."""
        self.first_seq.extend([0] * (self.columns.rows + 1 - len(self.first_seq)))

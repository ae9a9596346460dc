"""Hold the index of a recording: numbers about each line and each row, in columns.

A row is a request with its answer, or a record that is not part of a request. A column is an ``array``. All
columns of a million calls take about 80 MB; a list of objects would take ten times as much. Rows are numbered
from 1 (number 0 is not used). Lines are numbered from 0, which is the header; in a rotated recording the
count continues in the next file.
"""

from array import array
from collections.abc import Iterable
from typing import Final

from mcpproxy.judge.session.frame import WORST_FIRST, Sender, Severity
from mcpproxy.judge.session.outcomes import ERRORS, Kind, Outcome

KINDS: Final = tuple(Kind)
OUTCOMES: Final = tuple(Outcome)
SEVERITIES: Final[tuple[Severity | None, ...]] = (None, *reversed(WORST_FIRST))
"""The columns ``kind``, ``outcome`` and ``severity`` hold positions in these three tuples.

Severities are in rising order.
"""
WITHOUT_ANSWER: Final = frozenset(map(OUTCOMES.index, (Outcome.UNANSWERED, Outcome.CANCELLED)))
"""The numbers of the outcomes of requests that only waited. A cancelled one may still have an answer."""

FAILED: Final = frozenset(map(OUTCOMES.index, ERRORS))
"""The numbers of the outcomes of failed calls."""

FROM_SERVER: Final = 0x80
"""Added to the kind of a row whose sender is the server."""
REQUESTS: Final = frozenset({KINDS.index(Kind.REQUEST), KINDS.index(Kind.REQUEST) | FROM_SERVER})
"""What the column ``kind`` holds for a request of either side."""

NO_CODE: Final = -(1 << 31)
"""In the column ``code``: there is no error code."""
_LARGEST_CODE: Final = (1 << 31) - 1
LARGEST: Final = (1 << 32) - 1
"""The largest size that is stored. A larger one is stored as this number."""

MAX_NAMES: Final = 60_000
_LONGEST_NAME: Final = 512
"""How many pairs of method and target get a number, and how many characters such a pair may have. Other pairs
are read from the trace when they are needed."""

_MOST_MISSING_SEQS: Final = 1 << 16
"""If more numbers than this are missing before a sequence number, it is put into ``far_seqs``."""

COLUMNS: Final = (
    ("line_offset", "Q"),
    ("line_row", "I"),
    ("line_of_seq", "I"),
    ("first_line", "I"),
    ("answer_line", "I"),
    ("started_ns", "q"),
    ("latency_ns", "q"),
    ("request_bytes", "I"),
    ("answer_bytes", "I"),
    ("name", "H"),
    ("outcome", "B"),
    ("kind", "B"),
    ("session", "H"),
    ("code", "i"),
    ("findings", "H"),
    ("severity", "B"),
    ("parent", "I"),
    ("progress", "I"),
)
"""All columns with their types. Those before ``first_line`` are about lines, the others about rows."""


class Columns:
    """The columns. Those that have the name of a member of ``calls.Call`` hold it as a number.

    A row without an answer has ``answer_line`` 0. Its ``latency_ns`` is -1 while it waits, or the time until
    it was cancelled or its HTTP exchange ended. With an answer, -1 means that the latency is not known.
    """

    def __init__(self) -> None:
        self.line_offset: array[int] = array("Q")
        """The offset at which each line begins. Offsets count through all files of the recording."""
        self.line_row: array[int] = array("I")
        """The row that the line belongs to; 0 if it belongs to none."""
        self.line_of_seq: array[int] = array("I", [0])
        """The line of each sequence number, the number of a frame or HTTP head; 0 if there is none."""
        self.first_line: array[int] = array("I", [0])
        self.answer_line: array[int] = array("I", [0])
        self.started_ns: array[int] = array("q", [0])
        self.latency_ns: array[int] = array("q", [-1])
        self.request_bytes: array[int] = array("I", [0])
        self.answer_bytes: array[int] = array("I", [0])
        self.name: array[int] = array("H", [0])
        """The position in ``names`` of the method and target."""
        self.outcome: array[int] = array("B", [0])
        self.kind: array[int] = array("B", [0])
        self.session: array[int] = array("H", [0])
        self.code: array[int] = array("i", [NO_CODE])
        self.findings: array[int] = array("H", [0])
        self.severity: array[int] = array("B", [0])
        self.parent: array[int] = array("I", [0])
        self.progress: array[int] = array("I", [0])
        """The line of the last progress notification of the call; 0 if there is none."""
        self.names: list[tuple[str, str | None]] = []
        self.unnamed = -1
        """The position in ``names`` that all pairs beyond the limits share; -1 if there are none."""
        self.elements: dict[int, int] = {}
        """Row -> position of its request in the batch that contained the request."""
        self.answer_elements: dict[int, int] = {}
        """Row -> position of its answer in the batch that contained the answer."""
        self.faults: dict[int, list[int]] = {}
        """Row -> lines of its frames that a fault rule, a breakpoint or an addon acted on: those that the
        sender sent, and those that mcpproxy gave instead."""
        self.far_seqs: dict[int, int] = {}
        """Sequence number -> line, for negative numbers, and for those too far beyond the last one in
        ``line_of_seq``."""
        self._number_of: dict[tuple[str, str | None], int] = {}

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.first_line) - 1

    @property
    def lines(self) -> int:
        """How many lines there are, the header included."""
        return len(self.line_row)

    def waited_ns(self, row: int, now_ns: int) -> int:
        """Return how long a row without an answer waited; if it still waits, until ``now_ns``."""
        waited_ns = self.latency_ns[row]
        return waited_ns if waited_ns >= 0 else max(now_ns - self.started_ns[row], 0)

    def add(
        self,
        kind: int,
        line: int,
        at_ns: int,
        name: int,
        size: int,
        session: int,
        outcome: int,
        parent: int = 0,
    ) -> int:
        """Add a row and return its number. The arguments are its values; ``size`` is ``request_bytes``.

        Raises:
            OverflowError: ``at_ns`` is too large for the column; nothing was added.
        """
        number = len(self.first_line)
        self.started_ns.append(at_ns)  # first: it raises OverflowError for a time that is too large
        self.first_line.append(line)
        self.answer_line.append(0)
        self.latency_ns.append(-1)
        self.request_bytes.append(size)
        self.answer_bytes.append(0)
        self.name.append(name)
        self.outcome.append(outcome)
        self.kind.append(kind)
        self.session.append(session)
        self.code.append(NO_CODE)
        self.findings.append(0)
        self.severity.append(0)
        self.parent.append(parent)
        self.progress.append(0)
        return number

    def number_of(self, method: str, target: str | None) -> int:
        """Return the position in ``names`` of a method with its target; add the pair if it is new."""
        number = self._number_of.get((method, target))
        return self._new_name(method, target) if number is None else number

    def _new_name(self, method: str, target: str | None) -> int:
        is_long = len(method) + len(target or "") > _LONGEST_NAME
        if len(self.names) >= MAX_NAMES or is_long:
            # All such pairs share one number; they are read from the trace when they are needed.
            if (number := self._number_of.get(("", None))) is None:
                number = self._add_name(("", None))
                self.unnamed = number
            return number
        return self._add_name((method, target))

    def _add_name(self, key: tuple[str, str | None]) -> int:
        number = self._number_of[key] = len(self.names)
        self.names.append(key)
        return number

    def put_seq(self, seq: int, line: int) -> None:
        """Store that the record ``seq`` is on ``line``. If a number occurs twice, its first line counts."""
        line_of_seq = self.line_of_seq
        missing = seq - len(line_of_seq)
        if missing == 0:
            line_of_seq.append(line)
        elif missing > _MOST_MISSING_SEQS or seq < 0:
            self.far_seqs.setdefault(seq, line)
        elif missing > 0:
            line_of_seq.extend([0] * missing)
            line_of_seq.append(line)
        elif not line_of_seq[seq]:
            line_of_seq[seq] = line

    def line_with(self, seq: int) -> int:
        """Return the line of a sequence number; 0 if no record has it."""
        if 0 <= seq < len(self.line_of_seq) and (line := self.line_of_seq[seq]):
            return line
        return self.far_seqs.get(seq, 0)

    def row_of(self, seq: int) -> int:
        """Return the row to which the record with a sequence number belongs; 0 if it belongs to none."""
        line = self.line_with(seq)
        return self.line_row[line] if line else 0

    def seqs_of(self, rows: Iterable[int]) -> list[int]:
        """Return the sequence numbers of all records of ``rows``, in order."""
        wanted = set(rows)
        # The line of a batch belongs to its first row; here it counts for every row of the batch.
        batches = {self.first_line[row] for row in self.elements.keys() & wanted}
        batches |= {self.answer_line[row] for row in self.answer_elements.keys() & wanted}

        def belongs(line: int) -> bool:
            return self.line_row[line] in wanted or line in batches

        seqs = [seq for seq, line in enumerate(self.line_of_seq) if line and belongs(line)]
        return seqs + sorted(seq for seq, line in self.far_seqs.items() if belongs(line))

    def kind_of(self, row: int) -> Kind:
        """Return the kind of a row."""
        return KINDS[self.kind[row] & ~FROM_SERVER]

    def method(self, row: int) -> str:
        """Return the method of a row; empty if it has no number of its own."""
        return self.names[self.name[row]][0]

    def sender_of(self, row: int) -> Sender:
        """Return the peer that sent the first record of a row."""
        return "server" if self.kind[row] & FROM_SERVER else "client"


def code_of(value: object) -> int:
    """Return the code of an error as the column stores it.

    A number that is too large becomes the nearest that fits, and a value that is not an integer ``NO_CODE``.
    """
    if type(value) is not int:
        return NO_CODE
    return max(NO_CODE + 1, min(value, _LARGEST_CODE))

"""The index of a recording: what is known of each line and of each row, in columns.

A column is an ``array``: a million calls take about 80 MB with all columns, a list of objects would take ten
times as much. A row is found by its number, which counts from 1 (number 0 is not used). A line is found by
its place in the recording: the header is line 0, and a rotated recording goes on counting in the next file.
"""

from array import array
from typing import Final

from mcpproxy.session.frame import Sender, Severity
from mcpproxy.view.calls import Kind, Outcome

KINDS: Final = tuple(Kind)
OUTCOMES: Final = tuple(Outcome)
SEVERITIES: Final[tuple[Severity | None, ...]] = (None, "info", "warning", "error")
"""What the numbers in the columns mean; ``SEVERITIES`` from the mildest to the worst."""

FROM_SERVER: Final = 0x80
"""Added to the kind of a row whose sender is the server."""

NO_CODE: Final = -(1 << 31)
_LARGEST_CODE: Final = (1 << 31) - 1
LARGEST: Final = (1 << 32) - 1
"""A size or count that is larger is stored as this."""

MAX_NAMES: Final = 60_000
_LONGEST_NAME: Final = 512
"""How many pairs of method and target have a number, and how many characters such a pair may have. Any other
is read from the trace when it is needed."""

_DENSE: Final = 1 << 16
"""How many sequence numbers may be missing between two records before they are kept in a dictionary."""

TARGETS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}
"""Method -> the member of its params that says what it is about."""

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
)
"""All columns with their types; from ``first_line`` on they are those of rows."""


class Columns:
    """The columns. ``latency_ns`` is -1, and ``answer_line`` 0, for a row without an answer."""

    def __init__(self) -> None:
        self.line_offset: array[int] = array("Q")
        """Where each line begins: the offset in all files of the recording, one after the other."""
        self.line_row: array[int] = array("I")
        """The row that the line belongs to; 0 if it belongs to none."""
        self.line_of_seq: array[int] = array("I", [0])
        """The line of each sequence number; 0 if there is none."""
        self.first_line: array[int] = array("I", [0])
        self.answer_line: array[int] = array("I", [0])
        self.started_ns: array[int] = array("q", [0])
        self.latency_ns: array[int] = array("q", [-1])
        self.request_bytes: array[int] = array("I", [0])
        self.answer_bytes: array[int] = array("I", [0])
        self.name: array[int] = array("H", [0])
        """The number in ``names`` of the method and target."""
        self.outcome: array[int] = array("B", [0])
        self.kind: array[int] = array("B", [0])
        self.session: array[int] = array("H", [0])
        self.code: array[int] = array("i", [NO_CODE])
        self.findings: array[int] = array("H", [0])
        self.severity: array[int] = array("B", [0])
        self.parent: array[int] = array("I", [0])
        self.names: list[tuple[str, str | None]] = []
        self.unnamed = -1
        """The number in ``names`` of all methods and targets without a number; -1 if there are none."""
        self.elements: dict[int, int] = {}
        """Row -> which element of a batch its request is."""
        self.answer_elements: dict[int, int] = {}
        self.far_seqs: dict[int, int] = {}
        """Sequence number -> line, for numbers that leave a large hole."""
        self._number_of: dict[tuple[str, str | None], int] = {}

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.first_line) - 1

    @property
    def lines(self) -> int:
        """How many lines there are, the header included."""
        return len(self.line_row)

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
        """Add a row and return its number."""
        number = len(self.first_line)
        self.started_ns.append(at_ns)  # first, because a time that is too large is refused
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
        return number

    def number_of(self, method: str, target: str | None) -> int:
        """Return the number of a method with its target, which is added if it is new."""
        number = self._number_of.get((method, target))
        return self._new_name(method, target) if number is None else number

    def _new_name(self, method: str, target: str | None) -> int:
        is_long = len(method) + len(target or "") > _LONGEST_NAME
        if len(self.names) >= MAX_NAMES or is_long:
            # The name is read from the trace where it is needed.
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
        """Remember that the record with this sequence number is on ``line``; the first one counts."""
        found = self.line_of_seq
        missing = seq - len(found)
        if missing == 0:
            found.append(line)
        elif missing > _DENSE or seq < 0:
            self.far_seqs.setdefault(seq, line)
        elif missing > 0:
            found.extend([0] * missing)
            found.append(line)
        elif not found[seq]:
            found[seq] = line

    def line_with(self, seq: int) -> int:
        """Return the line of a sequence number; 0 if no record has it."""
        if 0 <= seq < len(self.line_of_seq) and (line := self.line_of_seq[seq]):
            return line
        return self.far_seqs.get(seq, 0)

    def kind_of(self, row: int) -> Kind:
        """Return the kind of a row."""
        return KINDS[self.kind[row] & ~FROM_SERVER]

    def sender_of(self, row: int) -> Sender:
        """Return who sent the request, or the orphan."""
        return "server" if self.kind[row] & FROM_SERVER else "client"


def code_of(value: object) -> int:
    """Return the code of an error as it is stored: the nearest number that fits, ``NO_CODE`` for others."""
    if type(value) is not int:
        return NO_CODE
    return max(NO_CODE + 1, min(value, _LARGEST_CODE))

"""Which line of what a program wrote to stderr says what went wrong."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.base.patterns import pattern

_MOST_LINES: Final = 400
"""How many lines at the end are searched."""
_LONG: Final = 240
"""To a line of so many characters nothing is added; of what goes on, lines that are indented are left out."""
_WRAPPED_FROM: Final = 40
"""Text that is wrapped has lines of at least so many characters."""

_LINE_BYTES: Final = 1024
"""How much is kept of the beginning of each line."""


class LastLines:
    """The last lines of a stderr; it is empty, and false, before the first one."""

    def __init__(self) -> None:
        self._lines: Final[deque[bytes]] = deque(maxlen=_MOST_LINES)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, *lines: bytes) -> None:
        """Take up lines, with or without their line feed."""
        self._lines.extend(bytes(line[:_LINE_BYTES]) for line in lines[-_MOST_LINES:])

    def has(self, wanted: "re.Pattern[bytes]") -> bool:
        """Whether a pattern is found in them."""
        return wanted.search(b"\n".join(self._lines)) is not None

    def telling(self, most: int) -> str:
        """Return the line that says what went wrong, at most so many characters of it."""
        told = telling_line([line.decode("utf-8", "backslashreplace").rstrip() for line in self._lines])
        return told if len(told) <= most else f"{told[:most]}…"


def telling_line(lines: Sequence[str], *, only_errors: bool = False, known: str = "") -> str:
    """Return the last line that names an error; if there is none, the last one that is not blank.

    What goes on in the next lines is one line: a value laid out over lines, text that is indented or wrapped.
    An error of Python or Node.js with another one as its cause is said with that: ``A: …, caused by B: …``;
    so is a group of errors with its first one. A frame of a stack trace names no error. Errors that say no
    more than ``known`` are left out, unless there is nothing else to return. Of what npm says of an error it
    is the first sentence, unless the program that it had started named one.
    """
    last = _unbroken(_continued(_without_frames(_causes_first(_npm_last(lines[-_MOST_LINES:])))))
    all_errors = list(_errors(last))
    errors = [line for line in all_errors if not known or not (line in known or known in line)]
    if errors := errors or ([] if only_errors else all_errors):
        return ", caused by ".join((errors[0], *errors[1:][-1:]))
    return "" if only_errors or not last else last[-1]


def _npm_last(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines without what npm says of an error, but for its first sentence: if a line of another
    program names an error, none of it, as npm says of its script then that it has failed.
    """
    said = [found for line in lines if (found := _NPM.match(line))]
    if not said:
        return lines
    others = [line for line in lines if not _NPM.match(line)]
    sentence = next((found.string for found in said if found["sentence"]), said[0].string)
    return others if _last(others, len(others), _NAMES_AN_ERROR) >= 0 else [*others, sentence.strip()]


def _causes_first(lines: Sequence[str]) -> list[str]:
    """Return the lines with the first error of a group before the group, where Python writes a cause.

    Python and rich write the errors of a group below it, each in a block: beside a bar, or in a box. Their
    lines keep their columns; the other errors are left out.
    """
    told: list[str] = []
    at = 0
    while at < len(lines):
        begin, corner = at, _BLOCK.match(lines[at])
        at += 1
        if corner is None:
            told.append(lines[begin])
            continue
        column = corner.start("corner")
        while at < len(lines) and _is_in_block(lines[at], column):
            at += 1
        indent = " " * (column + 1)
        block = [f"{indent}{line.rstrip()[column + 1 :].removesuffix('│')}" for line in lines[begin:at]]
        if corner["number"] is None:
            told += _causes_first(block)
        elif corner["number"] == "1":
            place = max(_last(told, len(told), TRACEBACK), 0)
            told[place:place] = [*_causes_first(block[1:]), _CAUSED_WORDS]
    return told


def _is_in_block(line: str, column: int) -> bool:
    """Whether a line is in the block whose bar, or whose box, is in a column, or in a block within it."""
    bar = line[column : column + 1]
    is_within = line.startswith("+-+", column) or (bar == " " and line.lstrip()[:1] in ("|", "+"))
    return not line[:column].strip() and (bar in ("|", "│") or is_within)


def _without_frames(lines: Sequence[str]) -> list[str]:
    """Return the lines without the frames of stack traces, in whose place is a blank line.

    Node.js writes the members of an error in braces behind the last frame. They are left out, too; a cause
    among them is put before the error, where Python writes it.
    """
    told: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not _is_frame(line):
            told.append(line)
            continue
        told.append("")
        column = max(_indent(line) - _OF_FRAME, 0)  # that of the error
        end = _after_brace(lines, at, column) if line.rstrip().endswith("{") else at
        if cause := _cause_among(lines[at:end], column + _OF_MEMBER):
            error = next((n for n in range(len(told) - 1, -1, -1) if _names_error_at(told[n], column)), None)
            if error is not None:
                told[error:error] = [*_without_frames(cause), _CAUSED_WORDS, _TRACEBACK_WORDS]
        at = end
    return told


def _is_frame(line: str) -> bool:
    begin = _FRAME.match(line)
    return bool(begin and (begin["more"] or _PLACE.search(line[-_OF_PLACE:])))


def _after_brace(lines: Sequence[str], begin: int, column: int) -> int:
    """Return the place of the line after the one that closes a brace; ``begin`` if none does."""
    closing = " " * column + "}"
    return next((at + 1 for at in range(begin, len(lines)) if lines[at].startswith(closing)), begin)


def _cause_among(members: Sequence[str], column: int) -> list[str]:
    """Return the lines of the cause among the members of an error, which stand in a column."""
    cause: list[str] = []
    for line in members:
        if cause and _indent(line) <= column and line.lstrip()[:1] not in (*")]}", ""):
            break
        if cause:
            cause.append(line)
        elif _indent(line) == column and (found := _CAUSE.match(line)):
            cause.append(" " * column + found["error"])
    return cause


def _names_error_at(line: str, column: int) -> bool:
    return _indent(line) == column and bool(_NAMES_AN_ERROR.search(line))


def _continued(lines: Sequence[str]) -> list[str]:
    """Return the lines, each that names an error with those in which it goes on."""
    whole: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if _NAMES_AN_ERROR.search(line) and not _STANDS_ALONE.match(line, _indent(line)):
            ends_traceback = bool(whole) and _indent(whole[-1]) > _indent(line)
            while at < len(lines) and _goes_on(line, lines[at], ends_traceback):
                if len(line) < _LONG:
                    line = f"{line} {lines[at][_indent(lines[at]) :].rstrip()}"
                elif _indent(lines[at]) <= _indent(line):
                    break
                at += 1
        whole.append(line)
    return whole


def _goes_on(line: str, next: str, ends_traceback: bool) -> bool:
    """Whether a line goes on in the next one, as its columns or its words show."""
    indent = _indent(next)
    if indent == len(next) or _STANDS_ALONE.match(next, indent) or _BEGINS.match(next, indent):
        return False
    deeper = indent - _indent(line)
    if deeper or next[indent] in ")]}":
        return deeper >= 0
    if _UNFINISHED.search(line):
        return True
    is_long = ends_traceback and len(line) >= _WRAPPED_FROM and line[-1] not in ".!?"
    return is_long and bool(_WITHIN_A_SENTENCE.match(next, indent))


def _indent(line: str) -> int:
    """Return where the text of a line begins. A tab may be an escape."""
    blanks = _BLANKS.match(line)
    return blanks.end() if blanks else 0


def _unbroken(lines: Sequence[str]) -> list[str]:
    """Return the lines that are not blank, without spaces around them; what rich has broken is one line.

    The SDK for Python logs by rich, which writes a traceback as a box in a column between others, 37
    characters wide unless a terminal or ``COLUMNS`` says otherwise, and below it the error as broken text.
    """
    whole: list[str] = []
    column = 0  # where the text below a box begins; 0 if there is no such text
    is_begun = False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            is_begun = False
        elif text[0] in "╭│╰":
            whole.append(text)
            column, is_begun = indent, False
        elif column and indent == column and is_begun:
            whole[-1] += f" {text}"
        else:
            whole.append(text)
            is_begun = column == indent
            column = column if is_begun else 0
    return whole


def _errors(lines: Sequence[str]) -> Iterator[str]:
    """Yield the last line that names an error, and if a traceback ends with it, those of its causes."""
    end = len(lines)
    while (at := _last(lines, end, _NAMES_AN_ERROR)) >= 0:
        yield lines[at]
        begin = _last(lines, at, TRACEBACK)
        end = _last(lines, begin, _CAUSED)
        if end < max(begin - _LINES_OF_CAUSED, 0):
            return


def _last(lines: Sequence[str], end: int, wanted: "re.Pattern[str]") -> int:
    """Return the place of the last line before ``end`` in which a pattern is found; -1 if there is none."""
    return next((at for at in range(end - 1, -1, -1) if wanted.search(lines[at])), -1)


_BLOCK: Final = pattern(
    r"\s*(?:\+?-)?(?P<corner>[+╭])"
    r"(?: Exception Group Traceback \(most recent call last\):"
    r"|[-─]+ (?:Sub-exception #)?(?P<number>\d+|\.\.\.) [-─]+╮?)\s*$"
)
"""What a group of errors begins with, or one of its errors, and where: the bar or the box is below it."""
_NPM: Final = pattern(
    r"\s*npm (?:error|ERR!)(?!\S)"
    r"(?: (?!(?:code|syscall|path|dest|errno|signal|command|workspace|location) )(?P<sentence>\S+ .*\S))?"
)
"""A line of an error of npm, and whether it is more than a value with its name."""
TRACEBACK: Final = pattern(r"Traceback \(most recent call last\)|╭─+ Traceback")
_CAUSED: Final = pattern(r"above exception was the direct cause")
"""What Python writes between the traceback of a cause and that of the error which was raised from it."""
_CAUSED_WORDS: Final = "The above exception was the direct cause of the following exception:"
_TRACEBACK_WORDS: Final = "Traceback (most recent call last):"
_FRAME: Final = pattern(r"(?:\s|\\t)+(?:(?P<more>\.\.\. \d+ (?:more|lines matching)\b)|at \S)")
"""What a frame of a stack trace of Node.js, Java or .NET begins with; or with ``more``, a row of frames,"""
_PLACE: Final = pattern(
    r"(?::\d+:\d+|:line \d+|:\d+\)|\((?:<anonymous>|native|Native Method|Unknown Source)\)),?(?: \{)?\s*$"
)
"""and what it ends with,"""
_OF_PLACE: Final = 60
"""which is in so many characters."""
_OF_FRAME: Final = 4
"""How much further in than its error Node.js writes a frame,"""
_OF_MEMBER: Final = 2
"""and a member of the error."""
_CAUSE: Final = pattern(r"\s*(?:\[cause\]|cause): (?P<error>\[?[\w$.]*(?:Error|Exception)\b.*)$")
_LINES_OF_CAUSED: Final = 2
"""On how many lines it stands; rich breaks it in a narrow column."""
_NAMES_AN_ERROR: Final = pattern(
    r"\b\w*(?:error|exception(?:group)?|panic|panicked|fatal|failed|failure|errno)\b", re.IGNORECASE
)
_BLANKS: Final = pattern(r"(?:\s|\\t)*")
_STANDS_ALONE: Final = pattern(r"[│╭╰|+^~]|The above exception|During handling")
"""A line of a box or of marks, or one of Python's between two tracebacks."""
_BEGINS: Final = pattern(
    r"at |File \"|\.\.\. |Traceback|Caused by|(?:note|help|hint)\b"
    r"|\[?(?:\d{4}-|\d\d:\d\d|\d\d/\d\d)|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
    r"|[\w.]+(?:Error|Exception|ExceptionGroup)\b",
    re.IGNORECASE,
)
"""What a frame of a traceback begins with, or another line of a log, or another error."""
_UNFINISHED: Final = pattern(r"[:=,({\[]$|\d validation errors? for \S+$")
"""How a line ends that says nothing without the next one; pydantic names the place there."""
_WITHIN_A_SENTENCE: Final = pattern(r"[a-z]+ (?!.*\w=)")
"""How the second line of text begins that was wrapped, and a line of a log seldom does."""

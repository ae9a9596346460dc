"""Find the line of a program's stderr that says what went wrong: the telling line."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.base.patterns import pattern

_MOST_LINES: Final = 400
"""How many lines, counted from the end, are searched at most."""
_LONG_LINE: Final = 240
"""In characters: a line so long is not joined with further lines; those indented more deeply are dropped."""
_WRAPPED_FROM: Final = 40
"""In characters: a shorter line is not wrapped text."""

_LINE_BYTES: Final = 1024
"""The number of bytes of each line that are kept, counted from its beginning."""


class LastLines:
    """The last lines of a stderr stream. The object is false until the first line."""

    def __init__(self) -> None:
        self._lines: Final[deque[bytes]] = deque(maxlen=_MOST_LINES)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, *lines: bytes) -> None:
        """Add lines, with or without their line feeds."""
        self._lines.extend(bytes(line[:_LINE_BYTES]) for line in lines[-_MOST_LINES:])

    def has(self, wanted: "re.Pattern[bytes]") -> bool:
        """Whether the pattern ``wanted`` matches somewhere in the lines."""
        return wanted.search(b"\n".join(self._lines)) is not None

    def telling(self, most: int) -> str:
        """Return the telling line, cut after ``most`` characters with an ellipsis; empty without lines."""
        line = telling_line([raw.decode("utf-8", "backslashreplace").rstrip() for raw in self._lines])
        return line if len(line) <= most else f"{line[:most]}…"


def telling_line(lines: Sequence[str], *, only_errors: bool = False, known: str = "") -> str:
    """Return the last line that names an error, or else the last line that is not blank.

    A line and its continuation lines (a value over several lines, indented or wrapped text) count as one
    line. If an error of Python or Node.js has a cause, the result names both: ``A: …, caused by B: …``; of a
    chain of causes it names the root. A group of errors is named with its first error in the same way.
    Frames of stack traces never count as errors. Errors that contain the text ``known``, or are contained in
    it, are skipped if there are others. With ``only_errors`` they are always skipped, and the result is empty
    if no other line names an error. npm's own errors count only if the program that npm started names none;
    the result is then npm's first sentence. The result is empty, too, if all lines are blank.
    """
    last = _unbroken(_join_continuations(_without_frames(_causes_first(_npm_last(lines[-_MOST_LINES:])))))
    all_errors = list(_errors(last))
    errors = [line for line in all_errors if not known or not (line in known or known in line)]
    if errors := errors or ([] if only_errors else all_errors):
        return ", caused by ".join((errors[0], *errors[1:][-1:]))
    return "" if only_errors or not last else last[-1]


def _npm_last(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines without npm's errors, but with the first sentence of those at the end.

    If another program names an error, the sentence is left out, too: it only says that npm's script failed.
    """
    npm_errors = [match for line in lines if (match := _NPM.match(line))]
    if not npm_errors:
        return lines
    others = [line for line in lines if not _NPM.match(line)]
    sentence = next((match.string for match in npm_errors if match["sentence"]), npm_errors[0].string)
    has_error = _last_match(others, len(others), _NAMES_AN_ERROR) >= 0
    return others if has_error else [*others, sentence.strip()]


def _causes_first(lines: Sequence[str]) -> list[str]:
    """Return the lines with the first error of each exception group moved before the group, like a cause.

    Python and rich write the errors of a group below it, each in a block: beside a vertical bar (Python) or
    in a box (rich). The lines of the first error keep their columns; the group's other errors are left out.
    """
    result: list[str] = []
    at = 0
    while at < len(lines):
        begin, corner = at, _BLOCK.match(lines[at])
        at += 1
        if corner is None:
            result.append(lines[begin])
            continue
        column = corner.start("corner")
        while at < len(lines) and _is_in_block(lines[at], column):
            at += 1
        indent = " " * (column + 1)
        block = [f"{indent}{line.rstrip()[column + 1 :].removesuffix('│')}" for line in lines[begin:at]]
        if corner["number"] is None:
            result += _causes_first(block)
        elif corner["number"] == "1":
            place = max(_last_match(result, len(result), TRACEBACK), 0)
            result[place:place] = [*_causes_first(block[1:]), _CAUSED_WORDS]
    return result


def _is_in_block(line: str, column: int) -> bool:
    """Whether a line is in the block whose bar or box begins at ``column``, or in a block inside it."""
    bar = line[column : column + 1]
    is_within = line.startswith("+-+", column) or (bar == " " and line.lstrip()[:1] in ("|", "+"))
    return not line[:column].strip() and (bar in ("|", "│") or is_within)


def _without_frames(lines: Sequence[str]) -> list[str]:
    """Return the lines with a blank line in place of each frame of a stack trace.

    Node.js writes the members of an error in braces after the last frame. They are left out, too, but a cause
    among them is moved before the error, where Python writes causes.
    """
    result: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not _is_frame(line):
            result.append(line)
            continue
        result.append("")
        column = max(_indent(line) - _FRAME_INDENT, 0)  # of the error
        end = _after_brace(lines, at, column) if line.rstrip().endswith("{") else at
        if cause := _cause_among(lines[at:end], column + _MEMBER_INDENT):
            backwards = range(len(result) - 1, -1, -1)
            error = next((index for index in backwards if _names_error_at(result[index], column)), None)
            if error is not None:
                result[error:error] = [*_without_frames(cause), _CAUSED_WORDS, _TRACEBACK_WORDS]
        at = end
    return result


def _is_frame(line: str) -> bool:
    begin = _FRAME.match(line)
    return bool(begin and (begin["more"] or _PLACE.search(line[-_PLACE_CHARACTERS:])))


def _after_brace(lines: Sequence[str], begin: int, column: int) -> int:
    """Return the index of the line after the closing brace in ``column``; ``begin`` if no brace closes."""
    closing = " " * column + "}"
    return next((at + 1 for at in range(begin, len(lines)) if lines[at].startswith(closing)), begin)


def _cause_among(members: Sequence[str], column: int) -> list[str]:
    """Return the lines of the member ``cause`` of an error, whose members begin in ``column``."""
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


def _join_continuations(lines: Sequence[str]) -> list[str]:
    """Return the lines with each line that names an error joined with its continuation lines."""
    result: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if _NAMES_AN_ERROR.search(line) and not _SEPARATE.match(line, _indent(line)):
            ends_traceback = bool(result) and _indent(result[-1]) > _indent(line)
            while at < len(lines) and _is_continued(line, lines[at], ends_traceback):
                if len(line) < _LONG_LINE:
                    line = f"{line} {lines[at][_indent(lines[at]) :].rstrip()}"
                elif _indent(lines[at]) <= _indent(line):
                    break
                at += 1
        result.append(line)
    return result


def _is_continued(line: str, next: str, ends_traceback: bool) -> bool:
    """Whether the line ``next`` continues ``line``, as the indentation or the words show.

    Words show it only after the end of a traceback (``ends_traceback``), or if ``line`` is incomplete.
    """
    indent = _indent(next)
    if indent == len(next) or _SEPARATE.match(next, indent) or _NEW_ENTRY.match(next, indent):
        return False
    deeper = indent - _indent(line)
    if deeper or next[indent] in ")]}":
        return deeper >= 0
    if _UNFINISHED.search(line):
        return True
    may_be_wrapped = ends_traceback and len(line) >= _WRAPPED_FROM and line[-1] not in ".!?"
    return may_be_wrapped and bool(_WITHIN_A_SENTENCE.match(next, indent))


def _indent(line: str) -> int:
    """Return the column in which the text of a line begins. A tab may be written as an escape."""
    blanks = _BLANKS.match(line)
    return blanks.end() if blanks else 0


def _unbroken(lines: Sequence[str]) -> list[str]:
    """Return the lines that are not blank, stripped, with text that rich has broken joined to one line.

    The Python SDK logs with rich, which writes a traceback as a box in a column between other columns. The
    box is 37 characters wide unless the terminal or ``COLUMNS`` sets a width. The broken text of the error is
    below it.
    """
    result: list[str] = []
    column = 0  # where the text below a box begins; 0 if there is no such text
    is_begun = False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            is_begun = False
        elif text[0] in "╭│╰":
            result.append(text)
            column, is_begun = indent, False
        elif column and indent == column and is_begun:
            result[-1] += f" {text}"
        else:
            result.append(text)
            is_begun = column == indent
            column = column if is_begun else 0
    return result


def _errors(lines: Sequence[str]) -> Iterator[str]:
    """Yield the last line that names an error, and if it ends a traceback, the lines of its causes."""
    end = len(lines)
    while (at := _last_match(lines, end, _NAMES_AN_ERROR)) >= 0:
        yield lines[at]
        begin = _last_match(lines, at, TRACEBACK)
        end = _last_match(lines, begin, _CAUSED)
        if end < max(begin - _CAUSED_LINES, 0):
            return


def _last_match(lines: Sequence[str], end: int, wanted: "re.Pattern[str]") -> int:
    """Return the index of the last line before ``end`` in which the pattern matches; -1 if there is none."""
    return next((at for at in range(end - 1, -1, -1) if wanted.search(lines[at])), -1)


_BLOCK: Final = pattern(
    r"\s*(?:\+?-)?(?P<corner>[+╭])"
    r"(?: Exception Group Traceback \(most recent call last\):"
    r"|[-─]+ (?:Sub-exception #)?(?P<number>\d+|\.\.\.) [-─]+╮?)\s*$"
)
"""The first line of an exception group, or of an error in it. The bar or box begins below ``corner``."""
_NPM: Final = pattern(
    r"\s*npm (?:error|ERR!)(?!\S)"
    r"(?: (?!(?:code|syscall|path|dest|errno|signal|command|workspace|location) )(?P<sentence>\S+ .*\S))?"
)
"""A line of an error of npm. ``sentence`` matches unless there is only a name and a value (``code E404``)."""
TRACEBACK: Final = pattern(r"Traceback \(most recent call last\)|╭─+ Traceback")
"""The line with which a traceback of Python begins, as Python or rich writes it."""
_CAUSED: Final = pattern(r"above exception was the direct cause")
"""Python writes this between the traceback of a cause and the traceback of the error raised from it."""
_CAUSED_WORDS: Final = "The above exception was the direct cause of the following exception:"
_TRACEBACK_WORDS: Final = "Traceback (most recent call last):"
_FRAME: Final = pattern(r"(?:\s|\\t)+(?:(?P<more>\.\.\. \d+ (?:more|lines matching)\b)|at \S)")
"""The beginning of a frame of a stack trace of Node.js, Java or .NET; ``more`` is for a row of frames."""
_PLACE: Final = pattern(
    r"(?::\d+:\d+|:line \d+|:\d+\)|\((?:<anonymous>|native|Native Method|Unknown Source)\)),?(?: \{)?\s*$"
)
"""The end of such a frame: a place in the code."""
_PLACE_CHARACTERS: Final = 60
"""The number of characters at the end of a frame that are searched for the place."""
_FRAME_INDENT: Final = 4
"""Columns by which Node.js indents a frame more than its error."""
_MEMBER_INDENT: Final = 2
"""Columns by which Node.js indents a member of an error more than the error."""
_CAUSE: Final = pattern(r"\s*(?:\[cause\]|cause): (?P<error>\[?[\w$.]*(?:Error|Exception)\b.*)$")
"""The first line of the member that has the cause of an error of Node.js."""
_CAUSED_LINES: Final = 2
"""The number of lines that the sentence of ``_CAUSED`` may take; rich breaks it in a narrow column."""
_NAMES_AN_ERROR: Final = pattern(
    r"\b\w*(?:error|exception(?:group)?|panic|panicked|fatal|failed|failure|errno)\b", re.IGNORECASE
)
_BLANKS: Final = pattern(r"(?:\s|\\t)*")
_SEPARATE: Final = pattern(r"[│╭╰|+^~]|The above exception|During handling")
"""A line that is never joined: of a box, of marks below code, or of Python between two tracebacks."""
_NEW_ENTRY: Final = pattern(
    r"at |File \"|\.\.\. |Traceback|Caused by|(?:note|help|hint)\b"
    r"|\[?(?:\d{4}-|\d\d:\d\d|\d\d/\d\d)|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
    r"|[\w.]+(?:Error|Exception|ExceptionGroup)\b",
    re.IGNORECASE,
)
"""The beginning of a frame of a traceback, of another line of a log, or of another error."""
_UNFINISHED: Final = pattern(r"[:=,({\[]$|\d validation errors? for \S+$")
"""The end of a line that is incomplete without the next one. pydantic names the invalid field there."""
_WITHIN_A_SENTENCE: Final = pattern(r"[a-z]+ (?!.*\w=)")
"""The beginning of the second line of wrapped text. Lines of a log seldom begin like this."""

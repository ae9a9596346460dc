"""What a server does wrong, and how the end of a process is told from a lawful end of the session.

A fault of the server is one of these:

- ``crash``: the process ended, or over HTTP nothing listens any more or the server says 500 (RFC 9110,
  section 15.6.1: it met an unexpected condition).
- ``hang``: the process runs, and does not answer a ping.
- ``protocol``: the judge finds a violation by the server that it does not find without the change.
- ``leak``: an answer contains a value of another request, which says that it changes nothing.

A server may end the session if its client breaks the protocol. So after such a step an orderly end is no
fault; an end by a signal or by an exception that nobody caught is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals
from typing import Final, Literal

from mcpproxy.fuzz.steps import Step
from mcpproxy.session.frame import Finding

Kind = Literal["crash", "hang", "protocol", "leak"]

_UNCAUGHT: Final = re.compile(
    rb"Traceback \(most recent call last\)|\bpanic(ked)?\b|[Uu]ncaught|[Uu]nhandled|Segmentation fault|"
    rb"core dumped|^\s+at .*[:(]\d+|Exception in thread|AddressSanitizer",
    re.MULTILINE,
)
"""Matches lines on stderr that say that an exception or a signal ended the program."""

_VARIABLE: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|0x[0-9a-f]+|mk[0-9a-f]{16}q|[0-9]+")
"""What differs between two messages about one fault."""

UNANSWERED: Final = ("RPC-008", "SEQ-001")
"""The rules that every request is answered. The end of a session of the fuzzer leaves requests open."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One fault of a server. ``key`` is the same each time that the fault is met.

    ``text`` is a clause for the user, ``step`` the index of the step after which it was seen. ``marker`` is
    the value that leaked.
    """

    kind: Kind
    key: str
    text: str
    step: int
    marker: bytes = b""


def normalised(text: str) -> str:
    """Return ``text`` without the parts that differ each time: numbers, and what is quoted."""
    return _VARIABLE.sub("*", text)[:200]


def ended(exit_code: int | None, why: str, stderr: Sequence[bytes], step: Step, index: int) -> Symptom | None:
    """Return the symptom of a process that ended after ``step``; ``None`` if it may end there.

    ``exit_code`` is negative for a signal, and ``None`` if the process closed its stdout and runs on.
    ``stderr`` are its last lines.
    """
    is_uncaught = _UNCAUGHT.search(b"\n".join(stderr)) is not None
    is_killed = exit_code is not None and exit_code < 0
    if not (step.is_lawful or is_killed or (is_uncaught and exit_code)):
        return None
    complaint = complaint_of(stderr)
    if is_killed and exit_code is not None:
        how = f"ended by {_signal_name(-exit_code)}"
    elif exit_code is None:
        how = "closed its stdout"
    else:
        how = f"ended with exit code {exit_code}"
    key = f"crash {how} {normalised(complaint) if complaint else place_of(step)}"
    return Symptom("crash", key, why.removeprefix("it ") if why else how, index)


def violated(finding: Finding, step: Step, index: int) -> Symptom:
    """Return the symptom for a finding about the server."""
    key = f"protocol {finding.requirement or finding.rule} {step.method.partition(' ')[0]}"
    return Symptom("protocol", key, f"{finding.rule}: {finding.message}", index)


def hung(text: str, step: Step, index: int) -> Symptom:
    """Return the symptom of a server that does not answer a ping after ``step``."""
    return Symptom("hang", f"hang {place_of(step)}", text, index)


def place_of(step: Step) -> str:
    """Return the method and tool of a change in a request, or the name of a change of another kind."""
    return step.method if step.key.startswith(f"{step.method} /") else step.key.rpartition(" ")[2]


def complaint_of(stderr: Sequence[bytes]) -> str:
    """Return the line of stderr that says why a program ended: the last one that is not indented."""
    for line in reversed(stderr):
        text = line.decode("utf-8", "replace")
        if text.strip() and not text[0].isspace() and not text.startswith("Node.js v"):
            return text.strip()[:200]
    return ""


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"

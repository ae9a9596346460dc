"""The kinds of server faults, and which behaviour is no fault, because the client broke the protocol first.

A fault of the server is one of these:

- ``crash``: the process ended; or over HTTP nothing listens any more, the server cuts an exchange short, or
  it answers 500 without a JSON-RPC error (RFC 9110, section 15.6.1: it met an unexpected condition).
- ``hang``: the process runs, but does not answer a ping, or does not read what is sent.
- ``protocol``: the judge finds a violation by the server that it does not find without the change.
- ``leak``: an answer contains a value of another request, one that changes nothing on the server.

A server may end the session if its client breaks the protocol. So after such a step an orderly end is no
fault, but an end by a signal or by an uncaught exception is.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from mcpproxy.base.system_words import end_text
from mcpproxy.base.telling_line import LastLines
from mcpproxy.judge.session.frame import CLIENT, SERVER, Finding
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.peers.validate.outcome import ANSWER_RULES
from mcpproxy.protocol.rules import family

Kind: TypeAlias = Literal["crash", "hang", "protocol", "leak"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_UNCAUGHT: Final = re.compile(
    rb"Traceback \(most recent call last\)|\bpanic(ked)?\b|[Uu]ncaught|[Uu]nhandled|Segmentation fault|"
    rb"core dumped|^[^\S\n]+at .*[:(]\d+|Exception in thread|AddressSanitizer",
    re.MULTILINE,
)
"""Matches lines on stderr that say that an exception or a signal ended the program."""

_VARIABLE: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|0x[0-9a-f]+|mk[0-9a-f]{16}q|[0-9]+")
"""The parts that may differ between two messages about the same fault."""

_LONGEST: Final = 1024
"""How many characters of a message about a fault are used."""

_UNCONDITIONAL: Final = frozenset(
    {
        "PROTO-002", "RPC-001", "RPC-002", "RPC-009", "RPC-010", "RPC-011", "RPC-021", "STDIO-001",
        "STDIO-002",
    }
)  # fmt: skip
"""The rules about the form of a single message, which hold whatever the client has sent before."""

_OF_SESSIONS: Final = frozenset(
    {
        "CANC", "ERA", "HDR", "HTTP", "LIFE", "META", "PROG", "PROTO", "RPC", "SEQ", "SSE", "STDIO",
    }
)  # fmt: skip
"""Families of rules. Once the client breaks one of them, the server may have no lawful answer."""

GONE: Final = "crash nothing listens any more"
"""The key of the fault that nothing listens on the port any more."""

_HARMLESS: Final = "PROTO-006"
"""The rule about unknown notifications, which a server ignores (JSON-RPC 2.0, section 4.1)."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A fault as one trial shows it. ``key`` is the same each time that the fault shows.

    ``text`` is a clause for the user, ``step`` the index of the step after which it was seen. ``marker`` is
    the value that leaked. ``is_provoked`` says that the client broke the protocol before, so that the fault
    may be a consequence. ``severity`` is the severity of a finding about a violation.
    """

    kind: Kind
    key: str
    text: str
    step: int
    marker: bytes = b""
    is_provoked: bool = False
    severity: Literal["error", "warning"] = "error"
    ending: str = ""
    """How the process ended, whatever the step before it: ``ended with exit code 1``; empty if it did not."""

    @property
    def cause(self) -> str:
        """A key that the same fault has in a control, a trial without the changes, too.

        It is the requirement of a violation, else ``key``.
        """
        return f"protocol {self.requirement}" if self.kind == "protocol" else self.key

    @property
    def requirement(self) -> str:
        """The requirement that is violated, or the rule if it has none; empty for another kind of fault."""
        return self.key.split(" ")[1] if self.kind == "protocol" else ""

    @property
    def ends_server(self) -> bool:
        """Whether a server behind a URL answers nothing any more, so that it has to be started again."""
        return self.kind == "hang" or self.key.startswith(GONE)


def normalised(text: str) -> str:
    """Return at most 200 characters of ``text``, with ``*`` for each part that may differ between two runs.

    These are numbers, quoted texts and markers.
    """
    return _VARIABLE.sub("*", text)[:200]


def end_symptom(
    exit_code: int | None, why: str, stderr: LastLines, step: FuzzStep, index: int
) -> Symptom | None:
    """Return the symptom of a process that ended after ``step``; ``None`` if it may end there.

    ``exit_code`` is negative for a signal, and ``None`` if the process closed its stdout but still runs.
    ``why`` is a clause about the end, and ``index`` the index of the step.
    """
    is_uncaught = stderr.has(_UNCAUGHT)
    is_killed = exit_code is not None and exit_code < 0
    if not (step.is_lawful or is_killed or (is_uncaught and exit_code)):
        return None
    complaint = normalised(stderr.telling(_LONGEST))
    how = "closed its stdout" if exit_code is None else end_text(exit_code).removeprefix("was ")
    key = f"crash {how} {complaint or subject_of(step)}"
    return Symptom("crash", key, why.removeprefix("it ") if why else how, index, ending=how)


def violation_symptom(finding: Finding, step: FuzzStep, index: int, *, is_provoked: bool) -> Symptom | None:
    """Return the symptom for a finding; ``None`` if it is no fault, or if ``step`` may excuse the server.

    A finding about the client, an info, and a finding of ``ANSWER_RULES`` are no faults. ``is_provoked`` says
    that the client has broken the protocol in this session.
    """
    if finding.blame != SERVER or finding.severity == "info" or finding.rule in ANSWER_RULES:
        return None
    is_unconditional = finding.rule in _UNCONDITIONAL
    if not (is_unconditional or (step.is_lawful and step.is_portable)):
        return None
    key = f"protocol {finding.requirement or finding.rule} {step.method.partition(' ')[0]}"
    text = f"{finding.rule}: {finding.message}"
    provoked = is_provoked and not is_unconditional
    return Symptom("protocol", key, text, index, is_provoked=provoked, severity=finding.severity)


def excuses_server(finding: Finding) -> bool:
    """Whether the client broke a rule of a kind that may make the server violate others later."""
    if finding.blame != CLIENT or finding.severity == "info" or finding.rule == _HARMLESS:
        return False
    return family(finding.rule) in _OF_SESSIONS


def hang_symptom(text: str, step: FuzzStep, index: int) -> Symptom:
    """Return the symptom of a server that hangs at ``step``; ``text`` says how, as a clause."""
    return Symptom("hang", f"hang {subject_of(step)}", text, index)


def subject_of(step: FuzzStep) -> str:
    """Return the method and tool if a value of a request was changed, else the name of the change."""
    return step.method if step.key.startswith(f"{step.method} /") else step.key.rpartition(" ")[2]

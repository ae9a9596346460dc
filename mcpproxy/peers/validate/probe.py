"""A probe: a named check that sends something to the server, and the table row that says when it applies.

A probe is a coroutine that takes a ``ProbeContext`` and returns a ``Conclusion``. Meanwhile the judge checks
all messages against the rules. A probe that returns ``None`` leaves the conclusion to the judge: to its
findings about the server under one of the probe's ``rules`` while the probe ran. An exception is a conclusion
too: ``Skipped`` says why the probe does not apply, and a ``ValidateError`` says how the server failed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from mcpproxy.peers.validate.outcome import Category, Conclusion
from mcpproxy.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from mcpproxy.peers.validate.probe_context import ProbeContext

Transport = Literal["stdio", "http"]
ProbeFunction: TypeAlias = "Callable[[ProbeContext], Awaitable[Conclusion | None]]"
"""The coroutine of a probe. ``None`` leaves the conclusion to the judge."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A row of the table of probes.

    - ``what`` says in one line what the probe does and what it expects.
    - ``rules`` are the codes of the rules on which it is based.
    - ``revisions`` and ``transports`` say where it runs.
    - ``needs`` are the capabilities that the server must declare, such as ``resources.subscribe``.
    - ``session``: it uses the shared session, which is opened before it if necessary. Other probes open
      what they need: sessions of their own, or (``connect``, ``handshake``) the shared one.
    - ``disruptive``: after it the shared session is closed, and the next probe gets a new one.
    - ``unlawful``: it sends messages that a client must not send. The specification does not say that a
      server must survive them, so if the server exits or hangs, the result is only a warning.
    """

    name: str
    category: Category
    what: str
    run: ProbeFunction
    rules: tuple[str, ...] = ()
    revisions: tuple[str, ...] = REVISIONS
    transports: tuple[Transport, ...] = ("stdio", "http")
    needs: tuple[str, ...] = ()
    session: bool = True
    disruptive: bool = False
    unlawful: bool = False


def passed(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """Return the conclusion that the server behaves as it should."""
    return Conclusion("passed", message, frames)


def failed(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """Return the conclusion that the server exited, hung or sent something unreadable."""
    return Conclusion("failed", message, frames)


def remarked(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """Return a conclusion about behaviour that the specification allows, but that troubles users."""
    return Conclusion("info", message, frames)

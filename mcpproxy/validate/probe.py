"""A probe: a named check that actively does something, and the table row that says when it applies.

A probe is a coroutine that takes a ``ProbeContext`` and returns a ``Conclusion``. It may also leave the
conclusion to the observer: then a finding about the server under one of the probe's ``rules``, made while it
ran, decides. An exception is a conclusion too: ``Skipped`` says why the probe does not apply, a
``ValidateError`` how the server failed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.validate.outcome import Category, Conclusion

if TYPE_CHECKING:
    from mcpproxy.validate.probe_context import ProbeContext

Transport = Literal["stdio", "http"]
Run: TypeAlias = "Callable[[ProbeContext], Awaitable[Conclusion | None]]"
"""``None`` leaves the conclusion to the observer."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A row of the table.

    ``what`` says what is done and what is expected, in one line. ``rules`` are the codes of the rules that it
    is based on. It runs only in its ``revisions`` and over its ``transports``, and if the server declares the
    capabilities in ``needs``, such as ``resources.subscribe``. ``session``: it uses the shared session, which
    is opened if necessary; other probes open their own sessions. After a ``disruptive`` probe the shared
    session is closed, and the next probe gets a new one. An ``unlawful`` probe sends what a client must not
    send: no sentence of the specification says that a server survives it, so its end is only a warning.
    """

    name: str
    category: Category
    what: str
    run: Run
    rules: tuple[str, ...] = ()
    revisions: tuple[str, ...] = REVISIONS
    transports: tuple[Transport, ...] = ("stdio", "http")
    needs: tuple[str, ...] = ()
    session: bool = True
    disruptive: bool = False
    unlawful: bool = False


def passed(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """The server did what it should."""
    return Conclusion("passed", message, frames)


def failed(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """The server exited, hung or sent something unreadable, which is wrong by itself."""
    return Conclusion("failed", message, frames)


def warned(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """The specification allows it, but it will cause trouble for users."""
    return Conclusion("warning", message, frames)

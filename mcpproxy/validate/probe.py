"""What a probe is: a named check that makes something happen, and the table row that says when it applies.

A probe is a coroutine that gets a ``ProbeContext``, does what its name says, and concludes. It may conclude by
itself, or leave it to the observer: a finding of one of its ``rules`` about the server, in what passed while
it ran, decides then. What it raises is a conclusion too: ``Skipped`` says why it does not apply here, a
``ValidateError`` says how the server failed.
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
"""``None`` means that nothing is to be said but what the observer says."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A row of the table.

    ``what`` says what is done and what is expected, in one line. ``rules`` are the codes of the rules that it
    rests on. ``revisions`` and ``transports`` are those in which it makes sense; ``needs`` are capabilities
    that the server must have declared, such as ``resources.subscribe``. ``session``: it works in the session
    that probes share, which is opened for it if need be; others open sessions of their own. After a
    ``disruptive`` probe nobody else should find that session as it is: the next one gets a new one.
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


def passed(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """It went as it should."""
    return Conclusion("passed", message, frames)


def failed(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """The server died, hung, or said what nobody can read: that needs no sentence to be wrong."""
    return Conclusion("failed", message, frames)


def warned(message: str, frames: tuple[int, ...] = ()) -> Conclusion:
    """Nothing forbids it, but users will be hurt by it."""
    return Conclusion("warning", message, frames)

"""The judge of a recording: the observer, which finds violations of rules, wrapped so that it never raises.

An exception in the observer is a bug in mcpproxy. It ends the judging, not the recording: the earlier
findings remain, and the trace says where judging stopped. After a mistake in a rule of the user, only that
rule is left out.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import Event, Finding, Frame, Repeated

if TYPE_CHECKING:
    from mcpproxy.judge.ruleset.rule_options import RuleOptions


class Observing(Protocol):
    """The part of ``mcpproxy.judge.observer.Observer`` that the recorder uses."""

    def observe(self, event: Event) -> list[Finding]: ...


class NothingJudged:
    """The observer of a recording that is not of MCP, such as one of a model's HTTP interface."""

    def observe(self, event: Event) -> list[Finding]:
        """Find nothing."""
        del event
        return []


class SafeJudge:
    """Judges with the observer that ``make_observer`` makes. Never raises, even if ``make_observer`` does."""

    def __init__(self, make_observer: Callable[[], Observing]) -> None:
        self.stopped: str | None = None
        """Why judging stopped, in one line; ``None`` if it has not."""
        self.left_out: Sequence[str] = ()
        """Lines about what is not judged: rules of the user with a mistake, and parts that did not load."""
        self.is_our_fault = True
        """Whether a bug in mcpproxy stopped the judging. Meaningless while ``stopped`` is ``None``."""
        self._observer: Observing | None = None
        try:
            self._observer = make_observer()
        except Exception as fault:
            self._stop(fault)
        else:
            self.left_out = getattr(self._observer, "left_out", ())

    @property
    def error(self) -> str | None:
        """What went wrong during judging, for the trace; ``None`` if nothing did."""
        # If a session was too large, this says from which frame on the observer forgot it.
        forgot: str = getattr(self._observer, "forgot", "")
        return "; ".join(filter(None, (*self.left_out, self.stopped, forgot))) or None

    @property
    def more(self) -> tuple[Repeated, ...]:
        """The findings that were only counted, up to the point where judging stopped."""
        more: tuple[Repeated, ...] = getattr(self._observer, "more", ())  # some observers count none
        return more

    def observe(self, event: Event) -> list[Finding]:
        """Return the findings of ``event``; none once judging has stopped."""
        if self._observer is None or self.stopped is not None:
            return []
        try:
            return self._observer.observe(event)
        except Exception as fault:
            self._stop(fault, f" at frame {event.seq}" if isinstance(event, Frame) else "")
            return []

    def _stop(self, fault: Exception, place: str = "") -> None:
        self.is_our_fault = not isinstance(fault, McpProxyError)
        text = " ".join(str(fault).split())
        if self.is_our_fault:
            text = f"{type(fault).__name__}: {text}" if text else type(fault).__name__
        self.stopped = text + place


def standard_observer() -> Observing:
    """Return the observer of a session, with the built-in rules."""
    # Imported late, so that a broken rule table stops only the judging.
    from mcpproxy.judge.observer import Observer
    from mcpproxy.judge.ruleset import catalogue

    return Observer(catalogue.load())


def observer_for(rule_options: "RuleOptions", *, is_found: bool) -> Observing:
    """Return the observer for the rules that a journal (the relay's copy of the traffic) names.

    ``is_found``: the journal was found on disk, so its rules may come from an unknown source.

    Raises:
        UnfitRuleOptionsError: the journal was found on disk, and the rules that it names are gone, have
            changed, or were not chosen by this user.
        CustomRuleError, UsageError, RuleError: the rules cannot be loaded, or do not exist.
        OSError: the rules cannot be read.
    """
    from mcpproxy.judge.ruleset.rule_options import FilteredObserver  # imported late: few sessions need it

    if is_found:
        rule_options.refuse_unfit()
    return FilteredObserver(rule_options)

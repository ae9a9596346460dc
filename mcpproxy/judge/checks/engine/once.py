"""Findings that are reported once per session, although what they are about is seen again and again.

A family gives each of its violations a key that is equal for equal ones. It reports what ``unreported`` lets
through, and calls ``remember`` in a state update, after all its checks.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.session.history import History

MAX_REPORTED: Final = 10_000
"""How many findings of a family are remembered. Later ones are reported every time."""

Keyed: TypeAlias = Iterable[tuple[tuple[Hashable, ...], Violation]]
"""Violations, each with a key that is equal for equal ones of one caller."""


@slotted()
class Reported:
    """By the name of a family: what it has reported, each as its caller and the key."""

    keys: dict[str, set[tuple[Hashable, ...]]] = field(default_factory=dict[str, set[tuple[Hashable, ...]]])


def unreported(family: str, found: Keyed, history: History, caller: str | None = None) -> Iterator[Violation]:
    """Yield the violations that were not reported before, nor earlier in ``found``.

    ``caller`` is whose they are, by default the caller of the message that is judged.
    """
    whose = history.caller if caller is None else caller
    earlier = history.across_requests(Reported).keys.get(family, ())
    among_these = set[tuple[Hashable, ...]]()
    for key, violation in found:
        whole = (whose, *key)
        if whole not in earlier and whole not in among_these:
            among_these.add(whole)
            yield violation


def remember(family: str, found: Keyed, history: History) -> None:
    """Record the violations as reported."""
    reported = history.across_requests(Reported).keys.setdefault(family, set())
    for key, _ in found:
        if len(reported) >= MAX_REPORTED:
            return
        reported.add((history.caller, *key))

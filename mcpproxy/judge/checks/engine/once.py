"""Findings that are reported once per session, even if their cause is seen again and again.

A family (the checks of one module) gives each of its violations a key; equal violations have equal keys. It
reports the violations that ``unreported`` yields, and calls ``remember`` in a state update, after all its
checks.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.session.history import History

MAX_REPORTED: Final = 10_000
"""How many findings of a family are remembered. Later ones are reported every time."""

Keyed: TypeAlias = Iterable[tuple[tuple[Hashable, ...], Violation]]
"""Violations, each with its key. Equal violations of one caller (see ``History.caller``) have equal keys."""


@slotted()
class Reported:
    """For each family, by its name: the caller and the key of each violation that it has reported."""

    keys: dict[str, set[tuple[Hashable, ...]]] = field(default_factory=dict[str, set[tuple[Hashable, ...]]])


def unreported(family: str, found: Keyed, history: History, caller: str | None = None) -> Iterator[Violation]:
    """Yield the violations in ``found`` that were not reported before, each key once.

    ``caller`` is the caller that the violations concern, by default that of the message being judged.
    """
    caller = history.caller if caller is None else caller
    earlier = history.across_requests(Reported).keys.get(family, ())
    yielded = set[tuple[Hashable, ...]]()
    for key, violation in found:
        full_key = (caller, *key)
        if full_key not in earlier and full_key not in yielded:
            yielded.add(full_key)
            yield violation


def remember(family: str, found: Keyed, history: History) -> None:
    """Record the violations in ``found`` as reported, for the caller of the message being judged.

    Nothing more is recorded once the family has ``MAX_REPORTED`` entries.
    """
    reported = history.across_requests(Reported).keys.setdefault(family, set())
    for key, _ in found:
        if len(reported) >= MAX_REPORTED:
            return
        reported.add((history.caller, *key))

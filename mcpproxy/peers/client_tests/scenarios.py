"""The table of scenarios, each a test of a client with one server of ours."""

from collections.abc import Collection, Mapping
from typing import Final

from mcpproxy.errors import UsageError, nearest
from mcpproxy.peers.client_tests.lawful import LAWFUL
from mcpproxy.peers.client_tests.rows.authorized import AUTHORIZED, NOWHERE
from mcpproxy.peers.client_tests.rows.stateless import STATELESS_LAWFUL, STATELESS_WRONG
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.peers.client_tests.wrong import WRONG

SCENARIOS: Final = (*LAWFUL, *WRONG)
"""All scenarios, in the order of their checks, the ordinary server first."""

GROUPS: Final[Mapping[str, Collection[Scenario]]] = {
    "lawful": LAWFUL,
    "wrong": WRONG,
    "stateless": (*STATELESS_LAWFUL, *STATELESS_WRONG),
    "authorization": (*AUTHORIZED, NOWHERE),
}
"""Groups of scenarios that options can name, besides the categories."""


def chosen(only: list[str], skip: list[str]) -> tuple[Scenario, ...]:
    """Return the scenarios that ``--only`` and ``--skip`` leave. The ordinary server is always played.

    Raises:
        UsageError: there is no such scenario, category or group.
    """
    wanted, unwanted = _names("--only", only), _names("--skip", skip)
    return tuple(
        scenario
        for number, scenario in enumerate(SCENARIOS)
        if not number or ((not only or scenario.name in wanted) and scenario.name not in unwanted)
    )


def _names(option: str, values: list[str]) -> set[str]:
    """Return the names of the scenarios that the values of an option select."""
    known: dict[str, set[str]] = {scenario.name: {scenario.name} for scenario in SCENARIOS}
    for scenario in SCENARIOS:
        known.setdefault(scenario.category, set()).add(scenario.name)
    known |= {name: {scenario.name for scenario in group} for name, group in GROUPS.items()}
    selected: set[str] = set()
    for word in (word.strip() for words in values for word in words.split(",")):
        if word not in known:
            guess = nearest(word, known)
            next_step = f"did you mean {guess}?" if guess else f"one of {', '.join(known)}"
            raise UsageError(option, f"there is no scenario or group {word!r}", next_step)
        selected |= known[word]
    return selected

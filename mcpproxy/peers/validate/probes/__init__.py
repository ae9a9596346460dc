"""The probes (tests of a server), in the order in which they run.

In each module, the rows of ``PROBES`` at the end say what each probe does.
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.errors import UsageError, nearest
from mcpproxy.peers.validate.outcome import CATEGORIES
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.peers.validate.probes import (
    authorization,
    features,
    headers,
    http,
    jsonrpc,
    lifecycle,
    robustness,
    rounds,
    sessions,
    stateless,
    stdio,
    tools,
    walk,
)

PROBES: Final[tuple[Probe, ...]] = (
    *walk.PROBES[:1],
    # These probes come before the handshake, because without a token the handshake may fail.
    *authorization.PROBES,
    *walk.PROBES[1:],
    *tools.PROBES,
    *features.PROBES,
    *jsonrpc.PROBES,
    *robustness.PROBES,
    *stateless.PROBES,
    *rounds.PROBES,
    *stdio.PROBES,
    *http.PROBES,
    *sessions.PROBES,
    *headers.PROBES,
    *lifecycle.PROBES,
)


def chosen(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[Probe, ...]:
    """Return the probes of a run; items of ``only`` and ``skip`` are comma-separated categories or probes.

    The probes of ``walk.ALWAYS`` always run.

    Raises:
        UsageError: a name is neither a category nor a probe.
    """
    chosen_names, skipped_names = _names("--only", only), _names("--skip", skip)
    return tuple(
        probe
        for probe in PROBES
        if probe in walk.ALWAYS
        or (
            (not chosen_names or chosen_names & {probe.name, probe.category})
            and not skipped_names & {probe.name, probe.category}
        )
    )


def _names(option: str, values: Iterable[str]) -> set[str]:
    """Return the names in the values of an option, each a list separated by commas.

    Raises:
        UsageError: a name is neither a category nor a probe.
    """
    valid_names = {*CATEGORIES, *(probe.name for probe in PROBES)}
    names = {name.strip() for value in values for name in value.split(",") if name.strip()}
    for name in sorted(names - valid_names):
        guess = nearest(name, valid_names)
        step = f"did you mean {guess}?" if guess else f"categories are {', '.join(CATEGORIES)}"
        raise UsageError(option, f"{name!r} is neither a category nor a check", step)
    return names

"""The probes, in the order in which they run: the requests of a correct client, then faulty ones."""

from collections.abc import Iterable
from typing import Final

from mcpproxy.errors import UsageError, nearest
from mcpproxy.validate.outcome import CATEGORIES
from mcpproxy.validate.probe import Probe
from mcpproxy.validate.probes import (
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
    """The probes of a run; ``only`` and ``skip`` name categories or probes. The handshake always runs.

    Raises:
        UsageError: a name is neither.
    """
    wanted, unwanted = _names("--only", only), _names("--skip", skip)
    return tuple(
        probe
        for probe in PROBES
        if probe in walk.ALWAYS
        or (
            (not wanted or wanted & {probe.name, probe.category})
            and not unwanted & {probe.name, probe.category}
        )
    )


def _names(option: str, values: Iterable[str]) -> set[str]:
    known = {*CATEGORIES, *(probe.name for probe in PROBES)}
    found = {name.strip() for value in values for name in value.split(",") if name.strip()}
    for name in sorted(found - known):
        guess = nearest(name, known)
        step = f"did you mean {guess}?" if guess else f"categories are {', '.join(CATEGORIES)}"
        raise UsageError(option, f"{name!r} is neither a category nor a check", step)
    return found

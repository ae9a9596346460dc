"""How the tests try a server: a few checks against the scripted one, in this process."""

import asyncio
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.peers.validate.outcome import CheckResult, Validation
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.peers.validate.probe_context import ValidateOptions
from mcpproxy.peers.validate.probes import chosen
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.runner import validate

ROOT = Path(__file__).parents[2]
NEWEST = "2025-11-25"


@cache
def rules() -> Ruleset:
    """Read once."""
    return ruleset.load()


def command(flaw: str = "") -> tuple[str, ...]:
    """The scripted server, without what ``site`` would import."""
    return (sys.executable, "-S", "-m", "tests.validate.server", *(("--flaw", flaw) if flaw else ()))


def target(flaw: str = "", **env: str) -> Target:
    """The scripted server with a flaw, or without one."""
    return Target(command(flaw), {"PYTHONPATH": str(ROOT), **env})


def tried(
    server: Target,
    folder: Path,
    only: Sequence[str] | Sequence[Probe] = (),
    revision: str = NEWEST,
    timeout_s: float = 10.0,
    start_s: float = 60.0,
) -> Validation:
    """These checks, or all, against a server, which may take ``start_s`` to start on a busy machine."""
    probes = tuple(one for one in only if isinstance(one, Probe))
    names = tuple(one for one in only if isinstance(one, str))
    return asyncio.run(
        validate(
            server,
            probes or chosen(names),
            Recordings(rules(), str(folder / "trace.jsonl"), "trial"),
            revision=revision,
            options=ValidateOptions(timeout_s=timeout_s, start_s=start_s, limit_s=600),
        )
    )


def check(result: Validation, name: str) -> CheckResult:
    """The check of that name."""
    return next(one for one in result.checks if one.name == name)

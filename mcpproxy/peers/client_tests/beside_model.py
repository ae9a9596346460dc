"""Runs a scripted model for a host under test, one beside the server of each scenario.

A scripted model takes the place of a language model: it answers the host with the turns of a script.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcpproxy.errors import UsageError
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.peers.scripted_model.host_settings import environment
from mcpproxy.peers.scripted_model.model_script import ModelScript, script_of
from mcpproxy.peers.scripted_model.model_server import ModelServer


@dataclass(frozen=True, slots=True)
class BesideModel:
    """Runs a model for each scenario; without a ``script`` it calls the tool of the scenario's server."""

    script: ModelScript | None = None

    @asynccontextmanager
    async def beside(self, scenario: Scenario) -> AsyncGenerator[ModelServer]:
        """Yield a model that listens on a port of its own, while a scenario is played.

        Raises:
            UsageError: it cannot listen.
        """
        try:
            model = ModelServer(self.script or default_script(scenario))
        except OSError as fault:
            reason = (fault.strerror or str(fault)).lower()
            raise UsageError("--model", f"cannot listen on 127.0.0.1 ({reason})", "try again") from None
        model.start()
        try:
            yield model
        finally:
            await asyncio.to_thread(model.end)


def variables(model: ModelServer) -> dict[str, str]:
    """Return the variables by which hosts find a model; ``mcpproxy model --script`` sets the same ones."""
    return environment(model.url)


def default_script(scenario: Scenario) -> ModelScript:
    """Return a script: ``scenario.calls`` calls of its tool at once, if it has one, and then a text."""
    calls = [{"call": scenario.tool, "arguments": {"text": "hello"}}] * scenario.calls
    return script_of([*([{"calls": calls}] if scenario.tool else ()), {"say": "Done."}])


def first_problem(model: ModelServer, scenario: Scenario) -> str:
    """Return what went wrong in the first turn with a problem; empty if nothing did.

    It is empty, too, if the server of the scenario has no tool: then the model has nothing to do, and a host
    without tools asks for no turn.
    """
    if not scenario.tool:
        return ""
    problems = (f"turn {state.number}: {why}" for state in model.player.turns for why in state.problems())
    return next(problems, "")

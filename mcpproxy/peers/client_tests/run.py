"""Plays each scenario to the client under test, judges the recordings, and makes a check of each scenario."""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcpproxy.base import paths
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.peers.client_tests.behaviour import behaviour
from mcpproxy.peers.client_tests.client_process import Stay, end_strays, run_client
from mcpproxy.peers.client_tests.rows.authorized import Discovery
from mcpproxy.peers.client_tests.rows.stateless import NO_HANDSHAKE
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.peers.client_tests.seen import NAMELESS, seen_in
from mcpproxy.peers.client_tests.served import (
    CONFIG_VARIABLE,
    VARIABLE,
    Served,
    complete_recordings,
    served,
    wait_until_complete,
)
from mcpproxy.peers.client_tests.verdict import (
    Played,
    lacking,
    lateness,
    may_be_late,
    of_another_era,
    verdict,
)
from mcpproxy.peers.client_tests.visit import Invitation, Invite, lines_of_stdin, wait_for_visit
from mcpproxy.peers.client_tests.watch import Watch
from mcpproxy.peers.validate.check_list import ProgressCallbacks
from mcpproxy.peers.validate.outcome import CheckResult, Conclusion, JudgedRecording, Status, Validation
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.judging import judge
from mcpproxy.read.reports.judged_traces import JudgedTrace
from mcpproxy.record.recorder.secret_arguments import shown

if TYPE_CHECKING:
    from mcpproxy.peers.client_tests.beside_model import BesideModel
    from mcpproxy.peers.client_tests.config_template import ConfigTemplate

TIMEOUT_S: Final = 20.0
"""How long a client may take with one server, if the user does not say."""
JOBS: Final = 4
"""How many scenarios are played at once, to a client that keeps no state between them."""
VISIT_S: Final = 120.0
"""How long to wait until a client that a person connects has finished with a server, if the user does not
say."""
QUIET_S: Final = 5.0
"""A client that does not exit by itself is ended after this time without a message. One that a person has
connected is not ended: the next server comes instead."""

_PATIENCE: Final = 8
"""A client may take this many times as long as with the ordinary server, because the machine may be slow."""


@dataclass(frozen=True, slots=True)
class ClientTest:
    """The test of a client that ``command`` starts. Its servers are on stdio, or over HTTP at ``listen``.

    Without a command, a person connects the client to the URL of each server. ``timeout_s`` is how long the
    client may take with one server (0: the default). If it does not exit by itself, it is ended after
    ``quiet_s`` seconds without a message (0: never). Recordings are put in ``folder``. If there is a
    ``template`` of a configuration file, the client gets the path of a copy with its server filled in. If
    there is a ``model``, a scripted model runs beside each server. ``jobs`` is how many scenarios are played
    at once, after the ordinary one. With ``strict``, warnings count as failures.
    """

    command: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    folder: str
    listen: str = ""
    timeout_s: float = 0
    quiet_s: float = QUIET_S
    strict: bool = False
    template: "ConfigTemplate | None" = None
    model: "BesideModel | None" = None
    jobs: int = 1

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return "http" if self.listen else "stdio"

    @property
    def name(self) -> str:
        """The command of the client, without secrets; ``connected by hand`` if there is none."""
        return shown(self.command) if self.command else "connected by hand"


@dataclass(frozen=True, slots=True)
class _Play:
    """The result of one scenario: what the client did, its judged recordings, and the time it took."""

    played: Played
    judged: list[JudgedTrace]
    took_ms: float


class ClientTestRun:
    """One run. ``test`` runs it; ``result`` returns the results so far, even after an interruption."""

    def __init__(
        self, test: ClientTest, rules: Ruleset, progress: ProgressCallbacks, invite: Invite = lambda _: None
    ) -> None:
        """Judge the recordings by ``rules``, and tell ``progress`` of each check.

        ``invite`` asks a person to connect a client that is not started by a command.
        """
        self._test: Final = test
        self._invite: Final = invite
        self._listen = test.listen
        self._pressed = asyncio.Event()
        self._interruption: asyncio.CancelledError | None = None
        self._rules: Final = rules
        self._selection: Final = Selection.of(rules.catalogue)
        self._progress: Final = progress
        self._tasks: Final[dict[str, asyncio.Task[_Play | str]]] = {}
        self._plays: Final[dict[str, _Play]] = {}
        self._played: Final[dict[str, Played]] = {}
        self._checks: Final[list[CheckResult]] = []
        self._judged: Final[list[JudgedRecording]] = []
        self._reported: Final[set[str]] = set()
        self._notes: Final[list[str]] = []
        self._untested = ""
        self._info: JSONObject = {}
        self._client: JSONObject = {}
        self._revision = ""
        self._started: Final = time.monotonic()

    async def test(self) -> None:
        """Play all scenarios, the ordinary one first and alone, and report their checks in order.

        If the client does not come to the ordinary server, or uses no server as its scenario needs,
        ``result`` says why nothing was tested.

        Raises:
            McpProxyError: the client cannot be started, or the server cannot listen.
            asyncio.CancelledError: the run was interrupted. ``result`` has the checks until then.
        """
        paths.make_private(self._test.folder)
        transport = self._test.transport
        chosen = self._test.scenarios
        scenarios = [scenario.on(transport) for scenario in chosen if transport in scenario.transports]
        total = len(scenarios)
        with nullcontext(self._pressed) if self._test.command else lines_of_stdin() as self._pressed:
            try:
                for number, scenario in enumerate(scenarios, start=1):
                    self._progress.begins(scenario.name, number, total)
                    if number == 2 and self._test.jobs > 1:
                        self._start_plays(scenarios[1:], total)
                    play = await (
                        self._tasks.get(scenario.name) or self._play_if_needed(scenario, number, total)
                    )
                    if number == 1 and isinstance(play, _Play) and of_another_era(play.played):
                        play = await self._stateless_play(play, total)
                    if isinstance(play, _Play) and self._tasks and may_be_late(play.played, self._ordinary):
                        # The machine may only have been too busy: play the scenario again, alone.
                        await asyncio.wait(self._tasks.values())
                        play = await self._play(scenario, number, total, "-again")
                    self._conclude(scenario, play)
                    if self._interruption is not None:
                        break
                    if self._untested:
                        return
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if all(check.conclusion.status == "skipped" for check in self._checks):
            self._untested = _why_useless(self._played["ordinary"])
            return
        for name, clause in behaviour(self._played):
            scenario = next((other for other in scenarios if other.name == name), scenarios[0])
            self._add_clause(f"{name} (behaviour)", scenario, clause)
        for name, played in self._played.items():
            if played.trouble and not lacking(played):
                self._add_clause(f"{name} (model)", played.scenario, played.trouble)
        if self._interruption is not None:
            raise self._interruption

    def result(self, *, is_interrupted: bool = False) -> Validation:
        """Return the result so far."""
        return Validation(
            self._test.name,
            self._test.transport,
            {},
            revisions=(self._revision,) if self._checks else (),
            checks=tuple(self._checks),
            traces=tuple(self._judged),
            notes=tuple(self._notes),
            untested=self._untested,
            is_interrupted=is_interrupted,
            strict=self._test.strict,
            client=self._client,
            duration_ms=(time.monotonic() - self._started) * 1e3,
        )

    def facts(self) -> str:
        """Return the observed behaviour as a TOML table of facts about a host; empty if there are none."""
        from mcpproxy.peers.client_tests.fact_rows import fact_table  # few runs need it

        today = datetime.now(UTC).date()
        return fact_table(self._info, self._played, today) if self._client else ""

    def _start_plays(self, scenarios: list[Scenario], total: int) -> None:
        """Start to play scenarios in the background, ``jobs`` at a time, those with silent servers first."""
        turns, logins = asyncio.Semaphore(self._test.jobs), asyncio.Lock()

        async def play(scenario: Scenario, number: int) -> "_Play | str":
            if prior := self._tasks.get(scenario.after):
                await asyncio.wait((prior,))
            # One login at a time: a client may listen on a fixed port for the redirect of the browser.
            alone = logins if isinstance(scenario.http, Discovery) else nullcontext()
            async with alone, turns:
                return await self._play_if_needed(scenario, number, total)

        numbered = list(enumerate(scenarios, start=2))
        for number, scenario in sorted(numbered, key=lambda pair: not pair[1].is_silent):
            self._tasks[scenario.name] = asyncio.create_task(play(scenario, number))

    async def _play_if_needed(self, scenario: Scenario, number: int, total: int) -> "_Play | str":
        """Play one scenario and return its result, or return why it need not be played, as a clause."""
        ordinary = self._ordinary
        if ordinary is not None and "stateful" not in scenario.eras and not ordinary.seen.stateless:
            return "the client sent no stateless request to the ordinary server"
        if ordinary is not None and "stateless" not in scenario.eras and ordinary.seen.knows_no_session:
            return "the client sends stateless requests only, and this server has sessions"
        prior = self._plays.get(scenario.after)
        if prior is not None and not prior.played.seen.has_sent(scenario.needs):
            return f"the client sent no {scenario.needs} with {scenario.after}"
        play = await self._play(scenario, number, total)
        self._plays[scenario.name] = play
        return play

    async def _stateless_play(self, play: "_Play", total: int) -> "_Play":
        """Play the ordinary server without sessions to a client that knows none; return that play.

        If the client does not use that server either, return ``play``, the one with sessions.
        """
        if not self._test.command:
            return play  # the person has connected it already
        ordinary = replace(NO_HANDSHAKE, reaction="goes on")
        again = await self._play(ordinary, 1, total, "-as-ordinary")
        return play if lacking(again.played) else again

    async def _play(self, scenario: Scenario, number: int, total: int, mark: str = "") -> "_Play":
        """Play one scenario, and judge its recordings; ``mark`` is added to their names."""
        test, token = self._test, token_hex(16)
        trace = os.path.join(test.folder, f"{scenario.name}{mark}.jsonl")
        began = time.monotonic()
        trouble = ""
        try:
            async with served(scenario, trace, token, self._listen) as server:
                if not test.command:
                    invitation = Invitation(server.url, scenario, number, total, test.timeout_s or VISIT_S)
                    stay = await self._wait_for_visit(invitation, Watch(trace))
                elif test.model is None:
                    stay = await self._run_client(server, scenario, trace, token, {})
                else:
                    from mcpproxy.peers.client_tests import beside_model

                    async with test.model.beside(scenario) as model:
                        variables = beside_model.variables(model)
                        server = replace(server, model=model.url)
                        stay = await self._run_client(server, scenario, trace, token, variables)
                        trouble = beside_model.first_problem(model, scenario)
            await wait_until_complete(trace)
            traces = complete_recordings(trace)
        finally:
            end_strays(token)
        judged = [judge(trace, self._rules, self._selection) for trace in traces]
        findings = [
            (recording.path, finding)
            for recording in judged
            for finding in recording.findings
            if finding.blame == "client" and finding.severity != "info"
        ]
        played = Played(scenario, seen_in(traces), stay, findings, trouble)
        return _Play(played, judged, (time.monotonic() - began) * 1e3)

    def _conclude(self, scenario: Scenario, play: "_Play | str") -> None:
        """Add the check of a scenario. The checks of earlier scenarios have been added.

        There is none if the client did not come to the ordinary server, which ends the run, or if an
        interruption ended the scenario too early.
        """
        if isinstance(play, str):
            self._add_clause(scenario.name, scenario, play, "skipped")
            return
        played, ordinary = play.played, self._ordinary
        for recording in play.judged:
            self._judged.append(_judged_recording(recording))
            self._notes.extend(f"{recording.path}: {note}" for note in recording.notes)
        if ordinary is None:
            self._revision = next((judged.revision for judged in play.judged if judged.revision), "")
            if not played.seen.messages and self._interruption is not None:
                return
            if not played.seen.messages:
                self._untested = _why_unreached(played, self._test)
                return
            self._info = played.seen.client
            self._client = {"name": NAMELESS, **self._info}
            self._progress.opens(self._revision, self._client)
        if self._interruption is not None and lacking(played):
            return
        self._played[scenario.name] = played
        conclusion, path = verdict(played, ordinary, self._reported, self._rules.catalogue, self._revision)
        codes = (conclusion.rule,) if conclusion.rule else ()
        self._add_check(
            CheckResult(
                scenario.name,
                scenario.category,
                conclusion,
                play.took_ms,
                codes,
                self._revision,
                path,
                blame="client",
            )
        )

    async def _run_client(
        self, server: Served, scenario: Scenario, trace: str, token: str, env: Mapping[str, str]
    ) -> Stay:
        """Run the client with ``env`` and the server in its environment, until it exits or is ended."""
        test, ordinary = self._test, self._ordinary
        exits = ordinary is not None and ordinary.stay.code is not None
        limit_s = test.timeout_s or TIMEOUT_S
        if not test.timeout_s and ordinary is not None and exits:
            limit_s = max(limit_s, _PATIENCE * ordinary.stay.seconds)
        with test.template.copied(server) if test.template else nullcontext("") as config:
            variables = {**env, VARIABLE: server.text, "MCPPROXY_CLIENT_TEST": token}
            return await run_client(
                server.placed_in(test.command, config),
                {**variables, CONFIG_VARIABLE: config} if config else variables,
                limit_s=limit_s,
                quiet_s=0
                if scenario.is_silent or (exits and scenario.reaction != "may wait")
                else test.quiet_s,
                after=scenario.awaited if exits else "",  # a client that exits is only slow before that
                watch=Watch(trace),
                token=token,
                settled=_no_wait if test.listen else partial(wait_until_complete, trace),
            )

    async def _wait_for_visit(self, invitation: Invitation, watch: Watch) -> Stay:
        """Wait for the client of a person. An interruption ends the wait, and after this scenario the run."""
        self._listen = urlsplit(invitation.url).netloc  # the next server has the same address
        self._invite(invitation)
        began = time.monotonic()
        try:
            return await wait_for_visit(invitation, watch, self._test.quiet_s, self._pressed)
        except asyncio.CancelledError as interruption:
            self._interruption = interruption
            return Stay(None, time.monotonic() - began, "", is_visit=True)

    @property
    def _ordinary(self) -> Played | None:
        return self._played.get("ordinary")

    def _add_clause(self, name: str, scenario: Scenario, clause: str, status: Status = "info") -> None:
        conclusion = Conclusion(status, clause)
        self._add_check(CheckResult(name, scenario.category, conclusion, 0, revision=self._revision))

    def _add_check(self, check: CheckResult) -> None:
        self._checks.append(check)
        self._progress.ends(check)


async def _no_wait() -> None:
    """Do not wait: over HTTP the server is no process of the client."""


def _judged_recording(trace: JudgedTrace) -> JudgedRecording:
    client_findings = tuple(finding for finding in trace.findings if finding.blame == "client")
    return JudgedRecording(trace.path, client_findings, trace.frames)


def _why_useless(ordinary: Played) -> str:
    """Return why nothing can be said about a client that used no server as its scenario needs."""
    slow = f"; but {words}: try again when the machine is less busy" if (words := lateness(ordinary)) else ""
    left = f"{lacking(ordinary)} to an ordinary server, and {_how_left(ordinary)}"
    return f"{left}; so nothing can be said of it{slow}"


def _how_left(played: Played) -> str:
    """Return a clause that says how the client left."""
    words = f": {played.stay.last_words}" if played.stay.last_words else ""
    how = f"exited with {played.stay.code}{words}" if played.stay.code is not None else "was ended"
    return f"{how} after {played.stay.seconds:.1f} s"


def _why_unreached(played: Played, test: ClientTest) -> str:
    """Return why nothing can be said: the client did not come to the ordinary server."""
    if played.stay.is_visit:
        waited = f"no client has come within {played.stay.seconds:.0f} s"
        return f"{waited}; lead it to the URL, or wait longer with --timeout"
    where = "connects to" if test.listen else "runs"
    return (
        f"the client sent no message to our server, and {_how_left(played)}; "
        f"see that it {where} what {VARIABLE} says, or put {{server}} in its command"
    )

"""``mcpproxy check --out``: judges many recordings one by one, and writes a file of results for each."""

import argparse
import os
from collections import Counter
from dataclasses import replace
from typing import Final

from mcpproxy.base.style import count, tally
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.checking import parallel
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.send.fleet.judge import engine
from mcpproxy.send.fleet.judge.client import JudgeJob, Limits
from mcpproxy.send.fleet.judge.corpus import FleetRecording, location, open_corpus
from mcpproxy.send.fleet.judge.results import open_results
from mcpproxy.send.fleet.judge.rules import JudgeRules
from mcpproxy.send.fleet.judge.shard import Shard

_REPORT_OPTIONS: Final = ("format", "output", "baseline", "write_baseline", "session", "strict")
"""Options of a report, which ``--out`` does not write."""


def run(options: argparse.Namespace, rules: JudgeRules) -> int:
    """Judge the recordings without a result in a shard, which is one of N parts of all recordings.

    Return the exit code: 2 if some were skipped because judging them failed, otherwise 0.

    Raises:
        McpProxyError: the options do not fit together, or the recordings cannot be judged at all.
    """
    _check_options(options)
    engine_name: str = options.engine or "local"
    engine.check_installed(engine_name)
    rules = _with_absolute_paths(rules)
    rules.load()
    source, out = location(options.paths[0]), location(options.out)
    job = JudgeJob(source, out, rules, rules.key(), Limits(options.timeout, options.memory << 20))
    shard: Shard = options.shard or Shard()
    wanted = list(shard.of(open_corpus(source).recordings()))
    results = open_results(out, job.key)
    done = set(results.names())
    remaining = [recording for recording in wanted if recording.name not in done]
    code = _judge_recordings(
        engine_name, job, remaining, len(wanted) - len(remaining), options.workers or parallel.processors()
    )
    emit([f"Results: {results.where}"])
    return code


def _judge_recordings(
    engine_name: str, job: JudgeJob, recordings: list[FleetRecording], done: int, workers: int
) -> int:
    """Judge ``recordings`` and print the totals; ``done`` others had a result. Return the exit code."""
    statuses: Counter[str] = Counter()
    frames = errors = warnings = infos = 0
    for result in engine.judge_all(engine_name, job, recordings, min(workers, len(recordings) or 1)):
        statuses[result.status] += 1
        frames, errors = frames + result.frames, errors + result.errors
        warnings, infos = warnings + result.warnings, infos + result.infos
        if result.status in ("unreadable", "skipped"):
            has_name = result.reason.startswith(f"{result.name}:")
            tell(result.reason if has_name else f"{result.name}: {result.reason}")
    lines = [
        f"{tally(errors, warnings, infos)} in {count(statuses['judged'], 'trace')}, {count(frames, 'frame')}"
    ]
    if done:
        lines.append(f"{count(done, 'trace')} had a result already.")
    if statuses["unfinished"]:
        lines.append(f"{count(statuses['unfinished'], 'trace')} did not end yet: judged by a later run.")
    if statuses["unreadable"]:
        lines.append(f"{count(statuses['unreadable'], 'trace')} cannot be read; the result says why.")
    if statuses["skipped"]:
        lines.append(f"{count(statuses['skipped'], 'trace')} could not be judged.")
    emit(lines)
    return 2 if statuses["skipped"] else 0


def _check_options(options: argparse.Namespace) -> None:
    if not options.out:
        raise UsageError(f"check --engine {options.engine}", "needs a place for the results", "add --out DIR")
    if len(options.paths) != 1:
        raise UsageError("check --out", "judges the recordings of one folder or URL", "name one")
    for name in _REPORT_OPTIONS:
        if getattr(options, name) not in (None, False, "", "text"):
            option = "--" + name.replace("_", "-")
            raise UsageError("check --out", f"{option} is for a report", "leave one of the two out")


def _with_absolute_paths(rules: JudgeRules) -> JudgeRules:
    """Return the rules with absolute paths, because a worker may be in another folder."""
    return replace(
        rules,
        rules=tuple(map(os.path.abspath, rules.rules)),
        versions=os.path.abspath(rules.versions) if rules.versions else "",
        pins=os.path.abspath(rules.pins) if rules.pins else "",
    )

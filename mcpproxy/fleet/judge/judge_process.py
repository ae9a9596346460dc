"""The process that judges recordings for ``judge_guard``: recordings in, answers out.

A recording is what strangers sent, and it may make its reader crash, hang, or take all memory. So it is
judged in a process of its own, under limits of time and memory that end this process, and nothing else.

The first line of stdin is the job, each further line a recording and its number. One line of JSON on stdout
says that its turn begins, another what became of it. When stdin ends, so does the process.
"""

import faulthandler
import os
import shutil
import sys
import time
from typing import Any, BinaryIO, cast

import orjson

from mcpproxy.errors import McpProxyError
from mcpproxy.fleet import urls
from mcpproxy.fleet.judge.judge_results import open_results
from mcpproxy.fleet.judge.judge_rules import JudgeRules
from mcpproxy.fleet.judge.judge_unit import UnitResult, judge_unit
from mcpproxy.fleet.judge.shard_corpus import FleetRecording, open_corpus
from mcpproxy.fleet.judge.store_transfers import OUT_OF_MEMORY, JudgeTurn, Kept, StoreTransfers, Transfers


def main() -> int:
    """Judge recordings until stdin ends."""
    commands, answers = sys.stdin.buffer, _own_stdout()
    job: dict[str, Any] = orjson.loads(commands.readline())
    rules = JudgeRules(**{name: _tuples(value) for name, value in job["rules"].items()})
    ruleset, selection = rules.load()
    corpus, results = open_corpus(job["source"], job["scratch"]), open_results(job["out"], job["key"])
    _limit_memory(job["memory_bytes"])
    is_remote = urls.is_url(job["source"]) or urls.is_url(job["out"])
    transfers = (StoreTransfers if is_remote else Transfers)(corpus, results)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        _answer(answers, {"ready": True})
        for step in transfers.steps(map(_turn, commands)):
            if isinstance(step, Kept):
                _answer(answers, _members(step))
                continue
            name = step.recording.name
            _answer(answers, {"begins": step.number, "at_s": time.monotonic()})
            _limit_cpu(job["seconds"])
            # A thread without the interpreter's lock ends the process, even if the judge never returns.
            faulthandler.dump_traceback_later(job["seconds"], exit=True, file=nowhere)
            try:
                try:
                    with transfers.opened(step) as path:
                        result = judge_unit(path, name, ruleset, selection, job["key"])
                except McpProxyError as fault:
                    if isinstance(fault.__cause__, MemoryError):  # a custom rule wanted it
                        os._exit(OUT_OF_MEMORY)
                    result = UnitResult(name, "skipped", reason=str(fault))
                transfers.keep(step.number, result)
            except MemoryError:
                os._exit(OUT_OF_MEMORY)
            faulthandler.cancel_dump_traceback_later()
    if job["scratch"]:
        shutil.rmtree(job["scratch"], ignore_errors=True)
    return 0


def _own_stdout() -> BinaryIO:
    """Return stdout. What a custom rule prints goes to stderr from now on."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _answer(answers: BinaryIO, value: object) -> None:
    answers.write(orjson.dumps(value) + b"\n")
    answers.flush()


def _members(kept: Kept) -> dict[str, object]:
    result = kept.result
    counts = [result.frames, result.errors, result.warnings, result.infos]
    return {"number": kept.number, "status": result.status, "reason": result.reason, "counts": counts}


def _turn(line: bytes) -> JudgeTurn:
    number, *recording = orjson.loads(line)
    return JudgeTurn(number, FleetRecording(*map(_tuples, recording)))


def _tuples(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _limit_memory(size: int) -> None:
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_cpu(seconds: float) -> None:
    """Let the next recording use so many seconds of a processor, beside what this process used so far."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        used = sum(os.times()[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 2, hard))


if __name__ == "__main__":
    sys.exit(main())

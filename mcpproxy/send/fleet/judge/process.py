"""The process that judges recordings for ``guard``: recordings in, answers out.

Strangers sent the messages in a recording, which may make its reader crash, hang, or take all memory. So it
is judged in a separate process, under limits of time and memory that end this process and nothing else.

The first line of stdin is the job, each further line a recording and its number. The first line of JSON on
stdout says that the process is ready. For each recording, one line says that its turn begins, another has the
outcome. The process ends when stdin ends.
"""

import faulthandler
import os
import shutil
import sys
import time
from typing import Any, BinaryIO, cast

import orjson

from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.judge.corpus import FleetRecording, open_corpus
from mcpproxy.send.fleet.judge.results import open_results
from mcpproxy.send.fleet.judge.rules import JudgeRules
from mcpproxy.send.fleet.judge.store_transfers import (
    OUT_OF_MEMORY,
    JudgeTurn,
    KeptResult,
    StoreTransfers,
    Transfers,
)
from mcpproxy.send.fleet.judge.unit import UnitResult, judge_unit


def main() -> int:
    """Judge recordings until stdin ends; return the exit code, 0."""
    commands, answers = sys.stdin.buffer, _own_stdout()
    job: dict[str, Any] = orjson.loads(commands.readline())
    rules = JudgeRules(**{name: _list_as_tuple(value) for name, value in job["rules"].items()})
    ruleset, selection = rules.load()
    corpus, results = open_corpus(job["source"], job["scratch"]), open_results(job["out"], job["key"])
    _limit_memory(job["memory_bytes"])
    is_remote = urls.is_url(job["source"]) or urls.is_url(job["out"])
    transfers = (StoreTransfers if is_remote else Transfers)(corpus, results)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        _write_answer(answers, {"ready": True})
        for step in transfers.steps(map(_decode_turn, commands)):
            if isinstance(step, KeptResult):
                _write_answer(answers, _answer_members(step))
                continue
            name = step.recording.name
            _write_answer(answers, {"begins": step.number, "at_s": time.monotonic()})
            _limit_cpu(job["seconds"])
            # A thread without the interpreter's lock ends the process, even if the judge never returns.
            faulthandler.dump_traceback_later(job["seconds"], exit=True, file=nowhere)
            try:
                try:
                    with transfers.opened(step) as path:
                        result = judge_unit(path, name, ruleset, selection, job["key"])
                except McpProxyError as fault:
                    if isinstance(fault.__cause__, MemoryError):  # a custom rule took too much
                        os._exit(OUT_OF_MEMORY)
                    result = UnitResult(name, "skipped", reason=str(fault))
                transfers.keep_result(step.number, result)
            except MemoryError:
                os._exit(OUT_OF_MEMORY)
            faulthandler.cancel_dump_traceback_later()
    if job["scratch"]:
        shutil.rmtree(job["scratch"], ignore_errors=True)
    return 0


def _own_stdout() -> BinaryIO:
    """Return stdout, for answers alone: from now on custom rules print to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _write_answer(answers: BinaryIO, value: object) -> None:
    answers.write(orjson.dumps(value) + b"\n")
    answers.flush()


def _answer_members(kept: KeptResult) -> dict[str, object]:
    result = kept.result
    counts = [result.frames, result.errors, result.warnings, result.infos]
    return {"number": kept.number, "status": result.status, "reason": result.reason, "counts": counts}


def _decode_turn(line: bytes) -> JudgeTurn:
    number, *recording = orjson.loads(line)
    return JudgeTurn(number, FleetRecording(*map(_list_as_tuple, recording)))


def _list_as_tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _limit_memory(size: int) -> None:
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_cpu(seconds: float) -> None:
    """Let the next recording use ``seconds`` of processor time, and up to two more, beyond what was used."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        used = sum(os.times()[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 2, hard))


if __name__ == "__main__":
    sys.exit(main())

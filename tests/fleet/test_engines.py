"""Engines: each gives the same results to the byte, also when one of its workers is killed in the middle."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.send.fleet.judge.client import JudgeJob, NoJudgeError
from mcpproxy.send.fleet.judge.corpus import FleetRecording
from mcpproxy.send.fleet.judge.engine import batches, judge_batch
from mcpproxy.send.fleet.judge.rules import JudgeRules
from tests import house
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus
from tests.fleet.test_judge_guard import CHECKS

_LIMIT_S: Final = 600


PLANTED: Final = ("mcpproxy/__init__.py", "orjson.py", "multiprocessing/__init__.py", "pickle.py")
"""Modules in the working directory: they stand for what every process of every engine imports."""


def check(*argv: str, cwd: str | Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``check`` in a process of its own: Ray and Dask change the process in which they are."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "mcpproxy", "check", *argv],
        cwd=cwd,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **environment},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


@pytest.fixture
def large_fleet(fleet: Path) -> Path:
    """So many recordings that every worker gets several batches; a judge with the rules of a test may kill
    its worker at one of them."""
    for number in range(20):
        names = {f"more/{number}-{Path(name).name}": records for name, records in corpus.RECORDINGS.items()}
        corpus.write(fleet, names)
    evil = corpus.RECORDINGS["week-1/weather-a.jsonl"][4].replace('"params": {}', '"params": {"evil": true}')
    records = corpus.RECORDINGS["week-1/weather-a.jsonl"]
    corpus.write(fleet, {"more/10-evil.jsonl": (*records[:4], evil, *records[5:])})
    return fleet


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A working directory with modules that write ``executed`` beside it when they are imported."""
    folder = tmp_path / "planted"
    for name in PLANTED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r})\n")
    return folder


JUDGED: Final = "148 errors, 191 info in 85 traces, 746 frames"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_every_engine_gives_the_same_results_also_if_a_worker_is_killed(
    large_fleet: Path, planted: Path, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    # The judge's parent is the worker. With the local engine that is the command itself.
    once = f"os.path.exists({str(done)!r}) or (open({str(done)!r}, 'w').close(), os.kill(os.getppid(), 9))"
    rules = house.build(tmp_path, CHECKS.format(log=str(tmp_path / "log"), deed=once))
    done.touch()
    calm = check(str(large_fleet), "--rules", rules, "--out", str(tmp_path / "calm"), "--workers", "1")
    assert (calm.returncode, calm.stdout.partition("\n")[0]) == (0, JUDGED)
    for engine in ("local", "ray", "dask"):
        done.unlink()
        options = ("--rules", rules, "--engine", engine, "--workers", "2", "--out", str(tmp_path / engine))
        judged = check(str(large_fleet), *options, cwd=planted)
        assert done.exists()
        if engine == "local":
            assert judged.returncode == -9
            judged = check(str(large_fleet), *options, cwd=planted)
            assert "had a result already." in judged.stdout
        else:
            assert JUDGED in judged.stdout.splitlines()  # Ray tells of the kill before
        assert judged.returncode == 0, judged.stderr
        assert not (tmp_path / "executed").exists(), (tmp_path / "executed").read_text()
        assert corpus.tree(tmp_path / engine) == corpus.tree(tmp_path / "calm")


@pytest.mark.parametrize(
    ("engine", "environment", "said"),
    [
        (
            "ray",
            {"RAY_ADDRESS": "127.0.0.1:1"},
            "mcpproxy: --engine ray (127.0.0.1:1): Ray cannot be reached",
        ),
        (
            "dask",
            {"DASK_SCHEDULER_ADDRESS": "tcp://127.0.0.1:1"},
            "mcpproxy: --engine dask (tcp://127.0.0.1:1): ",
        ),
    ],
)
def test_a_cluster_that_is_not_there_is_named(
    fleet: Path, tmp_path: Path, engine: str, environment: dict[str, str], said: str
) -> None:
    quick = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    refused = check(str(fleet), "--out", str(tmp_path / "out"), "--engine", engine, **quick, **environment)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith(said)
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_an_engine_that_is_not_installed_is_named(
    mcpproxy: Mcpproxy, fleet: Path, monkeypatch: pytest.MonkeyPatch, engine: str, package: str
) -> None:
    def find(name: str) -> object:
        return None if name == package else find_spec(name)

    monkeypatch.setattr("mcpproxy.send.fleet.judge.engine.find_spec", find)
    refused = mcpproxy("check", str(fleet), "--out", "out", "--engine", engine)
    assert refused.code == 2
    assert refused.err == f"mcpproxy: --engine {engine}: needs {package}; pip install {package}\n"


def test_a_worker_with_other_rules_judges_nothing(fleet: Path, tmp_path: Path) -> None:
    job = JudgeJob(str(fleet), str(tmp_path / "out"), JudgeRules(), "0.0.1-0123456789abcdef")
    (batch, *_) = batches(job, [FleetRecording("week-1/files-a.jsonl")], 1)
    with pytest.raises(NoJudgeError, match=r"and this run by 0\.0\.1-0123456789abcdef; install the same"):
        judge_batch(batch)
    assert not (tmp_path / "out").exists()

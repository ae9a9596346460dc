"""Fixtures for the tests of every folder, and how tests are distributed among processes."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs] # it has its types inline

from tests import schedule, signals
from tests.descriptors import files_are_closed, files_of_the_module_are_closed, pytest_fixture_setup
from tests.every import pytest_configure, pytest_generate_tests, pytest_pyfunc_call
from tests.light import pytest_make_collect_report, pytest_runtest_makereport
from tests.peers.fixtures import peers
from tests.peers.sessions import sessions

__all__ = [
    "files_are_closed",
    "files_of_the_module_are_closed",
    "peers",
    "pytest_configure",
    "pytest_fixture_setup",
    "pytest_generate_tests",
    "pytest_make_collect_report",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
    "sessions",
]

# No deadline: how long an example takes depends on the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

signals.restore_defaults()

SIGNALS: Final = tuple(map(int, signal.valid_signals()))
"""All signals. They are asked for once, because that takes longer than many tests."""

# Output is as in a pipe on every machine; a test that wants a width sets it.
for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(variable, None)


@pytest.fixture(autouse=True)
def _signals_stay() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    """Fails a test that leaves signals blocked or handled: processes of later tests would inherit that."""
    before = _signals()
    yield
    changed = {number: state for number, state in _signals().items() if state != before[number]}
    for number in changed:
        handler, was_blocked = before[number]
        signal.pthread_sigmask(signal.SIG_BLOCK if was_blocked else signal.SIG_UNBLOCK, [number])
        if handler is not None and handler != signal.getsignal(number):
            signal.signal(number, handler)
    assert not changed, f"the test has left signals changed (handler, whether blocked): {changed}"


def _signals() -> dict[int, tuple[Any, bool]]:
    """How each signal is handled, and whether it is blocked."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return {number: (signal.getsignal(number), number in blocked) for number in SIGNALS}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and spare it what was collected: that stays until the end.

    Each worker has a million objects by then. Looking for garbage among them took as long as the imports.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return the number of workers for ``-n auto``, unless the environment sets it."""
    return None if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else schedule.workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> schedule.Schedule | None:
    """Return our scheduler, unless ``--dist`` selects another one."""
    if config.getoption("dist") != "load":
        return None
    config.option.loadscopereorder = False  # else the files with most tests would go first
    return schedule.Schedule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests, because all workers need the same order. Without workers, keep pytest's order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: schedule.rank(item.nodeid))

"""What tests in every folder may ask for, and how they are shared out among processes."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs] # it has its types inline

from tests import schedule
from tests.peers.fixtures import peers
from tests.peers.sessions import sessions

__all__ = ["peers", "sessions"]

# How long an example takes says something of the machine and nothing of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell starts what runs in the background with these ignored, and what a test starts would inherit that.
for _name in ("SIGINT", "SIGQUIT", "SIGHUP"):
    if signal.getsignal(_number := getattr(signal, _name, signal.SIGTERM)) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """What ``-n auto`` means, unless the environment says it."""
    return None if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else schedule.workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> schedule.Schedule | None:
    """Ours, unless ``--dist`` asks for another."""
    if config.getoption("dist") != "load":
        return None
    config.option.loadscopereorder = False  # or what has most tests would go first
    return schedule.Schedule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers have to agree on the order; alone, files are run as they lie."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: schedule.rank(item.nodeid))

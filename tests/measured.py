"""A plugin of pytest that measures what the tests of the pure layers cover of them, in a run of all tests.

``COVERAGE_FILE=FILE python -m pytest -p tests.measured`` writes ``FILE.*``, one for each process, which
``coverage combine`` joins. pyproject.toml says what is measured. Only the tests named here count: they call
the layers themselves, and a line that is run on the way to something else is not thereby tested.
"""

import os
from collections.abc import Generator
from typing import Final

import pytest
from coverage import Coverage

COVERING: Final = (
    "tests/checks/",
    "tests/protocol/",
    "tests/session/",
    "tests/framing/",
    "tests/rules/",
    "tests/view/",
    "tests/cli/test_check_runs.py",
    "tests/cli/test_json_layout.py",
    "tests/cli/test_prune.py",
    "tests/client/test_remote_server.py",
    "tests/hosts/test_commands.py",
    "tests/intercept/test_two_views.py",
    "tests/recorder/test_journal_reader.py",
    "tests/recorder/test_lock.py",
    "tests/recorder/test_secret_arguments.py",
    "tests/relay/test_http_guard.py",
    "tests/relay/test_http_upstream_proxy.py",
    "tests/replay/test_translate.py",
    "tests/reports/test_style.py",
    "tests/test_http_judge.py",
    "tests/test_masked.py",
    "tests/test_named_urls.py",
    "tests/test_observer.py",
    "tests/test_pins.py",
    "tests/test_process_end.py",
    "tests/test_recordings.py",
    "tests/test_upstream_options.py",
    "tests/test_visible.py",
    "tests/trace/test_records.py",
)
"""Files, or folders of files, whose tests count."""

NOT_COUNTED: Final = "tests/view/test_against_reader.py"
"""It judges thousands of made up sessions, which takes twice as long if it is measured, and reaches few lines
that the others do not."""

if "PYTEST_XDIST_WORKER" in os.environ:
    # What a test starts, such as another pytest, is not measured.
    os.environ["PYTEST_ADDOPTS"] = os.environ.get("PYTEST_ADDOPTS", "").replace("-p tests.measured", "")

# From here to the end of the collection the layers are imported, which runs each line outside a function.
_measured: Final = Coverage(data_suffix=True)
_measured.start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Measure no longer, also in the process that hands the tests out, which collects none."""
    _measured.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test, with its fixtures, if it counts."""
    if not item.nodeid.startswith(COVERING) or item.nodeid.startswith(NOT_COUNTED):
        return (yield)
    _measured.start()
    try:
        return (yield)
    finally:
        _measured.stop()


def pytest_sessionfinish() -> None:
    _measured.save()

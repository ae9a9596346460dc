"""Skips tests that need a package of ``.[dev]`` where only ``.[test-light]`` is installed.

Where ``CI`` is set, they fail instead.
"""

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '(?!mcpproxy\b|tests\b)([\w.]+)'")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module that imports a package which is not installed."""
    report = yield
    if report.failed:
        _skip_without_package(report, collector.path, report.longreprtext)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that imports such a package while it runs."""
    report = yield
    if report.failed and call.excinfo is not None and isinstance(call.excinfo.value, ModuleNotFoundError):
        _skip_without_package(report, item.path, call.excinfo.exconly())
    return report


def _skip_without_package(report: pytest.CollectReport | pytest.TestReport, path: Path, text: str) -> None:
    """Turn a report into a skip if ``text``, of an exception, names a package that is not installed."""
    if not os.environ.get("CI") and (missing := _MISSING.search(text)):
        report.outcome = "skipped"
        reason = f"Skipped: {missing[1]} is not installed: python -m pip install -e '.[dev]'"
        report.longrepr = (str(path), 1, reason)

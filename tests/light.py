"""Skips the modules of tests that need a package of ``.[dev]`` where only ``.[test-light]`` is installed."""

import os
import re
from collections.abc import Generator
from importlib.util import find_spec
from typing import Final

import pytest

_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '(?!mcpproxy\b|tests\b)([\w.]+)'")


def skip_without(package: str) -> None:
    """Skip the test if a package is not installed. Where ``CI`` is set, do nothing."""
    if not os.environ.get("CI") and find_spec(package) is None:
        pytest.skip(_reason(package))


def _reason(package: str) -> str:
    return f"{package} is not installed: python -m pip install -e '.[dev]'"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module that imports a package which is not installed. Where ``CI`` is set, it fails."""
    report = yield
    if report.failed and not os.environ.get("CI") and (missing := _MISSING.search(report.longreprtext)):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, f"Skipped: {_reason(missing[1])}")
    return report

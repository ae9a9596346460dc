"""The view of the hosts in which a server works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mcpproxy.cli.main import main
from mcpproxy.show.ui.works_in import works_in
from tests.ui.browser import Visitor, browser, served, visitor

__all__ = ["browser", "visitor"]

RECORDED = Path(__file__).parents[2] / "recordings" / "everything-2025-11-25.jsonl"


def test_the_page_has_the_matrix_of_check(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--hosts", "all", "--format", "json", str(RECORDED)])
    assert works_in(str(RECORDED))["hosts"] == json.loads(capsys.readouterr().out)["hosts"]


def test_nothing_about_hosts_is_imported_until_the_view_is_opened() -> None:
    hosts = "[m for m in sys.modules if 'host_' in m or '.hosts' in m]"
    loaded = f"import sys, mcpproxy.show.ui.page_app; print({hosts})"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_each_host_has_a_state_and_its_reasons(visitor: Visitor) -> None:
    with served(RECORDED) as running:
        visitor.opens(running.url)
        visitor.presses("8")
        hosts = works_in(str(RECORDED))["hosts"]
        assert isinstance(hosts, list)
        for width, scheme in ((1440, "light"), (1000, "dark"), (400, "light"), (400, "dark")):
            visitor.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            visitor.page.set_viewport_size({"width": width, "height": 800})
            expect(visitor.page.locator(".works-in tbody tr")).to_have_count(
                sum(isinstance(host, dict) and host["state"] != "unknown" for host in hosts)
            )
            told = " ".join(visitor.page.locator(".works-in").inner_text().split())
            for host in hosts:
                assert isinstance(host, dict)
                reasons = host["reasons"]
                assert isinstance(reasons, list)
                for reason in reasons:
                    assert isinstance(reason, dict)
                    assert " ".join(str(reason["text"]).split()) in told
            visitor.breaks_no_rule(f"hosts at {width}, {scheme}")
            assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

"""The document of the relay names every module that asks for the system."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2] / "mcpproxy"

ASKS: Final = re.compile(
    r"sys\.platform|os\.name\b|(?:has|get)attr\((?:os|signal|select|socket), |\"/(?:proc|dev/fd|dev/tty)\\b"
)


def test_every_module_that_asks_for_the_system_is_in_the_table() -> None:
    table = (ROOT / "record" / "relay" / "README.md").read_text(encoding="utf-8").partition("## Systems")[2]
    asking = {
        str(path.relative_to(ROOT)).removeprefix("record/relay/")
        for path in ROOT.rglob("*.py")
        if ASKS.search(path.read_text(encoding="utf-8"))
    }
    assert len(asking) > 20
    assert {module for module in asking if f"`{module}`" not in table} == set()

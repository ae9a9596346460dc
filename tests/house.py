"""Writes a folder with two custom rules, for tests."""

from pathlib import Path
from typing import Final

_TABLE: Final = """
[{code}]
name = "{name}"
summary = "Something is not done here."
why = "It is agreed among us."
example = '''
client: {{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}
'''
instead = "Do something else."

[{code}.requirements.H-001]
text = "Something is not done here."
blame = "{blame}"
keyword = "contract"
source = "https://example.com/house-rules#{name}"
"""

TABLES: Final = _TABLE.format(code="HOUSE-001", name="lists-tools", blame="client") + _TABLE.format(
    code="HOUSE-002", name="names-itself", blame="server"
)

CHECKS: Final = """
from mcpproxy.custom_rules import Check, RuleFamily, StateUpdate, Violation, member

print("imported")


def lists_tools(context, history):
    print("asked")
    yield Violation("HOUSE-001", "H-001", "client listed tools", pointer="/method")


def names_itself(context, history):
    if member(context.message.result, "serverInfo") is not None:
        yield Violation("HOUSE-002", "H-001", "server named itself", pointer="/result/serverInfo")


FAMILY = RuleFamily(
    checks=(
        Check(("HOUSE-001",), lists_tools, ("request",), ("tools/list",)),
        Check(("HOUSE-002",), names_itself, ("response",)),
    )
)
"""
"""HOUSE-001 is decided by a request alone, HOUSE-002 by an answer. Both print, as custom rules may."""


def build(where: Path, checks: str = CHECKS) -> str:
    """Write the folder into ``where``, with ``checks`` for the rules of ``TABLES``; return its path."""
    folder = where / "house"
    folder.mkdir(exist_ok=True)
    (folder / "house.toml").write_text(TABLES)
    (folder / "house.py").write_text(checks)
    return str(folder)

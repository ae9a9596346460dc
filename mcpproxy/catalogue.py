"""Find and load the rule tables that ship with mcpproxy.

In an installed package they lie in ``mcpproxy/_rules``; in a checkout in ``rules/`` beside it.
"""

import tomllib
from functools import cache
from pathlib import Path

from mcpproxy.protocol.rules import Catalogue, RuleError

_HERE = Path(__file__).resolve().parent


def rules_folder() -> Path:
    """The folder of the built-in rule tables."""
    installed = _HERE / "_rules"
    return installed if installed.is_dir() else _HERE.parent / "rules"


@cache
def load() -> Catalogue:
    """The built-in catalogue, read once.

    Raises:
        RuleError: a table is broken, or names a rule twice.
    """
    tables: dict[str, object] = {}
    for file in sorted(rules_folder().glob("*.toml")):
        family = tomllib.loads(file.read_text(encoding="utf-8"))
        if twice := family.keys() & tables.keys():
            raise RuleError(f"{file.name}: rule {sorted(twice)[0]} is in another table too")
        tables.update(family)
    return Catalogue.from_tables(tables)

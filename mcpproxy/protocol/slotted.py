"""Old names that custom rules imported from here: import ``mcpproxy.custom_rules`` instead."""

from typing import Any, Final

from mcpproxy.base.renamed import resolve_old_name

_NAMES: Final = {
    "slotted": ("mcpproxy.custom_rules", "slotted"),
    "field": ("mcpproxy.custom_rules", "field"),
}


def __getattr__(name: str) -> Any:
    return resolve_old_name(__name__, name, _NAMES)

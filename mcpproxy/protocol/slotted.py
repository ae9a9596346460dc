"""Old place of ``mcpproxy.base.slotted``; rules of one's own import ``mcpproxy.custom_rules``."""

from typing import Any, Final

from mcpproxy.base.renamed import give

_NAMES: Final = {
    "slotted": ("mcpproxy.base.slotted", "slotted"),
    "field": ("mcpproxy.base.slotted", "field"),
}


def __getattr__(name: str) -> Any:
    return give(__name__, name, _NAMES)

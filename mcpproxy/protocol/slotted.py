"""Names that custom rules of earlier versions import from here. New ones import ``mcpproxy.custom_rules``."""

from typing import Any, Final

from mcpproxy.base.renamed import resolve_old_name

_NAMES: Final = {
    "slotted": ("mcpproxy.custom_rules", "slotted"),
    "field": ("mcpproxy.custom_rules", "field"),
}


def __getattr__(name: str) -> Any:
    return resolve_old_name(__name__, name, _NAMES)

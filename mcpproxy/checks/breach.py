"""Old names that custom rules imported from here: import ``mcpproxy.custom_rules`` instead."""

from typing import Any, Final

from mcpproxy.base.renamed import resolve_old_name

_NAMES: Final = {
    "Breach": ("mcpproxy.custom_rules", "Violation"),
    "Passing": ("mcpproxy.custom_rules", "MessageContext"),
    "Check": ("mcpproxy.custom_rules", "CheckFunction"),
    "HttpCheck": ("mcpproxy.custom_rules", "HttpCheckFunction"),
    "EventCheck": ("mcpproxy.custom_rules", "EventCheckFunction"),
    "spelled": ("mcpproxy.custom_rules", "spelled"),
    "shortened": ("mcpproxy.custom_rules", "shortened"),
    "member": ("mcpproxy.custom_rules", "member"),
    "as_object": ("mcpproxy.custom_rules", "as_object"),
}


def __getattr__(name: str) -> Any:
    return resolve_old_name(__name__, name, _NAMES)

"""Old names that custom rules imported from here: import ``mcpproxy.custom_rules`` instead."""

from typing import Any, Final

from mcpproxy.base.renamed import resolve_old_name

_NEW_PLACES: Final = {
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
"""Each old name, with the module that has it now and its new name."""


def __getattr__(name: str) -> Any:
    return resolve_old_name(__name__, name, _NEW_PLACES)

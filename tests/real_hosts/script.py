"""What a scripted model does with the awkward server."""

from collections.abc import Mapping
from typing import Any, Final

from tests.real_hosts.awkward_server import SEVENTY

SCRIPT: Final[list[dict[str, Any]]] = [
    {"call": "greet", "arguments": {"whom": "Ada"}, "expect": {"contains": "Hello, Ada."}},
    {"call": "wind.speed", "arguments": {"at": "noon"}, "expect": {"contains": "noon"}},
    {"call": SEVENTY},
    {"call": "forecast"},
    {"call": "logbook", "expect": {"contains": "entry 000000"}},
    {"call": "badge"},
    {"call": "papers"},
    {"call": "broken", "expect": {"contains": "The gauge is out of order."}},
    {"call": "refused"},
    {"say": "That was all."},
]
"""What a model does with the server: each call that is answered in a way of its own."""


def script_for(results: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the script for a host: ``results`` are texts of tools' results, instead of what it expects."""
    return [
        turn | {"expect": {"contains": results[turn["call"]]}} if turn.get("call") in results else turn
        for turn in SCRIPT
    ]

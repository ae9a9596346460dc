"""The protocol as data and pure functions: messages, revisions, methods, shapes, rules.

Code that registers tools or answers calls can import these functions from here: ``extensions``,
``validate_server_info``, ``validate_tool_call``, ``validate_tool_result``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.protocol.single_objects import (
        Problem,
        extensions,
        validate_server_info,
        validate_tool_call,
        validate_tool_result,
    )

__all__ = [
    "Problem",
    "extensions",
    "validate_server_info",
    "validate_tool_call",
    "validate_tool_result",
]


def __getattr__(name: str) -> object:
    # Imported on first use, because mcpproxy imports this package whenever it starts a server.
    if name in __all__:
        from mcpproxy.protocol import single_objects

        return getattr(single_objects, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

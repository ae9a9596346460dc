"""mcpproxy: a transparent proxy and recorder for the Model Context Protocol.

From Python, ``open_trace`` reads a recording and ``check`` judges it; ``mcpproxy.api`` has the documentation.

These names are imported when they are first used, because this file runs at every start of a wrapped server.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.api import (
        Call,
        Exchange,
        Finding,
        Frame,
        Header,
        McpProxyError,
        Report,
        Session,
        Trace,
        TraceError,
        UsageError,
        check,
        open_trace,
    )

__all__ = [
    "Call",
    "Exchange",
    "Finding",
    "Frame",
    "Header",
    "McpProxyError",
    "Report",
    "Session",
    "Trace",
    "TraceError",
    "UsageError",
    "__version__",
    "check",
    "open_trace",
]


def __getattr__(name: str) -> object:
    if name == "api" or name in __all__:
        from importlib import import_module  # ``from mcpproxy import api`` would call this function again

        api = import_module("mcpproxy.api")
        value: object = api if name == "api" else getattr(api, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

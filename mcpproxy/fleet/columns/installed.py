"""Whether the packages for tables are installed. It imports none of them."""

from importlib.util import find_spec

from mcpproxy.errors import UsageError


def check(command: str, *packages: str) -> None:
    """Check that the packages that a command needs are installed.

    Raises:
        UsageError: one is not.
    """
    for package in packages:
        if find_spec(package) is None:
            step = "install it with: python -m pip install 'mcpproxy[fleet]'"
            raise UsageError(command, f"needs {package}", step)

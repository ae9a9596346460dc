"""The commands, as their own tests call them."""

from tests.cli.conftest import mcpproxy, state_dir

__all__ = ["mcpproxy", "state_dir"]

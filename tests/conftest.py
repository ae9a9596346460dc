"""What tests in every folder may ask for."""

from tests.peers.fixtures import peers

__all__ = ["peers"]

"""mcpproxy: a transparent proxy and recorder for the Model Context Protocol.

This file imports nothing: every wrapped server's start passes through it.
"""

__version__ = "0.1.0"

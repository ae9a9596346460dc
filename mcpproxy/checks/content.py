"""Content blocks: text, images, audio, resources.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()

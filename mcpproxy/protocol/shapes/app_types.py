"""The types of MCP Apps, an extension: ``_meta.ui`` of a tool, and of a resource that is a page.

No message table refers to these types, because ``_meta`` may have any members. ``shapes.notation`` explains
the notation.

Source: https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from typing import Final

APPS: Final = """
McpUiToolMeta
    resourceUri?       string
    visibility?        McpUiVisibility[]

McpUiVisibility = 'model'|'app'

McpUiResourceMeta
    csp?               McpUiCsp
    permissions?       McpUiPermissions
    domain?            string
    prefersBorder?     boolean

McpUiCsp
    connectDomains?    string[]
    resourceDomains?   string[]
    frameDomains?      string[]
    baseUriDomains?    string[]

McpUiPermissions
    camera?            object
    microphone?        object
    geolocation?       object
    clipboardWrite?    object
"""

"""Checks of what a server offers: tools, resources, prompts, skills and the pages of MCP Apps."""

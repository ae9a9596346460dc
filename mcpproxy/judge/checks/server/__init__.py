"""Checks of what a server offers: tools, resources, prompts."""

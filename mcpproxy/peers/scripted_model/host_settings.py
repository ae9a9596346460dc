"""The settings with which hosts talk to a scripted model, and to no other service.

Measured with Claude Code 2.1.197, Codex 0.171.0, Gemini CLI 0.61.0 and Copilot CLI 1.0.102.
"""

import os
from typing import Final

_DEFAULTS_OF_GEMINI: Final = os.path.join(os.path.dirname(__file__), "gemini-cli-defaults.json")
"""The file with the setting of Gemini CLI for which there is no variable: to log in with a key. The user's
settings override it."""

_KEY: Final = "scripted"
"""The API key that hosts send. A scripted model does not check it."""

MODEL_OF_CODEX: Final = "gpt-5"
"""A model that Codex and Copilot know; with an unknown one they would leave out pictures."""


def environment(url: str) -> dict[str, str]:
    """Return variables for all hosts that read some; ``url`` is the base URL of the model.

    With them, Claude Code puts the tools of servers into each request, instead of letting the model search.
    """
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": _KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": _KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": _DEFAULTS_OF_GEMINI,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": _KEY,
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_MODEL": MODEL_OF_CODEX,
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": _KEY,
    }


def codex_arguments(url: str) -> list[str]:
    """Return options of Codex, which reads no variable for the address of its model."""
    settings = (
        f'model="{MODEL_OF_CODEX}"',
        'model_provider="scripted"',
        'model_providers.scripted.name="scripted"',
        f'model_providers.scripted.base_url="{url}/v1"',
        'model_providers.scripted.wire_api="responses"',
        'model_providers.scripted.env_key="OPENAI_API_KEY"',
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
    )
    return [word for setting in settings for word in ("-c", setting)]

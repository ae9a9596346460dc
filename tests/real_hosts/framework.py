"""An agent of a framework, with a server and a scripted model: ``framework.py PIN DIALECT URL SERVER...``.

It runs in an environment that has the framework, in the version that ``PIN`` says, such as
``openai-agents==0.24.0``.
"""

# It runs with packages that are not there where it is type-checked.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import os
import sys
from importlib.metadata import version
from typing import Any

KEY = "scripted"


async def main(pin: str, dialect: str, url: str, *server: str) -> None:
    package, _, pinned = pin.partition("==")
    name = package.partition("[")[0]
    if version(name) != pinned:
        sys.exit(f"{pin} was to play, and it is {version(name)}")
    agent = {"pydantic-ai-slim": _pydantic_ai, "openai-agents": _openai_agents}[name]
    sys.stdout.write(f"{await agent(dialect, url, server)}\n")


async def _pydantic_ai(dialect: str, url: str, server: tuple[str, ...]) -> str:
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset

    tools = MCPToolset({"mcpServers": {"awkward": {"command": server[0], "args": [*server[1:]]}}})
    agent = Agent(_model_of_pydantic_ai(dialect, url), toolsets=[tools], retries=3)
    async with agent:
        return (await agent.run("go")).output


def _model_of_pydantic_ai(dialect: str, url: str) -> Any:
    match dialect:
        case "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            client = AsyncAnthropic(base_url=url, api_key=KEY)
            return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(anthropic_client=client))
        case "gemini":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel("gemini-2.5-pro", provider=GoogleProvider(api_key=KEY, base_url=url))
        case _:
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            model = OpenAIChatModel if dialect == "chat" else OpenAIResponsesModel
            return model("gpt-4.1", provider=OpenAIProvider(base_url=f"{url}/v1", api_key=KEY))


async def _openai_agents(dialect: str, url: str, server: tuple[str, ...]) -> str:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        set_tracing_disabled,
    )
    from agents.mcp import MCPServerStdio
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel if dialect == "chat" else OpenAIResponsesModel
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY)
    started: Any = {"command": server[0], "args": [*server[1:]]}
    # The SDK gives a call 5 seconds, which is little on a busy machine.
    patience: Any = {} if os.environ.get("OWN_TIMES") else {"client_session_timeout_seconds": 60}
    async with MCPServerStdio(params=started, **patience) as tools:
        agent = Agent(name="tested", model=model("gpt-4.1", openai_client=client), mcp_servers=[tools])
        return (await Runner.run(agent, "go", max_turns=30)).final_output


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

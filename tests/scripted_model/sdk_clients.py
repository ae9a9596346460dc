"""The official clients of all four interfaces, behind one face: ask, get calls or a text, send results.

An SDK is imported by the test that uses it: all workers import this module, and one runs its tests.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcpproxy.base.slotted import slotted

SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}}


@slotted(frozen=True)
class Told:
    """What a client read in an answer. A call is its id, its name and its arguments."""

    text: str
    calls: Sequence[tuple[str, str, Any]]


class Client(ABC):
    """A conversation by an SDK, which offers ``tools``."""

    def __init__(self, url: str, tools: Sequence[str]) -> None:
        self._sdk: Any = None
        self.url = url
        self.tools = tools
        self.said: list[Any] = []
        self.begin()

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()

    @abstractmethod
    def begin(self) -> None:
        """Make the client, and say the first word."""

    @abstractmethod
    def ask(self, *, stream: bool) -> Told:
        """Send the conversation, and add the answer to it."""

    @abstractmethod
    def answer(self, results: Sequence[str]) -> None:
        """Add the results of the calls in the last answer."""

    def models(self) -> Sequence[str]:
        """Return the names of the models."""
        return [model.id for model in self._sdk.models.list()]

    @abstractmethod
    def count_tokens(self) -> int | None:
        """Return how many tokens the conversation has; ``None`` where the interface does not say."""


class Anthropic(Client):
    def begin(self) -> None:
        import anthropic

        self._sdk = anthropic.Anthropic(base_url=self.url, api_key="k", timeout=60)
        self.said = [{"role": "user", "content": "go"}]

    def ask(self, *, stream: bool) -> Told:
        tools = [{"name": name, "input_schema": SCHEMA} for name in self.tools]
        options = {"model": "m", "max_tokens": 99, "messages": self.said, "tools": tools}
        if stream:
            with self._sdk.messages.stream(**options) as events:
                message = events.get_final_message()
        else:
            message = self._sdk.messages.create(**options)
        self.said.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
        calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
        assert message.stop_reason == ("tool_use" if calls else "end_turn")
        return Told("".join(block.text for block in message.content if block.type == "text"), calls)

    def answer(self, results: Sequence[str]) -> None:
        ids = [block["id"] for block in self.said[-1]["content"] if block["type"] == "tool_use"]
        blocks = [
            {"type": "tool_result", "tool_use_id": id, "content": text}
            for id, text in zip(ids, results, strict=True)
        ]
        self.said.append({"role": "user", "content": blocks})

    def count_tokens(self) -> int | None:
        return self._sdk.messages.count_tokens(model="m", messages=self.said).input_tokens


class Chat(Client):
    def begin(self) -> None:
        import openai

        self._sdk = openai.OpenAI(base_url=f"{self.url}/v1", api_key="k", timeout=60)
        self.said = [{"role": "user", "content": "go"}]

    def ask(self, *, stream: bool) -> Told:
        functions = [{"name": name, "parameters": SCHEMA} for name in self.tools]
        tools = [{"type": "function", "function": function} for function in functions]
        options: Mapping[str, Any] = {"model": "gpt-5", "messages": self.said, "tools": tools}
        if stream:
            usage = {"include_usage": True}
            with self._sdk.chat.completions.stream(**options, stream_options=usage) as events:
                completion = events.get_final_completion()
        else:
            completion = self._sdk.chat.completions.create(**options)
        assert completion.usage.total_tokens == 110
        (choice,) = completion.choices
        message = choice.message
        calls = [
            (call.id, call.function.name, json.loads(call.function.arguments))
            for call in message.tool_calls or ()
        ]
        assert choice.finish_reason == ("tool_calls" if calls else "stop")
        self.said.append(message.to_dict())
        return Told(message.content or "", calls)

    def answer(self, results: Sequence[str]) -> None:
        ids = [call["id"] for call in self.said[-1]["tool_calls"]]
        self.said += [
            {"role": "tool", "tool_call_id": id, "content": text}
            for id, text in zip(ids, results, strict=True)
        ]

    def count_tokens(self) -> int | None:
        return None


class Responses(Client):
    def begin(self) -> None:
        import openai

        self._sdk = openai.OpenAI(base_url=f"{self.url}/v1", api_key="k", timeout=60)
        self.said = [{"role": "user", "content": "go"}]

    def ask(self, *, stream: bool) -> Told:
        tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in self.tools]
        options: Mapping[str, Any] = {"model": "gpt-5", "input": self.said, "tools": tools}
        if stream:
            with self._sdk.responses.stream(**options) as events:
                response = events.get_final_response()
        else:
            response = self._sdk.responses.create(**options)
        assert response.usage.total_tokens == 110
        self._calls = [item for item in response.output if item.type == "function_call"]
        names = ("type", "role", "content", "call_id", "name", "arguments")
        self.said += [
            {name: value for name, value in item.to_dict().items() if name in names}
            for item in response.output
        ]
        calls = [(call.call_id, call.name, json.loads(call.arguments)) for call in self._calls]
        return Told(response.output_text, calls)

    def answer(self, results: Sequence[str]) -> None:
        self.said += [
            {"type": "function_call_output", "call_id": call.call_id, "output": text}
            for call, text in zip(self._calls, results, strict=True)
        ]

    def count_tokens(self) -> int | None:
        return self._sdk.responses.input_tokens.count(model="m", input=self.said).input_tokens


class Gemini(Client):
    def begin(self) -> None:
        from google import genai
        from google.genai import types

        options = types.HttpOptions(base_url=self.url, timeout=60_000)
        self._sdk = genai.Client(api_key="k", vertexai=False, http_options=options)
        self.said = [types.Content(role="user", parts=[types.Part(text="go")])]

    def ask(self, *, stream: bool) -> Told:
        from google.genai import types

        declarations = [
            types.FunctionDeclaration(name=name, parameters_json_schema=SCHEMA) for name in self.tools
        ]
        config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=declarations)])
        options: Mapping[str, Any] = {
            "model": "gemini-2.5-pro",
            "contents": self.said,
            "config": config,
        }
        if stream:
            answers = [*self._sdk.models.generate_content_stream(**options)]
        else:
            answers = [self._sdk.models.generate_content(**options)]
        endings = [answer.candidates[0].finish_reason for answer in answers]
        assert endings == [None] * (len(answers) - 1) + ["STOP"]
        parts = [part for answer in answers for part in answer.candidates[0].content.parts]
        self.said.append(types.Content(role="model", parts=parts))
        self._calls = [part.function_call for part in parts if part.function_call]
        calls = [(call.id, call.name, call.args) for call in self._calls]
        return Told("".join(part.text for part in parts if part.text), calls)

    def answer(self, results: Sequence[str]) -> None:
        from google.genai import types

        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": text}
                )
            )
            for call, text in zip(self._calls, results, strict=True)
        ]
        self.said.append(types.Content(role="user", parts=parts))

    def models(self) -> Sequence[str]:
        return [model.name for model in self._sdk.models.list()]

    def count_tokens(self) -> int | None:
        return self._sdk.models.count_tokens(model="m", contents=self.said).total_tokens


CLIENTS: Final[Mapping[str, type[Client]]] = {
    "anthropic": Anthropic,
    "chat": Chat,
    "responses": Responses,
    "gemini": Gemini,
}

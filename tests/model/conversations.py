"""One conversation as each dialect writes it: a tool is offered, called, and answers text and a picture."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

PICTURE: Final = "aGVsbG8="
PICTURE_OF_ANOTHER_ALPHABET: Final = "-_8="
SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS: Final = {"city": "Oslo"}
AS_TEXT: Final = json.dumps(ARGUMENTS)
TOLD: Final = "The weather of a city."

_DATA_URL: Final = f"data:image/png;base64,{PICTURE}"

PATHS: Final = {
    "anthropic": "/v1/messages?beta=true",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
}

REQUESTS: Final[Mapping[str, Any]] = {
    "anthropic": {
        "model": "m",
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [
            {"name": "forecast", "description": TOLD, "input_schema": SCHEMA},
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "late", "input_schema": {}, "defer_loading": True},
        ],
        "messages": [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "forecast", "input": ARGUMENTS}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [
                            {"type": "text", "text": "sunny"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
                            },
                        ],
                    }
                ],
            },
        ],
    },
    "chat": {
        "model": "m",
        "tools": [
            {"type": "function", "function": {"name": "forecast", "description": TOLD, "parameters": SCHEMA}}
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "forecast", "arguments": AS_TEXT},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": _DATA_URL}}]},
        ],
    },
    "responses": {
        "model": "m",
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "namespace",
                "name": "mcp__weather",
                "description": "What the server says.",
                "tools": [
                    {"type": "function", "name": "forecast", "description": TOLD, "parameters": SCHEMA}
                ],
            },
            {"type": "web_search"},
        ],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {
                "type": "function_call",
                "call_id": "c1",
                "namespace": "mcp__weather",
                "name": "forecast",
                "arguments": AS_TEXT,
            },
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "sunny"},
                    {"type": "input_image", "image_url": _DATA_URL},
                ],
            },
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "forecast", "description": TOLD, "parametersJsonSchema": SCHEMA}
                ]
            }
        ],
        "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"id": "c1", "name": "forecast", "args": ARGUMENTS}}],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "forecast", "response": {"output": "sunny"}}},
                    {"inlineData": {"mime_type": "image/png", "data": PICTURE}},
                ],
            },
        ],
    },
}

_CALL_OF_RESPONSES: Final = {
    "type": "function_call",
    "call_id": "c1",
    "namespace": "mcp__weather",
    "name": "forecast",
    "arguments": AS_TEXT,
}

ANSWERS: Final[Mapping[str, Any]] = {
    "anthropic": {
        "model": "m",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "forecast", "input": ARGUMENTS},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 5},
    },
    "chat": {
        "model": "m",
        "choices": [
            {
                "message": {
                    "content": "Let me look.",
                    "tool_calls": [{"id": "c1", "function": {"name": "forecast", "arguments": AS_TEXT}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 80},
        },
    },
    "responses": {
        "model": "m",
        "status": "completed",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Let me look."}]},
            _CALL_OF_RESPONSES,
        ],
        "usage": {
            "input_tokens": 100,
            "output_tokens": 5,
            "input_tokens_details": {"cached_tokens": 80},
        },
    },
    "gemini": {
        "modelVersion": "m",
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "hm", "thought": True},
                        {"text": "Let me look."},
                        {"functionCall": {"id": "c1", "name": "forecast", "args": ARGUMENTS}},
                    ]
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 100,
            "candidatesTokenCount": 5,
            "cachedContentTokenCount": 80,
        },
    },
}

STREAMS: Final[Mapping[str, Sequence[Any]]] = {
    "anthropic": (
        {
            "type": "message_start",
            "message": {"model": "m", "usage": {"input_tokens": 20, "cache_read_input_tokens": 80}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c1", "name": "forecast", "input": None},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": AS_TEXT[:7]},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": AS_TEXT[7:]},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ),
    "chat": (
        {"model": "m", "choices": [{"delta": {"content": "Let me "}}]},
        {"choices": [{"delta": {"content": "look."}}]},
        {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [
                            {
                                "index": 0,
                                "id": "c1",
                                "function": {"name": "forecast", "arguments": AS_TEXT[:7]},
                            }
                        ]
                    }
                }
            ]
        },
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": AS_TEXT[7:]}}]}}]},
        {"choices": [{"delta": None, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": ANSWERS["chat"]["usage"]},
    ),
    "responses": (
        {"type": "response.created", "response": {"model": "m", "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": ANSWERS["responses"]["output"][0]},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": AS_TEXT},
        {"type": "response.output_item.done", "output_index": 1, "item": _CALL_OF_RESPONSES},
        {"type": "response.completed", "response": ANSWERS["responses"]},
    ),
    "gemini": (
        {"modelVersion": "m", "candidates": [{"content": {"parts": [{"text": "Let me "}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "look."}]}}]},
        {
            "candidates": [
                {
                    "content": {"parts": [ANSWERS["gemini"]["candidates"][0]["content"]["parts"][2]]},
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": ANSWERS["gemini"]["usageMetadata"],
        },
    ),
}
"""What comes in pieces and says what ``ANSWERS`` say."""

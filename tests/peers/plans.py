"""The plans of the clients: for each server a list of steps, which every client script can perform.

A plan may have steps that an SDK or a revision does not support. The error of the client is then part of the
result, which must be the same through a proxy.
"""

import json
from typing import Final

EVERYTHING: Final = json.dumps(
    [
        {"do": "log level", "level": "debug"},
        {"do": "ping"},
        {"do": "wait for", "method": "roots/list"},  # the server requests it shortly after the handshake
        {"do": "list tools"},
        {"do": "call", "tool": "echo", "arguments": {"message": "hällo\n☃ \u2028"}},
        {"do": "call", "tool": "get-sum", "arguments": {"a": 2, "b": 40}},
        {"do": "call", "tool": "get-structured-content", "arguments": {"location": "Chicago"}},
        {"do": "call", "tool": "get-tiny-image", "arguments": {}},
        {"do": "call", "tool": "get-annotated-message", "arguments": {"messageType": "error"}},
        {"do": "call", "tool": "get-resource-links", "arguments": {"count": 2}},
        {"do": "call", "tool": "get-sum", "arguments": {"a": "two"}},
        {"do": "call", "tool": "no-such-tool", "arguments": {}},
        {
            "do": "call",
            "tool": "trigger-long-running-operation",
            "arguments": {"duration": 1, "steps": 4},
            "progress": True,
        },
        {"do": "call", "tool": "trigger-sampling-request", "arguments": {"prompt": "2 + 2", "maxTokens": 5}},
        {"do": "call", "tool": "trigger-elicitation-request", "arguments": {}},
        {"do": "call together", "tool": "echo", "arguments": [{"message": str(n)} for n in range(20)]},
        {"do": "list resources"},
        {"do": "list templates"},
        {"do": "read", "uri": "demo://resource/static/document/features.md"},
        {"do": "read", "uri": "demo://resource/dynamic/text/1"},
        {"do": "read", "uri": "demo://resource/nowhere"},
        {"do": "subscribe", "uri": "demo://resource/dynamic/text/1"},
        {"do": "unsubscribe", "uri": "demo://resource/dynamic/text/1"},
        {"do": "list prompts"},
        {"do": "get prompt", "name": "simple-prompt", "arguments": {}},
        {"do": "get prompt", "name": "args-prompt", "arguments": {"city": "Łódź"}},
        {"do": "get prompt", "name": "no-such-prompt", "arguments": {}},
        {"do": "complete", "prompt": "completable-prompt", "argument": ["department", "E"]},
        {"do": "ping"},
    ]
)

EXAMPLE: Final = json.dumps(
    [
        {"do": "ping"},
        {"do": "list tools"},
        {"do": "call", "tool": "echo", "arguments": {"text": "hällo\n☃ \u2028"}},
        {"do": "call", "tool": "add", "arguments": {"terms": [1, 2, 39]}},
        {"do": "call", "tool": "fail", "arguments": {"reason": "on purpose"}},
        {"do": "call", "tool": "add", "arguments": {"terms": "not a list"}},
        {"do": "call", "tool": "no-such-tool", "arguments": {}},
        {"do": "call", "tool": "count", "arguments": {"up_to": 5}, "progress": True},
        {"do": "call", "tool": "ask_model", "arguments": {"question": "2 + 2"}},
        {"do": "call", "tool": "ask_user", "arguments": {}},
        {"do": "call together", "tool": "echo", "arguments": [{"text": str(n)} for n in range(20)]},
        {"do": "list resources"},
        {"do": "list templates"},
        {"do": "read", "uri": "example://motto"},
        {"do": "read", "uri": "example://numbers/7"},
        {"do": "read", "uri": "example://nowhere"},
        {"do": "subscribe", "uri": "example://motto"},
        {"do": "list prompts"},
        {"do": "get prompt", "name": "review", "arguments": {"language": "ada"}},
        {"do": "get prompt", "name": "no-such-prompt", "arguments": {}},
        {"do": "complete", "prompt": "review", "argument": ["language", "a"]},
        {"do": "log level", "level": "info"},
        {"do": "ping"},
    ]
)

EVERYTHING_HTTP: Final = json.dumps([step for step in json.loads(EVERYTHING) if step["do"] != "wait for"])
"""Over HTTP nobody can wait for the server's request: it is lost if the client's stream is not open yet."""

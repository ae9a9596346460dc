"""The pieces in which a stream of a model's interface sends the arguments of a call, one in each event.

What a piece holds cannot be told from it alone: the name of an argument may be in the one before.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.record.recorder.model.json_tree import JsonPlace, tree_of

_MARKS: Final = (b'"partial_json"', b"_arguments.delta", b'"tool_calls"')
_MOST_VALUES: Final = 1000


def argument_pieces(event: bytes) -> Iterator[JsonPlace]:
    """Yield the places of pieces in the data of an event, each as UTF-8 text that is JSON."""
    if not any(mark in event for mark in _MARKS):
        return
    text = event.decode("latin-1")
    tree = tree_of(text, _MOST_VALUES)
    if tree is None:
        return
    delta = tree.named("delta")
    if delta is not None and tree.string(text, "type").endswith("_arguments.delta"):  # Responses
        yield from _texts(delta)
    elif delta is not None:  # Anthropic
        yield from _texts(delta.named("partial_json"))
    for choice in _items(tree.named("choices")):  # Chat Completions
        for call in _items((choice.named("delta") or choice).named("tool_calls")):
            function = call.named("function")
            yield from _texts(function and function.named("arguments"))


def _items(place: JsonPlace | None) -> list[JsonPlace]:
    return place.inner if place is not None and place.kind == "[" else []


def _texts(place: JsonPlace | None) -> Iterator[JsonPlace]:
    if place is not None and place.kind == '"' and place.end > place.start:
        yield place

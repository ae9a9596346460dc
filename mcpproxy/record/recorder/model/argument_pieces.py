"""Find the pieces of a call's arguments in the event stream of a language model, one piece in each event.

A piece alone does not show what it contains: the name of an argument may be in the piece before.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.record.recorder.model.json_tree import JsonPlace, tree_of

_MARKS: Final = (b'"partial_json"', b"_arguments.delta", b'"tool_calls"')
"""An event with a piece contains one of these."""

_MOST_VALUES: Final = 1000
"""An event with more JSON values is not searched."""


def argument_pieces(event: bytes) -> Iterator[JsonPlace]:
    """Yield the place of each piece in ``event``, the data of an event, which is JSON. Offsets are in
    bytes."""
    if not any(mark in event for mark in _MARKS):
        return
    text = event.decode("latin-1")
    tree = tree_of(text, _MOST_VALUES)
    if tree is None:
        return
    delta = tree.named("delta")
    if delta is not None and tree.string(text, "type").endswith("_arguments.delta"):  # Responses
        yield from _text_in(delta)
    elif delta is not None:  # Anthropic
        yield from _text_in(delta.named("partial_json"))
    for choice in _items_of(tree.named("choices")):  # Chat Completions
        for call in _items_of((choice.named("delta") or choice).named("tool_calls")):
            function = call.named("function")
            yield from _text_in(function and function.named("arguments"))


def _items_of(place: JsonPlace | None) -> list[JsonPlace]:
    return place.inner if place is not None and place.kind == "[" else []


def _text_in(place: JsonPlace | None) -> Iterator[JsonPlace]:
    if place is not None and place.kind == '"' and place.end > place.start:
        yield place

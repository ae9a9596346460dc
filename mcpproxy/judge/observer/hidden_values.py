"""Recognise findings that may depend on a value that the recording masks. They are left out."""

from typing import Final, cast

from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.history import SentRequest
from mcpproxy.judge.session.masked_values import MARK, holds_mask
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member, value_of
from mcpproxy.protocol.wording import pointer_steps

_MASK_START: Final = MARK.encode("ascii")
_NEVER_MASKED: Final = ("id", "jsonrpc", "method")
"""Members that are never masked."""


def is_hidden(frame: Frame, pointer: str, answers: SentRequest | None = None) -> bool:
    """Whether a finding at ``pointer`` in a message may depend on a masked value.

    It may if there is a mask anywhere in the object or array that contains the place (for a member of the
    message itself, only in its value), or in the params of the request that the message ``answers``.
    """
    if answers is not None and isinstance(answers.params, dict) and holds_mask(answers.params):
        return True
    if _MASK_START not in frame.raw or pointer.lstrip("/0123456789") in _NEVER_MASKED:
        return False
    value = value_of(frame.message)
    steps = pointer_steps(pointer)
    for step in steps[:-1] if len(steps) > 1 else steps:
        if isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            value = member(value, step)
    return isinstance(value, str | list | dict) and holds_mask(cast("JSON", value))

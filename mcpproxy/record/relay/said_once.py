"""A note that each message could repeat is told once."""

from collections.abc import Callable


def said_once(say: Callable[[str], None], most: int | None = None) -> Callable[[str], None]:
    """Return a function that passes each text to ``say`` once, and at most ``most`` texts (``None``: all)."""
    said: set[str] = set()

    def say_once(text: str) -> None:
        if text not in said and (most is None or len(said) < most):
            said.add(text)
            say(text)

    return say_once

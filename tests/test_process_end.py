"""How a process ended, in words."""

import signal

import pytest

from mcpproxy.base.system_words import end_text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGTERM, "was ended by SIGTERM"),
        (-4000, "was ended by signal 4000"),
        (None, "closed its stdout and runs on"),
    ],
)
def test_the_end_of_a_process_in_words(code: int | None, text: str) -> None:
    assert end_text(code) == text

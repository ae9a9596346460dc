"""The JSON in a result: what hosts put before it does not hide it, and a long text costs little."""

from time import process_time

import pytest

from mcpproxy.model.turns import Content, ModelResult
from mcpproxy.peers.scripted_model.expected_results import given_result


def value(text: str) -> object:
    return given_result("now", ModelResult("", "now", (Content("text", text),), "")).value


@pytest.mark.parametrize(
    "before", ["", "Wall time: 1 s\nOutput:\n", "[INFO] asked\n" * 2000, "{curly}\n\n  ", "[\n1,\n"]
)
def test_json_behind_lines_of_a_host(before: str) -> None:
    assert value(before + '{"sky": ["clear"]}') == {"sky": ["clear"]}


@pytest.mark.parametrize("line", ["[INFO] asked\n", '{"\n', "[1 x]\n", "\n", "  \n"])
def test_a_long_text_without_json_costs_about_as_much_as_its_length(line: str) -> None:
    def cost(lines: int) -> float:
        begun = process_time()
        assert value(f"a{line * lines}") is None
        return process_time() - begun

    cost(10)
    assert cost(40_000) < 40 * max(cost(4_000), 0.005)

"""Each tool is compared with the few in a prompt that its name may have become, however many there are."""

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from mcpproxy.model.tool_names import (
    is_alike,
    is_cut,
    is_followed,
    is_hashed,
    is_named_so,
    is_prefixed,
    offered_keys,
    sought_keys,
)
from mcpproxy.model.turns import OfferedTool
from mcpproxy.read.prompt import names
from mcpproxy.read.prompt.wire import WireServer, WireTool

WORDS: Final = ("get", "Now", "tide.table", "x1", "é", "日本", "mcp", "compare_the_readings_of_all_gauges")
PREFIXES: Final = frozenset({"weather", "w", "日本"})
FITS: Final = (is_named_so, is_prefixed, is_followed, is_alike, is_hashed, is_cut)


def offered(name: str, namespace: str = "") -> OfferedTool:
    return OfferedTool(name, "", namespace)


def made_of(name: str, draw: Random) -> OfferedTool:
    """Return what a host might make of a name."""
    changed = draw.choice(
        [
            name,
            name.replace(".", "_"),
            name[: draw.randint(1, 60)],
            f"{name[:14]}...{name[-draw.randint(5, 30) :]}",
            name[-20:],
            f"{name}_{draw.getrandbits(32):08x}",
            f"{name}_mcp_weather",
        ]
    )
    before = draw.choice(["", "mcp__weather__", "w-", "日本_", "x_"])
    return offered(f"{before}{changed}", draw.choice(["", "", "mcp__weather"]))


@pytest.mark.parametrize("seed", range(20))
def test_what_fits_has_a_key_of_what_is_sought(seed: int) -> None:
    draw = Random(seed)
    fitting = 0
    for _ in range(200):
        name = draw.choice("_.- ").join(draw.choices(WORDS, k=draw.randint(1, 4)))
        other = "_".join(draw.choices(WORDS, k=draw.randint(1, 4)))
        one = made_of(draw.choice([name, name, other]), draw)
        if any(fits(name, PREFIXES, one) for fits in FITS):
            fitting += 1
            assert not sought_keys(name, PREFIXES).isdisjoint(offered_keys(one)), (name, one)
    assert fitting > 50


def test_a_thousand_tools_that_are_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    def counted(fits: Callable[..., bool]) -> Callable[..., bool]:
        def counting(*arguments: object) -> bool:
            nonlocal tried
            tried += 1
            return fits(*arguments)

        return counting

    monkeypatch.setattr(names, "WAYS", [(counted(fits), *rest) for fits, *rest in names.WAYS])
    tools = tuple(WireTool(0, f"tool_{number}", None, None, 1, 1) for number in range(1000))
    there = [offered(f"other_{number}") for number in range(1000)] + [offered("files_tool_7")]
    found = names.matched([WireServer(0, "files", "files", "", "", tools, ())], there)
    assert [match.tool.name for match in found if match.offered] == ["tool_7"]
    assert tried < 100


def test_long_names_in_a_prompt_take_no_more_memory_than_they_have_characters() -> None:
    draw = Random(7)
    there = [offered("_".join(draw.choices("abcdefghij", k=256))) for _ in range(50)]
    server = WireServer(0, "files", "files", "", "", (WireTool(0, "tool", None, None, 1, 1),), ())
    tracemalloc.start()
    try:
        (match,) = names.matched([server], there)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert match.offered is None
    assert peak < 10 * sum(len(one.name) for one in there)

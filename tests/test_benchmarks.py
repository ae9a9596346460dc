"""What benchmarks print, and what ``compare`` makes of two versions of which one cannot be measured."""

import pytest

from tests.benchmarks import compare
from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section, dumps, loads, markdown


def section(title: str, **values: tuple[float, ...]) -> Section:
    samples = Samples([f"A note on {title}."])
    for variant, measured in values.items():
        samples.add("a call, µs", variant, *measured)
    return Section(title, samples, tuple(values))


def test_every_benchmark_is_compared() -> None:
    assert set(compare.PLAN) == set(BENCHMARKS) - {"compare"}
    assert set(compare.SHORT) < set(compare.PLAN)


def test_sections_with_the_same_columns_share_a_table() -> None:
    text = markdown([section("pipes", before=(2, 4), after=(6,)), section("pairs", before=(1,), after=(2,))])
    assert text.splitlines() == [
        "|  | before | after | after / before |",
        "| --- | --- | --- | --- |",
        "| **pipes** |  |  |  |",
        "| a call, µs | 3.00 (2.00–4.00) | 6.00 | 2.00 |",
        "| **pairs** |  |  |  |",
        "| a call, µs | 1.00 | 2.00 | 2.00 |",
        "",
        "A note on pipes.",
        "",
        "A note on pairs.",
    ]


def test_a_section_alone_has_a_title() -> None:
    assert markdown([section("pipes", mcpproxy=(1,))]).startswith("### pipes\n\n|  | mcpproxy |\n")


def test_all_values_reach_the_process_that_compares() -> None:
    measured = section("pipes", direct=(1, 2), mcpproxy=(3,))
    measured.samples.digests["a trace"] = "0123"
    (found,) = loads(dumps([measured]))
    assert found.samples.values("a call, µs", "direct") == [1, 2]
    assert found.samples.digests == {"a trace": "0123"}
    assert markdown([found]) == markdown([measured])


@pytest.mark.parametrize(("missing", "fails"), [("before", False), ("after", True)])
def test_a_version_that_cannot_be_measured_leaves_empty_cells(
    monkeypatch: pytest.MonkeyPatch, missing: str, fails: bool
) -> None:
    monkeypatch.setattr(compare, "PYTHONS", {**compare.PYTHONS, missing: "/nowhere/python"})
    (found,) = compare.run(Options(rounds=1, short=True, only=("judge",)))
    row = "ping, 2025-11-25, µs per frame"
    assert [bool(found.samples.values(row, each)) for each in ("before", "after")] == [fails, not fails]
    assert found.failed is fails
    assert any(f"judge, {missing}: " in note for note in found.samples.notes)

"""Measured values as a Markdown table: medians, what they ranged over, and ratios within the run."""

import datetime
import json
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path


class Samples:
    """Values by row and variant, one from each round.

    ``notes`` are the lines at the table's foot. ``digests`` are those of results that every version of
    mcpproxy should have alike.
    """

    def __init__(self, notes: Iterable[str] = ()) -> None:
        self.notes = list(notes)
        self.digests: dict[str, str] = {}
        self._values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, variant: str, *values: float) -> None:
        self._values[row, variant] += values

    def values(self, row: str, variant: str) -> list[float]:
        return self._values.get((row, variant), [])

    def rows(self) -> list[str]:
        """The rows in the order in which they were first measured."""
        return list(dict.fromkeys(row for row, _ in self._values))

    def median(self, row: str, variant: str) -> float | None:
        values = self.values(row, variant)
        return statistics.median(values) if values else None

    def cell(self, row: str, variant: str) -> str:
        """The median, and in brackets the least and the most."""
        values = self.values(row, variant)
        if not values:
            return ""
        median = number(statistics.median(values))
        return median if len(values) == 1 else f"{median} ({number(min(values))}–{number(max(values))})"

    def ratio(self, row: str, variant: str, base: str) -> str:
        value, reference = self.median(row, variant), self.median(row, base)
        return f"{value / reference:.2f}" if value is not None and reference else ""


def number(value: float) -> str:
    """Three figures, and no more digits than were measured."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Section:
    """A table: its samples, and its columns from left to right.

    If ``ratios``, there are columns with the last variant divided by each of the others. ``failed`` says that
    something is missing which should be there.
    """

    title: str
    samples: Samples
    variants: Sequence[str]
    ratios: bool = True
    failed: bool = False

    def lines(self) -> list[list[str]]:
        """Return the cells of a line for each row."""
        *bases, last = self.variants
        return [
            [row, *(self.samples.cell(row, variant) for variant in self.variants)]
            + [self.samples.ratio(row, last, base) for base in bases if self.ratios]
            for row in self.samples.rows()
        ]

    def titles(self) -> list[str]:
        """Return the titles of the columns."""
        *bases, last = self.variants
        return ["", *self.variants, *(f"{last} / {base}" for base in bases if self.ratios)]


def markdown(sections: Iterable[Section]) -> str:
    """Return the tables and their notes. Neighbours that have the same columns share a table."""
    found: list[str] = []
    for titles, group in groupby(sections, Section.titles):
        same = list(group)
        lines = [titles, ["---"] * len(titles)]
        for section in same:
            if len(same) > 1:
                lines.append([f"**{section.title}**", *[""] * (len(titles) - 1)])
            lines += section.lines()
        found += [f"### {same[0].title}"] * (len(same) == 1)
        found.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        found += dict.fromkeys(note for section in same for note in section.samples.notes)
    return "\n\n".join(found)


def dumps(sections: Iterable[Section]) -> str:
    """Return all values as JSON, for ``loads``."""
    found: list[object] = []
    for each in sections:
        rows = {
            row: [each.samples.values(row, variant) for variant in each.variants]
            for row in each.samples.rows()
        }
        found.append([each.title, list(each.variants), rows, each.samples.notes, each.samples.digests])
    return json.dumps(found)


def loads(text: str) -> list[Section]:
    """Return what ``dumps`` was given, with ratios."""
    found: list[Section] = []
    for title, variants, rows, notes, digests in json.loads(text):
        samples = Samples(notes)
        samples.digests.update(digests)
        for row, columns in rows.items():
            for variant, values in zip(variants, columns, strict=True):
                samples.add(row, variant, *values)
        found.append(Section(title, samples, variants))
    return found


def machine() -> str:
    """Where and when this was measured, in one line."""
    model = platform.processor() or platform.machine()
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = next(line.split(": ", 1)[1] for line in cpuinfo.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        pass
    today = datetime.datetime.now(datetime.UTC).date()
    python = platform.python_version()
    system = f"{platform.system()} {platform.release()}"
    return f"{today}, {model}, {os.cpu_count()} CPUs, {system}, Python {python}"

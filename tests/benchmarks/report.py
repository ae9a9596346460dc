"""Measured values as a Markdown table: medians, what they ranged over, and ratios within the run."""

import datetime
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


class Samples:
    """Values by row and variant, one from each round; ``notes`` are the lines at the table's foot."""

    def __init__(self, notes: Iterable[str] = ()) -> None:
        self.notes = list(notes)
        self._values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, variant: str, value: float) -> None:
        self._values[row, variant].append(value)

    def rows(self) -> list[str]:
        """The rows in the order in which they were first measured."""
        return list(dict.fromkeys(row for row, _ in self._values))

    def median(self, row: str, variant: str) -> float | None:
        values = self._values.get((row, variant))
        return statistics.median(values) if values else None

    def cell(self, row: str, variant: str) -> str:
        """The median, and in brackets the least and the most."""
        values = self._values.get((row, variant))
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


def table(samples: Samples, variants: Iterable[str]) -> str:
    """A row for each measure, a column for each variant, and the ratios of the last to the others; notes."""
    *bases, last = variants
    titles = ["", *bases, last, *(f"{last} / {base}" for base in bases)]
    lines = [titles, ["---"] * len(titles)]
    for row in samples.rows():
        cells = [samples.cell(row, variant) for variant in (*bases, last)]
        lines.append([row, *cells, *(samples.ratio(row, last, base) for base in bases)])
    rows = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n\n".join([rows, *samples.notes])


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

"""The options of reports: the format, and for findings also the output file and the baseline."""

import argparse
from typing import Final

COMPARISON_FORMATS: Final = ("text", "json", "junit")
"""The formats of ``diff`` and ``replay client``, which compare two sessions."""

FINDING_FORMATS: Final = ("text", "json", "sarif", "junit", "github", "markdown")
"""The formats of ``check`` and ``validate``, which report findings."""

LOCATED_FORMATS: Final = ("json", "sarif", "github", "markdown")
"""The formats that have fingerprints or the places of related frames, for which a trace is read again."""


def add_format(parser: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    """Add ``--format``. A comparison has no other report option."""
    parser.add_argument("--format", choices=formats, default="text", help="what to print (default: text)")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a report of findings."""
    add_format(parser, FINDING_FORMATS)
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="put the report there, the summary on stderr")
    add("--baseline", metavar="FILE", help="the findings in FILE are known and do not count")
    add("--write-baseline", action="store_true", help="accept all findings: write them to the baseline FILE")

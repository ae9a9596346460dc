"""The baseline of ``mcpproxy validate``: what is accepted, what is new, what is fixed."""

import argparse

from mcpproxy import baseline
from mcpproxy.baseline import Baseline, Entry
from mcpproxy.cli import output
from mcpproxy.cli.terminal import tell
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.reports import validated
from mcpproxy.reports.style import count, printable
from mcpproxy.validate.outcome import Validation


def read(options: argparse.Namespace) -> Baseline | None:
    """The baseline that the arguments name, if any.

    Raises:
        UsageError: it cannot be read, or not be written.
    """
    if not options.baseline:
        return None
    if options.write_baseline:
        output.check(options.baseline)
    return baseline.read(options.baseline, may_be_missing=options.write_baseline)


def compared(
    result: Validation, accepted: Baseline, known: Catalogue, options: argparse.Namespace
) -> tuple[Validation, tuple[Entry, ...]]:
    """The validation with what is known marked, and what is fixed; the file is written first if asked for.

    Raises:
        UsageError: it cannot be written.
    """
    found = validated.located(result.checks)
    judged = validated.judged(result, known.rules.__contains__)
    if not options.write_baseline:
        fixed = accepted.fixed(found, judged)
        for entry in fixed:
            tell(f"{accepted.path}: fixed: {entry.rule} {printable(entry.message)}")
        if fixed:
            tell(f"{accepted.path}: --write-baseline takes out what is fixed")
        return validated.marked(result, accepted), fixed
    renewed = accepted.renewed(found, judged)
    output.write(accepted.path, renewed.lines())
    tell(f"{accepted.path}: {count(len(renewed.entries), 'finding')} accepted")
    return validated.marked(result, renewed), ()

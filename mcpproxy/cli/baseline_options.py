"""``--baseline`` and ``--write-baseline`` of ``mcpproxy check`` and ``validate``.

A baseline is a file of accepted findings, which are then *known* and no longer count.
"""

import argparse
from typing import TYPE_CHECKING

from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.cli import output
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.terminal import tell
from mcpproxy.protocol.rules import Catalogue

if TYPE_CHECKING:
    from mcpproxy.peers.validate.outcome import Validation
    from mcpproxy.read.reports.baseline import Baseline, Entry


def read(options: argparse.Namespace) -> "Baseline | None":
    """Return the baseline that the arguments name; ``None`` if they name none.

    Raises:
        UsageError: ``--write-baseline`` is given without ``--baseline``, the baseline cannot be read, or
            its path is not a place for a file.
    """
    if options.write_baseline and not options.baseline:
        raise UsageError("--write-baseline", "goes together with --baseline FILE", "name the file to write")
    if not options.baseline:
        return None
    from mcpproxy.read.reports import baseline  # most runs have none

    if options.write_baseline:
        output.check_writable(options.baseline)
    return baseline.read(options.baseline, may_be_missing=options.write_baseline)


def compared(
    result: "Validation", accepted: "Baseline", catalogue: Catalogue, options: argparse.Namespace
) -> "tuple[Validation, tuple[Entry, ...]]":
    """Return the validation with known findings marked, and the entries whose findings did not occur (fixed).

    The fixed entries are printed to stderr. With ``--write-baseline`` the file is written; then all findings
    are known, and no entry is fixed.

    Raises:
        UsageError: the file cannot be written.
    """
    from mcpproxy.peers.validate.report import validated  # not needed to check recordings

    located_findings = validated.located(result.checks)
    was_judged = validated.was_tried(result, catalogue.rules.__contains__)
    if not options.write_baseline:
        fixed = accepted.fixed(located_findings, was_judged)
        tell_fixed(accepted.path, fixed)
        return validated.marked(result, accepted), fixed
    renewed = accepted.renewed(located_findings, was_judged)
    marked = validated.marked(result, renewed)
    write(accepted, renewed, marked.known)
    return marked, ()


def write(former: "Baseline", renewed: "Baseline", known: int) -> None:
    """Write ``renewed``. Print the number of findings ``known`` now, and how it differs from ``former``.

    Raises:
        UsageError: the file cannot be written.
    """
    output.write(renewed.path, renewed.lines())
    added = len(renewed.entries.keys() - former.entries.keys())
    gone = len(former.entries.keys() - renewed.entries.keys())
    kinds = f"{count(len(renewed.entries), 'kind')}: {added} new, {gone} gone"
    tell(f"{renewed.path}: {count(known, 'finding')} accepted ({kinds})")


def tell_fixed(path: str, fixed: "tuple[Entry, ...]") -> None:
    """Print the fixed entries of the baseline in ``path``, whose findings did not occur."""
    for entry in fixed:
        tell(f"{path}: fixed: {entry.rule} {visible(entry.message)}")
    if fixed:
        tell(f"{path}: --write-baseline removes them")

"""``python -m tests.kills [RUNS [WORD...]]``: the tables, so many runs for each row (50 if it is not said).

The words choose rows: each is a value of one of the first columns, as in ``stdio slow enforced``.
"""

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests import signals
from tests.kills.session import LONGEST_STEPS, PACES, TARGETS, Case, Outcome, compiled, play

WORKERS = 3


def rows(runs: int) -> Iterator[list[Case]]:
    """The cells of the table, each with its runs."""
    both = (False, True)
    wanted = (
        ("stdio", TARGETS, both),
        ("http", ("relay", "recorder"), both),
        ("model", ("relay", "recorder", "both"), (False,)),
    )
    for transport, targets, enforced in wanted:
        for pace in PACES:
            for is_enforced in enforced:
                for target in targets:
                    yield [Case(target, pace, is_enforced, transport, 0, n) for n in range(runs)]
                yield [
                    Case("relay", pace, is_enforced, transport, 1 + n % LONGEST_STEPS, n) for n in range(runs)
                ]


def words_of(case: Case) -> set[str]:
    enforced = "enforced" if case.is_enforced else "not-enforced"
    return {case.transport, case.pace, enforced, case.target, "call" if case.steps else "random"}


def run(case: Case, preload: Path | None) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        try:
            return play(case, Path(folder), preload if case.steps else None)
        except Exception as fault:
            return Outcome(unclean=f"{case}: {fault!r}")


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    signals.restore_defaults()
    words, is_good = frozenset(sys.argv[2:]), True
    out, errors = sys.stdout, sys.stderr
    out.write(
        "| transport | pace | enforced | killed | at | runs | received | missing | gaps | unclean | left |\n"
    )
    out.write(f"|{'---|' * 11}\n")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        preload = compiled(Path(folder))
        for cases in rows(runs):
            if (cases[0].steps and preload is None) or not words <= words_of(cases[0]):
                continue
            found = list(pool.map(partial(run, preload=preload), cases))
            case, received = cases[0], sum(one.received for one in found)
            bad = [(case, one) for case, one in zip(cases, found, strict=True) if not one.is_good]
            is_good = is_good and not bad
            missing, gaps = sum(one.missing > 0 for one in found), sum(one.gaps for one in found)
            when = "system call" if case.steps else "random"
            cells = (
                *(case.transport, case.pace, "yes" if case.is_enforced else "no", case.target, when),
                *(len(found), f"{received >> 20} MiB", missing, gaps),
                *(sum(bool(one.unclean) for one in found), sum(bool(one.left) for one in found)),
            )
            out.write(f"| {' | '.join(map(str, cells))} |\n")
            out.flush()
            for case, one in bad[:5]:
                errors.write(f"    {case} {one}\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())

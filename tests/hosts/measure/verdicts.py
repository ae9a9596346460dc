"""What a recording says of a row: confirmed, contradicted, or nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

State: TypeAlias = Literal["confirmed", "contradicted", "not decidable"]

_SHOWN: Final = 3
"""How many examples a verdict gives."""


@dataclass(frozen=True)
class Verdict:
    """``words`` say what was seen, ``place`` where: a recording and the number of a frame in it."""

    state: State
    words: str
    place: str = ""


@dataclass(frozen=True)
class Example:
    """One thing of which a row says something: whether it came as the row says, what was seen, and where."""

    is_met: bool
    words: str
    place: str = ""


def unknown(why: str) -> Verdict:
    return Verdict("not decidable", why)


def of_examples(examples: Sequence[Example], why_none: str) -> Verdict:
    """Return what all examples together say: a row is confirmed if each came as it says."""
    if not examples:
        return unknown(why_none)
    wrong = [each for each in examples if not each.is_met]
    if not wrong:
        return Verdict("confirmed", _words(examples), examples[0].place)
    met = [each for each in examples if each.is_met]
    so = f"; but as it says: {_words(met)}" if met else ""
    return Verdict("contradicted", f"{_words(wrong)}{so}", wrong[0].place)


def _words(examples: Sequence[Example]) -> str:
    said = list(dict.fromkeys(each.words for each in examples))
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return "; ".join(said[:_SHOWN]) + more

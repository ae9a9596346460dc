"""All attacks, chapter by chapter."""

from collections.abc import Mapping
from typing import Final

from tests.attacks import damage, folders
from tests.attacks.stage import Attack

CHAPTERS: Final[Mapping[str, list[Attack]]] = {
    "folders": folders.TABLE,
    "damage": damage.TABLE,
}

"""All attacks, chapter by chapter."""

from collections.abc import Mapping
from typing import Final

from tests.attacks import (
    agents,
    control_sockets,
    credentials,
    damage,
    floods,
    folders,
    gates,
    hostile_text,
    many_files,
    named_by_peers,
    page,
    planted,
    signalled,
    stores,
    texts_with_secrets,
    upstreams,
    wrapped,
)
from tests.attacks.stage import Attack

CHAPTERS: Final[Mapping[str, list[Attack]]] = {
    "folders": folders.TABLE,
    "damage": damage.TABLE,
    "wrapped": wrapped.TABLE,
    "signalled": signalled.TABLE,
    "gates": gates.TABLE,
    "many files": many_files.TABLE,
    "credentials": credentials.TABLE,
    "sockets": control_sockets.TABLE,
    "stores": stores.TABLE,
    "text": hostile_text.TABLE,
    "planted": planted.TABLE,
    "upstreams": upstreams.TABLE,
    "texts with secrets": texts_with_secrets.TABLE,
    "named": named_by_peers.TABLE,
    "floods": floods.TABLE,
    "page": page.TABLE,
    "agents": agents.TABLE,
}

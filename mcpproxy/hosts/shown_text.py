"""Mask the secrets in the text of a configuration file before it is shown.

People paste shown changes into reports, and one line may contain a complete entry. So every text and number
below ``env``, ``headers`` and the like is masked. Elsewhere, the same values are masked as in a recorded
command: those with the name of a secret, parts of URLs, and API keys of known providers.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.secret_names import names_option, words_of
from mcpproxy.hosts.document import Document, quoted
from mcpproxy.hosts.text_nodes import Edit, Node, edited
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.recorder.secret_arguments import masked, secret_texts

_ALL_SECRET: Final = frozenset({"env", "envs", "environment", "headers"})
"""Last words of the names of members in which all texts and numbers are masked."""


def shown_text(document: Document, key: bytes) -> str:
    """Return the text of ``document`` with masks. Equal values have equal masks under one ``key``."""
    masker = Masker(key)
    # A value that YAML repeats by an alias has several edits for the same place; one of them is kept.
    all_edits = _masks(document, document.root, masker, key, hidden=False)
    edits = {(edit.start, edit.end): edit for edit in all_edits}
    return secret_texts(masker)(edited(document.text, edits.values()))


def _masks(document: Document, node: Node, masker: Masker, key: bytes, *, hidden: bool) -> Iterator[Edit]:
    """Yield the edits that mask the secret values in a node; with ``hidden``, all texts and numbers."""
    for name, member in (node.members or {}).items():
        hides = names_option(name) or not _ALL_SECRET.isdisjoint(words_of(name)[-1:])
        yield from _masks(document, member.value, masker, key, hidden=hidden or hides)
    if node.items is not None:
        texts = [item.scalar if isinstance(item.scalar, str) else "" for item in node.items]
        for item, text, shown in zip(node.items, texts, masked(texts, key), strict=True):
            if hidden or not text:
                yield from _masks(document, item, masker, key, hidden=hidden)
            elif shown != text:
                yield _mask(document, item, shown)
    elif node.scalar is None or isinstance(node.scalar, bool):
        return
    elif hidden:
        yield _mask(document, node, masker.value(str(node.scalar)))
    elif isinstance(node.scalar, str):
        (shown,) = masked((node.scalar,), key)
        if shown != node.scalar:
            yield _mask(document, node, shown)


def _mask(document: Document, node: Node, shown: str) -> Edit:
    # The number of lines stays the same, so that line numbers stay correct.
    lines = document.text.count("\n", node.start, node.end)
    return Edit(node.start, node.end, quoted(shown) + "\n" * lines)

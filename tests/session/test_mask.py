"""Masked credentials tell as much as the rules need, and nothing else."""

import pytest

from mcpproxy.judge.session.masked_values import Mask, as_mask, credential, is_masked, mask

VALUES = ["", "s-1", "1868a90c-7d1b-4c53", "with space", "tab\there", "caf\u00e9", "~!", "\x7f"]


@pytest.mark.parametrize("value", VALUES)
def test_a_mask_has_the_facts_of_the_value(value: str) -> None:
    masked = mask(value, b"key of this recording")
    raw = as_mask(value)
    assert (masked.length, masked.visible) == (raw.length, raw.visible)
    assert as_mask(str(masked)) == masked


@pytest.mark.parametrize(
    ("value", "length", "visible"),
    [("", 0, True), ("s-1", 3, True), ("a b", 3, False), ("caf\u00e9", 4, False), ("a\x7f", 2, False)],
)
def test_length_counts_bytes_and_visible_means_ascii_without_spaces(
    value: str, length: int, visible: bool
) -> None:
    assert (as_mask(value).length, as_mask(value).visible) == (length, visible)


def test_equal_values_have_equal_masks_in_one_recording_only() -> None:
    assert mask("secret", b"one") == mask("secret", b"one")
    assert mask("secret", b"one") != mask("secret", b"another")
    assert mask("secret", b"one") != mask("Secret", b"one")


def test_a_mask_does_not_show_the_value() -> None:
    assert "secret" not in str(mask("secret"))
    assert str(Mask(32, True, "1a2b3c4d5e6f")) == "masked(len=32,visible=yes,hash=1a2b3c4d5e6f)"


def test_a_text_with_a_mask_in_it_is_not_a_mask() -> None:
    text = str(mask("secret"))
    assert is_masked(text)
    assert not is_masked(text + "x")
    assert not is_masked("masked(len=1,visible=perhaps,hash=1a2b3c4d5e6f)")
    assert as_mask(text + "x").length == len(text) + 1


@pytest.mark.parametrize(
    ("value", "scheme", "rest"),
    [
        ("Bearer abc.def", "bearer", "abc.def"),
        (
            "bearer  masked(len=7,visible=yes,hash=1a2b3c4d5e6f) ",
            "bearer",
            "masked(len=7,visible=yes,hash=1a2b3c4d5e6f)",
        ),
        ("abc", "abc", ""),
        ("", "", ""),
    ],
)
def test_a_credential_is_split_from_its_scheme(value: str, scheme: str, rest: str) -> None:
    assert credential(value) == (scheme, rest)

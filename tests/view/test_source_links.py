"""Only what leads to a site that the built-in rules cite becomes a link."""

import pytest

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.source_links import link_to


def test_every_source_of_a_rule_is_a_link() -> None:
    for rule in catalogue.load().rules.values():
        for requirement in rule.requirements:
            for source in requirement.sources.values():
                assert link_to(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "",
        "javascript:alert(1)//https://modelcontextprotocol.io/",
        "java\nscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "http://modelcontextprotocol.io/specification",
        "//modelcontextprotocol.io/",
        "https:modelcontextprotocol.io/",
        "https:/\\evil.example/",
        "https://evil.example/",
        "https://modelcontextprotocol.io.evil.example/",
        "https://modelcontextprotocol.io@evil.example/",
        "https://evil.example\\@modelcontextprotocol.io/",
        "https://evil@modelcontextprotocol.io/",
        "https://modelcontextprotocol.io:8443/",
        "https://modelcontextprotocol\u2024io/",
        "https://modelcontextprotocol.io/\u202egnp.exe",
        "https://modelcontextprotocol.io/\x1b]8;;",
        "https://github.com/evil/modelcontextprotocol",
        "https://github.com/modelcontextprotocol/modelcontextprotocol/../../evil/phish",
        "https://github.com/modelcontextprotocol/modelcontextprotocol/%2e%2E/%2e./evil",
        "https://[::1/",
        " https://modelcontextprotocol.io/",
    ],
)
def test_anything_else_is_text(source: str) -> None:
    assert link_to(source) == ""

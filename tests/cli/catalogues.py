"""A catalogue of three rules that says exactly what a test needs it to say."""

from collections.abc import Mapping

from mcpproxy.protocol.rules import Catalogue


def _rule(name: str, **requirements: Mapping[str, object]) -> dict[str, object]:
    texts = {key: f"The {key} of {name}." for key in ("summary", "why", "instead")}
    return {"name": name, "example": f'{{"breaks":"{name}"}}', **texts, "requirements": requirements}


SMALL = Catalogue.from_tables(
    {
        "PROTO-007": _rule(
            "response-id-mismatch",
            **{
                "R-008": {
                    "text": "An answer carries the id of a request.",
                    "blame": "either",
                    "keyword": "MUST",
                    "source": "basic/index#responses",
                }
            },
        ),
        "PROTO-009": _rule(
            "undeclared-capability",
            **{
                "R-044": {
                    "text": "Only declared features are used.",
                    "blame": "client",
                    "keyword": {"2024-11-05": "SHOULD", "2025-06-18": "MUST"},
                    "until": "2026-07-28",
                    "source": "basic/lifecycle#operation",
                }
            },
        ),
        "SCHEMA-003": _rule(
            "object-without-properties",
            **{
                "R-132": {
                    "text": "A schema may leave its properties open.",
                    "blame": "server",
                    "keyword": "info",
                    "source": "https://example.test/{revision}/tools",
                },
                "R-999": {
                    "text": "Nobody wonders about it.",
                    "blame": "either",
                    "keyword": "MAY",
                    "source": "https://example.test/wonder",
                    "unobservable": "wondering leaves no trace on the wire",
                },
            },
        ),
    }
)

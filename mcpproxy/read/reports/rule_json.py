"""Write a rule as a JSON object."""

from mcpproxy.protocol.revisions import VERSIONS
from mcpproxy.protocol.rules import Requirement, Rule


def as_object(rule: Rule) -> dict[str, object]:
    """Return a rule as a JSON object.

    ``levels`` has a member per revision, which is ``null`` if the rule has none there.
    """
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "why": rule.why,
        "example": rule.example,
        "instead": rule.instead,
        "levels": {revision: rule.level(revision) for revision in VERSIONS},
        "requirements": [_requirement(requirement) for requirement in rule.requirements],
    }


def _requirement(requirement: Requirement) -> dict[str, object]:
    return {
        "id": requirement.id,
        "text": requirement.text,
        "blame": requirement.blame,
        "keywords": dict(requirement.keywords),
        "sources": dict(requirement.sources),
        "unobservable": requirement.unobservable or None,
        "softer": dict(requirement.softer),
    }

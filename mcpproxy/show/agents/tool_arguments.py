"""The arguments that several tools take, with their descriptions."""

from typing import Annotated, TypeAlias

from pydantic import Field

from mcpproxy.read.view.stats import Order

Handle: TypeAlias = Annotated[
    str,
    Field(
        max_length=1000,
        description="Handle, label, LABEL~1 (the one before) or unique part of a handle; empty: the latest",
    ),
]
HandleOfModel: TypeAlias = Annotated[
    str,
    Field(max_length=1000, description="Of a model's interface: handle or label; empty: the latest such"),
]
HandleOrAll: TypeAlias = Annotated[
    str, Field(max_length=1000, description="Handle, label or unique part; empty: all recordings")
]
HandleBefore: TypeAlias = Annotated[
    str,
    Field(
        max_length=1000,
        description="Handle, label or unique part; empty: the recording before after that has its label",
    ),
]
HandleAfter: TypeAlias = Annotated[
    str,
    Field(
        max_length=1000,
        description="Handle, label or unique part; empty: the latest, with the label of before if given",
    ),
]
MatchText: TypeAlias = Annotated[
    str, Field(max_length=1000, description="Text in handle, label, server or client")
]
MatchTogether: TypeAlias = Annotated[
    str, Field(max_length=1000, description="Instead: all that list_recordings finds with this match; *: all")
]
SortedBy: TypeAlias = Annotated[
    Order, Field(description="what is first: most calls, failed, slowest, tokens")
]
FilterText: TypeAlias = Annotated[
    str,
    Field(
        max_length=2000,
        description=(
            "Terms that all must hold: tool: prompt: resource: method: status:unsuccessful (or error, "
            "unanswered, unreadable, cancelled, refused) code: latency:>2s "
            'bytes:>10k rule:PROTO-* severity: from:server session: kind: call: frame: id: "text"; - negates'
        ),
    ),
]
FilterTextAgain: TypeAlias = Annotated[str, Field(max_length=2000, description="As for find_calls")]
Cursor: TypeAlias = Annotated[str, Field(max_length=4000, description="next of the page before")]
Limit: TypeAlias = Annotated[int, Field(ge=1, le=100, description="most rows in the answer")]
Number: TypeAlias = Annotated[int, Field(ge=0, le=1 << 53)]
Full: TypeAlias = Annotated[bool, Field(description="all records, long texts and the rules, in pages")]

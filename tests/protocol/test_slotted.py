"""Classes that are slotted behave as dataclasses do, whichever of their methods is asked for first."""

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, is_dataclass, replace
from dataclasses import field as usual_field
from typing import Any

import pytest

from mcpproxy.base.slotted import field, slotted


@slotted(frozen=True)
class Slotted:
    """A finding, say."""

    rule: str
    related: list[int] = field(default_factory=list[int])
    seen: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Usual:
    """The same, the usual way."""

    rule: str
    related: list[int] = usual_field(default_factory=list[int])
    seen: int = usual_field(default=0, compare=False, repr=False)


@slotted()
class Changing:
    """A frame, say, that holds another."""

    seq: int
    inner: "Changing | None" = None
    _parsed: int | None = field(default=None, init=False, repr=False, compare=False)
    _notes: list[str] = field(default_factory=list[str], init=False)


@slotted(frozen=True)
class Named:
    """One with a method of its own."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@slotted(eq=False)
class Single:
    """One that equals nothing but itself."""

    id: int


def test_it_is_made_and_printed_like_a_dataclass() -> None:
    made, usual = Slotted("A", seen=3), Usual("A", seen=3)
    assert repr(made) == repr(usual).replace("Usual", "Slotted")
    assert asdict(made) == asdict(usual)
    assert Slotted.__match_args__ == Usual.__match_args__
    assert not hasattr(made, "__dict__")
    assert Slotted("A").related is not made.related
    assert replace(made, rule="B") == Slotted("B")


def test_equality_depends_on_the_fields_that_compare() -> None:
    assert Slotted("A", seen=1) == Slotted("A", seen=2)
    assert Slotted("A", [1]) != Slotted("A", [2])
    assert Slotted("A") != Usual("A")
    assert Single(1) != Single(1)


def test_frozen_instances_are_hashed_by_their_fields() -> None:
    assert {Named("a"): 1}[Named("a")] == 1
    assert len({Single(1), Single(1)}) == 2
    with pytest.raises(TypeError):
        hash(Changing(1))


def test_a_frozen_instance_cannot_be_changed() -> None:
    made, name = Slotted("A"), "rule"
    with pytest.raises(FrozenInstanceError):
        setattr(made, name, "B")
    with pytest.raises(FrozenInstanceError):
        delattr(made, name)
    assert made.rule == "A"


def test_pickles_contain_all_fields() -> None:
    for made in (Slotted("A", [1], 2), Changing(1, Changing(2))):
        assert asdict(pickle.loads(pickle.dumps(made))) == asdict(made)
    assert pickle.loads(pickle.dumps(Slotted("A", seen=2))).seen == 2


def test_fields_without_arguments_have_their_defaults() -> None:
    made = Changing(1)
    made.inner = made
    assert repr(made) == "Changing(seq=1, inner=..., _notes=[])"
    assert Changing(seq=2) == Changing(2, None)


def test_the_first_instances_are_like_the_later_ones() -> None:
    @slotted()
    class Fresh:
        a: int
        b: list[int] = field(default_factory=list[int])
        c: int = 3
        d: int = field(default=4, init=False)

    ways = [Fresh(1), Fresh(1, [2]), Fresh(a=1), Fresh(1, c=5), Fresh(c=5, b=[], a=1)]
    later = [way for _ in range(9) for way in (Fresh(1), Fresh(1, [2]), Fresh(a=1), Fresh(1, c=5))][-4:]
    assert [repr(way) for way in ways] == [repr(way) for way in (*later, later[3])]
    assert Fresh(1).b is not Fresh(1).b


@pytest.mark.parametrize("number", [0, 20])
@pytest.mark.parametrize(
    ("args", "more"), [((), {}), ((1, 2), {}), ((1,), {"a": 1}), ((1,), {"b": 1}), ((1,), {"c": 1})]
)
def test_wrong_arguments_are_refused_by_the_first_and_by_later_ones(
    number: int, args: tuple[int, ...], more: dict[str, int]
) -> None:
    @slotted(frozen=True)
    class Fresh:
        a: int
        b: int = field(default=2, init=False)

    for _ in range(number):
        Fresh(1)
    make: Any = Fresh
    with pytest.raises(TypeError, match=r"Fresh\.__init__\(\)"):
        make(*args, **more)


def test_an_error_about_arguments_names_the_class() -> None:
    with pytest.raises(
        TypeError, match=r"Slotted\.__init__\(\) missing 1 required positional argument: 'rule'"
    ):
        Slotted()  # pyright: ignore[reportCallIssue]


def test_a_method_that_the_class_defines_is_not_replaced() -> None:
    assert repr(Named("a")) == "<a>"


def test_it_can_be_copied_and_inspected_like_a_dataclass() -> None:
    described = {f.name: (f.init, f.repr, f.compare) for f in fields(Slotted)}
    assert described == {f.name: (f.init, f.repr, f.compare) for f in fields(Usual)}
    assert is_dataclass(Changing(1))
    assert replace(Changing(1), seq=2) == Changing(2)


def test_defining_and_making_one_needs_no_dataclasses() -> None:
    code = (
        "import sys; from mcpproxy.base.slotted import field, slotted\n"
        "@slotted(frozen=True)\nclass A:\n  x: int\n  y: list[int] = field(default_factory=list)\n"
        "print(A(1).y, 'dataclasses' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[] False\n", "")

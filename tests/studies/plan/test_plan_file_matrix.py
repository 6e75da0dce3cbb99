"""The matrix of a plan file: every combination once, minus the excluded, with the values where their names stand."""

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stopwav.studies.plan.matrix import Matrix, fill, read_matrix
from stopwav.studies.plan.yaml_file import Node, as_node

names = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True).filter(lambda name: name not in ("include", "exclude"))
scalars = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.text(max_size=5))
axes = st.dictionaries(
    names, st.lists(scalars, min_size=1, max_size=4, unique_by=lambda v: (type(v), v)), min_size=1, max_size=4
)


def written(combination: dict[str, Any]) -> str:
    return repr(sorted(combination.items()))


@given(axes)
def test_every_combination_is_there_once(values: dict[str, list[Any]]) -> None:
    found = read_matrix(as_node(values, "here")).combinations()
    assert len(found) == math.prod(map(len, values.values()))
    # 0.0 and -0.0 are equal to Python and written differently, as everything here is compared.
    assert len({written(one) for one in found}) == len(found)
    for one in found:
        assert list(one) == list(values)
        assert all(value in values[name] for name, value in one.items())


@given(axes, st.data())
def test_the_excluded_are_left_out_and_nothing_else(values: dict[str, list[Any]], data: st.DataObject) -> None:
    every = Matrix(values).combinations()
    whole = data.draw(st.lists(st.sampled_from(every), max_size=len(every), unique_by=written))
    assert len(Matrix(values, exclude=whole).combinations()) == len(every) - len(whole)
    # A pattern of some names excludes all that hold its values: the product of the other lists.
    name = data.draw(st.sampled_from(list(values)))
    value = data.draw(st.sampled_from(values[name]))
    kept = Matrix(values, exclude=[{name: value}]).combinations()
    assert len(kept) == len(every) - len(every) // len(values[name])
    assert not [one for one in kept if type(one[name]) is type(value) and one[name] == value]
    # What is included again is there once more, at the end, and never twice.
    again = Matrix(values, exclude=whole, include=[*whole, *whole]).combinations()
    assert {written(one) for one in again} == {written(one) for one in every}
    assert len(again) == len(every)


@given(names, scalars, st.text())
def test_a_value_stands_where_its_name_stood(name: str, value: Any, around: str) -> None:
    around = around.replace("{", "").replace("}", "")
    alone = fill(Node(f"{{{name}}}", "here"), {name: value}).value
    assert type(alone) is type(value)
    assert alone == value
    text = value if isinstance(value, str) else json.dumps(value)
    node = as_node([{"key": f"x{around}{{{name}}}{around}{{{{{name}}}}}"}], "here")
    assert fill(node, {name: value}).plain() == [{"key": f"x{around}{text}{around}{{{name}}}"}]


@given(st.text())
def test_braces_reach_nothing_but_the_matrix(text: str) -> None:
    node = Node("{a.__class__} {a[0]} {0} {} {a!r} " + text.replace("{", "").replace("}", ""), "here")
    assert fill(node, {"a": "never"}).value == node.value

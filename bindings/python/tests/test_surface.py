"""The package's surface is that of the table which all packages share."""

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lookback

TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parents[2] / "surface.toml").read_text())
SAME = {"Session": ["Session", "AsyncSession"], "Memory": ["Memory", "AsyncMemory"], "Window": ["Window"]}


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", TABLE["functions"])
def test_a_function_takes_what_the_table_says(name: str) -> None:
    assert parameters(getattr(lookback, name)) == TABLE["functions"][name]


@pytest.mark.parametrize("name", [own for names in SAME.values() for own in names])
def test_a_class_has_what_the_table_says(name: str) -> None:
    described = TABLE["classes"][name.removeprefix("Async")]
    made = getattr(lookback, name)
    if "opened" in described:
        assert parameters(made) == described["opened"]
    public = [member for member in dir(made) if not member.startswith("_")]
    methods = {member: parameters(getattr(made, member)) for member in public if callable(getattr(made, member))}
    assert methods == described["methods"]
    if not name.startswith("Async"):
        assert {member for member in public if member not in methods} == set(described["properties"])


@pytest.mark.parametrize("name", TABLE["errors"])
def test_an_error_has_the_values_of_the_table(name: str) -> None:
    error = getattr(lookback, name)
    assert issubclass(error, lookback.LookbackError)
    assert list(error.__annotations__ if "__annotations__" in error.__dict__ else {}) == TABLE["errors"][name]


def test_there_is_nothing_else() -> None:
    classes = {own for names in SAME.values() for own in names} | {"Ask", "Policy", "Source"}
    assert set(lookback.__all__) == {*TABLE["functions"], *TABLE["errors"], *classes, "wrap"}

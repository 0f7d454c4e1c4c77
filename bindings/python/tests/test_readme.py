"""The examples of the README run unchanged."""

import doctest
import re
import tomllib
from pathlib import Path

import pytest

import lookback

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", README.read_text(), re.S))
def test_an_example_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    exec(compile(example, str(README), "exec"), {})
    printed = capsys.readouterr().out
    for expected in re.findall(r"print\(.*\)  # (.*)", example):
        assert expected in printed
    assert printed or "wrap(" in example


def test_the_distribution_and_its_extras_are_named() -> None:
    project = tomllib.loads((README.parent / "pyproject.toml").read_text())["project"]
    text = README.read_text()
    assert f"pip install {project['name']} " in text
    named = set(re.findall(r"`([a-z-]+)`", text)) | set(re.findall(r"\[([a-z-]+)\]'", text))
    assert set(project["optional-dependencies"]) - named == set()


def test_the_example_of_the_module_runs() -> None:
    assert doctest.testmod(lookback) == (0, 4) or doctest.testmod(lookback).failed == 0

"""The examples of the pages run unchanged, against a provider that enforces its rules."""

import re
from pathlib import Path

import pytest
from conftest import DOCS, StandIn, examples, run_example

import lookback

# The examples of these frameworks are tested in their own environments.
ELSEWHERE = ("LlamaIndex", "CrewAI")
ADAPTERS = {name: code for name, code in examples("guides/adapters.md").items() if name not in ELSEWHERE}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_keeps_the_conversation(name: str, tmp_path: Path, stand_in: StandIn) -> None:
    assert run_example(ADAPTERS[name], tmp_path, stand_in).strip()
    done = run_example("import lookback, sys; lookback._native.command_line(['lookback', 'sessions', 'list', '--json', '--store', 'memory.db'])", tmp_path, stand_in)
    assert '"session"' in done


def test_every_adapter_has_an_example() -> None:
    folder = Path(lookback.__file__).parent
    modules = {file.stem for file in folder.glob("[a-z]*.py")}
    text = "".join(examples("guides/adapters.md").values())
    assert modules and {module for module in modules if f"lookback.{module} import" not in text} == set()


@pytest.mark.parametrize("page", sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")))
def test_no_empty_line_breaks_a_table(page: str) -> None:
    # Checks that a table after another table has a delimiter row.
    assert not re.search(r"\|\n\n\|.*\n(?!\|[-:| ]+\|\n)", (DOCS / page).read_text())


@pytest.mark.parametrize(("name", "code"), examples("guides/migration.md").items())
def test_what_is_moved_from_and_to_runs(name: str, code: str, tmp_path: Path, stand_in: StandIn) -> None:
    assert run_example(code, tmp_path, stand_in).strip()

"""A pytest plugin: every agent of CrewAI has Lookback's model around the one that the test gives it."""

from typing import Any

from crewai import lite_agent
from crewai.agent import core
from crewai.llms.base_llm import BaseLLM
from record import reach

from lookback.crewai import LookbackLLM

_create = core.create_llm


class Around(LookbackLLM):
    def _as_this(self) -> Any:
        reach()
        return super()._as_this()


def _create_around(*args: Any) -> Any:
    made = _create(*args)
    return Around(made) if isinstance(made, BaseLLM) and not isinstance(made, Around) else made


for module in (core, lite_agent):
    setattr(module, "create_llm", _create_around)

"""A pytest plugin: every run of OpenAI's Agents SDK has Lookback's filter, after the test's own if there is one."""

import inspect
from functools import wraps
from itertools import count
from typing import Any

from agents import RunConfig
from agents.run import CallModelData, ModelInputData
from record import reach

from lookback.openai_agents import LookbackFilter

_runs = count()
_init = RunConfig.__init__


def _behind(first: Any) -> Any:
    window = LookbackFilter(f"run-{next(_runs)}")

    async def both(data: CallModelData[Any]) -> Any:
        if first:
            answer = first(data)
            answer = await answer if inspect.isawaitable(answer) else answer
            if not isinstance(answer, ModelInputData):
                return answer
            data = CallModelData(answer, data.agent, data.context)
        reach()
        return await window(data)

    return both


@wraps(_init)
def _with_filter(self: RunConfig, *args: Any, **options: Any) -> None:
    _init(self, *args, **options)
    self.call_model_input_filter = _behind(self.call_model_input_filter)


setattr(RunConfig, "__init__", _with_filter)

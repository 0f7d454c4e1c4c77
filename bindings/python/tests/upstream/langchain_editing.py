"""A pytest plugin: Lookback's middleware as LangChain's context editing."""

from typing import Any

import langchain.agents.middleware as package
from langchain.agents.middleware import context_editing as module
from langchain_core.runnables.config import set_config_context
from record import reach

from lookback.langchain import LookbackMiddleware


class ContextEditingMiddleware(LookbackMiddleware):
    def __init__(self, *, edits: Any, **options: Any) -> None:
        [edit] = edits
        # The original clears every result that it may, without a target size.
        stage = {"kind": "clear_results", "keep": edit.keep, "marker": edit.placeholder}
        super().__init__(policy={"limits": {"tokens": edit.trigger}, "target": {"tokens": 1}, "stages": [stage]})

    def _mirror(self, request: Any) -> Any:
        reach()
        # The tests call it without a graph, so this sets an empty configuration.
        with set_config_context({"configurable": {}}) as context:
            return context.run(super()._mirror, request)


setattr(package, "ContextEditingMiddleware", ContextEditingMiddleware)
setattr(module, "ContextEditingMiddleware", ContextEditingMiddleware)

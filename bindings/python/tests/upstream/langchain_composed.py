"""A pytest plugin: every agent of LangChain has Lookback's middleware, after the test's own."""

from functools import wraps
from typing import Any

import langchain.agents
import pytest
from langchain.agents import factory
from langchain_core.runnables.config import set_config_context
from record import reach

from lookback.langchain import LookbackMiddleware

_create = factory.create_agent
_chain = factory._chain_model_call_handlers


class Composed(LookbackMiddleware):
    def _mirror(self, request: Any) -> Any:
        reach()
        return super()._mirror(request)


class WithoutGraph(Composed):
    def _mirror(self, request: Any) -> Any:
        # Only a graph has a configuration, so this sets an empty one.
        with set_config_context({"configurable": {}}) as context:
            return context.run(super()._mirror, request)


@wraps(_create)
def _create_with(*args: Any, middleware: Any = (), **options: Any) -> Any:
    return _create(*args, middleware=[*middleware, Composed()], **options)


def _chain_with(handlers: Any) -> Any:
    return _chain([*handlers, WithoutGraph().wrap_model_call] if handlers else handlers)


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    # Agents also chain their handlers with this function, so it is replaced only in the module that tests it.
    for item in items:
        if hasattr(item.module, _chain.__name__):
            setattr(item.module, _chain.__name__, _chain_with)


setattr(langchain.agents, "create_agent", _create_with)
setattr(factory, "create_agent", _create_with)

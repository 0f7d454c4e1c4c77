"""A pytest plugin: Lookback's manager as the default manager of Strands' agents."""

from itertools import count
from typing import Any

import strands.agent.conversation_manager as package
from record import reach

from lookback.strands import LookbackManager

_agents = count()


class SlidingWindowConversationManager(LookbackManager):
    def __init__(self) -> None:
        super().__init__(f"agent-{next(_agents)}")

    async def _window(self, context: Any) -> Any:
        reach()
        return await super()._window(context)


setattr(package, "SlidingWindowConversationManager", SlidingWindowConversationManager)

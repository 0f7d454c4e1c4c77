"""A plugin of pytest: Lookback's manager as the one that an agent of Strands has by default."""

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

"""A pytest plugin: Lookback's manager as Strands' sliding window, which changes the agent's own list.

Lookback's manager does not change that list, and the tests look only at the list. So this plugin removes the messages
that the window no longer shows. The tests then check that a window contains what users of the original expect, but not
how it is sent.
"""

import json
from typing import Any

import strands.agent.conversation_manager as package
from record import reach
from strands.agent.conversation_manager import ConversationManager
from strands.agent.conversation_manager import sliding_window_conversation_manager as module

from lookback.strands import LookbackManager


class SlidingWindowConversationManager(LookbackManager):
    def __init__(
        self,
        window_size: int = 40,
        should_truncate_results: bool = True,
        *,
        pin_first: int | None = None,
        proactive_compression: Any = None,
        **options: Any,
    ) -> None:
        settings = {
            "window_size": window_size,
            "should_truncate_results": json.dumps(should_truncate_results),
            "keep.first": pin_first or 0,
            # The tests choose the moments, as the agent does.
            "per_turn": "true",
        }
        policy = ",".join(f"{name}={value}" for name, value in settings.items())
        super().__init__("s", policy=f"managed-window:{policy}")
        # The base class decides when the list is reduced before a call.
        ConversationManager.__init__(self, proactive_compression=proactive_compression)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        reach()
        self._take_out(agent)

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        reach()
        if e:
            # The model has refused a window, so the mirror must have made one.
            self._mirror.window(agent.messages)
            super().reduce_context(agent, e)
        self._take_out(agent)

    def _take_out(self, agent: Any) -> None:
        shown = self._mirror.window(agent.messages)
        own = [message for message in shown if str(message.get("tracking_id")).startswith("lookback-")]
        agent.messages[:] = [message for message in shown if message not in own]


setattr(package, "SlidingWindowConversationManager", SlidingWindowConversationManager)
setattr(module, "SlidingWindowConversationManager", SlidingWindowConversationManager)

"""Decides what a language model sees of a long conversation.

>>> import lookback
>>> session = lookback.Session("chat-1", model="gpt-4o")
>>> session.push({"role": "user", "content": "What is in notes.txt?"})
[0]
>>> session.window().messages
[{'role': 'user', 'content': 'What is in notes.txt?'}]
"""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any

from lookback._errors import (
    DecodeError,
    FactRefused,
    HardLimitExceeded,
    Irreducible,
    LookbackError,
    PolicyError,
    StoreError,
)
from lookback._native import (
    Ask,
    Memory,
    Policy,
    Session,
    Source,
    Window,
    check,
    ends,
    fit,
    presets,
    prices,
    repair,
    replay,
)

if TYPE_CHECKING:
    from lookback._async import AsyncMemory, AsyncSession
    from lookback._wrap import wrap

__all__ = [
    "Ask",
    "AsyncMemory",
    "AsyncSession",
    "DecodeError",
    "FactRefused",
    "HardLimitExceeded",
    "Irreducible",
    "LookbackError",
    "Memory",
    "Policy",
    "PolicyError",
    "Session",
    "Source",
    "StoreError",
    "Window",
    "check",
    "fit",
    "presets",
    "prices",
    "repair",
    "replay",
    "wrap",
]

# A summary may still be in progress.
atexit.register(ends)


def __getattr__(name: str) -> Any:
    # Importing `asyncio` takes most of the time of this import, and most programs need it later or never.
    if name in ("AsyncMemory", "AsyncSession"):
        from lookback import _async

        return getattr(_async, name)
    if name == "wrap":
        from lookback._wrap import wrap

        return wrap
    raise AttributeError(f"module 'lookback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

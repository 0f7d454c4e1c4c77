"""Decides what a language model sees of a long conversation.

>>> import lookback
>>> session = lookback.Session("chat-1", model="gpt-4o")
>>> session.push({"role": "user", "content": "What is in notes.txt?"})
[0]
>>> session.window().messages
[{'role': 'user', 'content': 'What is in notes.txt?'}]
"""

from lookback._async import AsyncSession
from lookback._errors import (
    DecodeError,
    HardLimitExceeded,
    Irreducible,
    LookbackError,
    PolicyError,
    StoreError,
)
from lookback._native import Session, Source, Window, check, fit, repair
from lookback._wrap import wrap

__all__ = [
    "AsyncSession",
    "DecodeError",
    "HardLimitExceeded",
    "Irreducible",
    "LookbackError",
    "PolicyError",
    "Session",
    "Source",
    "StoreError",
    "Window",
    "check",
    "fit",
    "repair",
    "wrap",
]

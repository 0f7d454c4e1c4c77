"""The exceptions of Lookback, with their values for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookback._types import Excess, Pinned


class LookbackError(Exception):
    """An error of Lookback. The base class of all others."""


class DecodeError(LookbackError, ValueError):
    """An argument is not a message, a request or a name that Lookback understands."""

    where: str
    """Its place, such as ``messages[3].content[0]``."""


class PolicyError(LookbackError, ValueError):
    """A policy has a mistake."""


class StoreError(LookbackError, OSError):
    """The store failed. Nothing was written, unless the message says otherwise."""


class HardLimitExceeded(LookbackError):
    """The window exceeds a hard limit, and nothing more may be dropped."""

    excesses: list[Excess]
    """The exceeded limits."""
    pinned: list[Pinned]
    """The messages that may not be dropped, with their sizes."""


class Irreducible(LookbackError):
    """The provider refuses the window as too long, and nothing more can be shortened or dropped."""

    reductions: int
    """How often the window was made smaller since the last message."""
    tokens: int
    """The tokens of the window, by Lookback's count."""
    pinned: list[Pinned]
    """The messages that may not be dropped, with their sizes."""


class FactRefused(LookbackError, ValueError):
    """A memory does not accept a fact, or a change of one."""

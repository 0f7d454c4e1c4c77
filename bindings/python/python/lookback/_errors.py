"""What can go wrong, with the values that matter to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookback._types import Excess, Pinned


class LookbackError(Exception):
    """An error of Lookback. All others are kinds of it."""


class DecodeError(LookbackError, ValueError):
    """Something given is not a message, a request or a name that Lookback understands."""

    where: str
    """The place of it, such as ``messages[3].content[0]``."""


class PolicyError(LookbackError, ValueError):
    """A policy has a mistake."""


class StoreError(LookbackError, OSError):
    """The store failed. Nothing was written, unless the message says otherwise."""


class HardLimitExceeded(LookbackError):
    """The window exceeds a hard limit, and nothing is left that may be dropped."""

    excesses: list[Excess]
    """The limits that are exceeded."""
    pinned: list[Pinned]
    """What may not be dropped, with sizes."""


class Irreducible(LookbackError):
    """The provider refuses the window as too long, and nothing is left that may be shortened or dropped."""

    reductions: int
    """How often it was made smaller since the last message."""
    tokens: int
    """Its tokens, by Lookback's count."""
    pinned: list[Pinned]
    """What may not be dropped, with sizes."""


class FactRefused(LookbackError, ValueError):
    """A memory does not accept a fact, or what is to become of one."""

"""Planting the reference's behaviour, to see that a rule's check can fail."""

from typing import NamedTuple

import pytest


class Planted(NamedTuple):
    """A replacement of ``attribute`` of ``target`` that behaves as the reference does."""

    target: object
    attribute: str
    variant: object

    def put(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Puts it in place for the rest of a test."""
        monkeypatch.setattr(self.target, self.attribute, self.variant)

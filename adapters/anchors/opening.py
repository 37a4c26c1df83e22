"""All anchors of an installation, each opened when it is first used."""

from pathlib import Path
from threading import Lock

from memoriale.adapters.anchors.anchor import Anchor, Archive
from memoriale.adapters.anchors.cosignatures import Cosignatures
from memoriale.adapters.anchors.memory import AnchorMemory
from memoriale.adapters.anchors.places import Place, Places
from memoriale.adapters.anchors.trees import Trees

ARCHIVES = ("folder", "objects", "git")
"""Kinds of places that can be read back."""


class Anchors:
    """
    The anchors of an installation.

    Args:
        places: Where.
        folder: What is remembered of them.
        trees: Local trees and checkpoints.
    """

    def __init__(self, places: Places, folder: Path, trees: Trees) -> None:
        self.places, self.trees = places, trees
        self.cosignatures = Cosignatures(trees)
        self._folder = folder
        self._lock = Lock()
        self._memories: dict[Place, AnchorMemory] = {}

    def memory(self, place: Place) -> AnchorMemory:
        """What is remembered of one."""
        with self._lock:
            if place not in self._memories:
                self._memories[place] = AnchorMemory(self._folder / place.id)
            return self._memories[place]

    def open(self, place: Place) -> Anchor:
        """
        One anchor.

        Raises:
            UnavailableError: Its library is not installed, or it cannot be opened.
        """
        if place.kind == "witness":
            from memoriale.adapters.anchors.witness import WitnessAnchor

            return WitnessAnchor(place, self.trees, self.memory(place), self.cosignatures)
        if place.kind == "timestamps":
            from memoriale.adapters.anchors.timestamps import TimestampAnchor

            return TimestampAnchor(place, self.trees)
        return self.archive(place)

    def archive(self, place: Place) -> Archive:
        """An anchor that can be read back; errors as for ``open``."""
        if place.kind == "folder":
            from memoriale.adapters.anchors.folder import FolderAnchor

            return FolderAnchor(place)
        if place.kind == "objects":
            from memoriale.adapters.anchors.objects import ObjectAnchor

            return ObjectAnchor(place)
        from memoriale.adapters.anchors.git import GitAnchor

        return GitAnchor(place, self._folder / place.id / "copy.git")

    def close(self) -> None:
        """Lets go of files."""
        with self._lock:
            for memory in self._memories.values():
                memory.close()
            self._memories.clear()

"""The services of a tenant that are about branches."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from memoriale.adapters.application.branching import Branching
from memoriale.adapters.application.tenant_log import TenantLog

if TYPE_CHECKING:
    from memoriale.adapters.application.comparing import Comparing
    from memoriale.adapters.application.episodes import EpisodeLog
    from memoriale.adapters.application.episodic_trees import EpisodicTrees
    from memoriale.adapters.application.merging import BranchMerging

T = TypeVar("T")


class BranchServices(ABC):
    """The part of ``Tenant`` that builds them, each when first used."""

    @property
    @abstractmethod
    def log(self) -> TenantLog:
        """The memory log."""

    @abstractmethod
    def _once(self, name: str, make: Callable[[], T]) -> T:
        """What was made before by that name, or is made now."""

    @property
    def branching(self) -> Branching:
        """Branches."""
        self.log.require_its_keys()
        return self._once("branching", lambda: Branching(self.log))

    @property
    def comparing(self) -> "Comparing":
        """Branches side by side."""
        from memoriale.adapters.application.comparing import Comparing

        return self._once("comparing", lambda: Comparing(self.log))

    @property
    def merging(self) -> "BranchMerging":
        """Merging and ending branches."""
        from memoriale.adapters.application.merging import BranchMerging

        return self._once("merging", lambda: BranchMerging(self.log, self.branching))

    @property
    def episodes(self) -> "EpisodeLog":
        """What happened to resources and in their sessions."""
        from memoriale.adapters.application.episodes import EpisodeLog

        self.log.require_its_keys()
        return self._once("episodes", lambda: EpisodeLog(self.log))

    @property
    def episodic_trees(self) -> "EpisodicTrees":
        """The same as trees."""
        from memoriale.adapters.application.episodic_trees import EpisodicTrees

        return self._once(
            "episodic_trees", lambda: EpisodicTrees(self.log, self.branching, self.episodes)
        )

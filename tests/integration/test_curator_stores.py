"""``Curator``: which stores it looks after, options as objects, and repairs of the recall view."""

from typing import Any

import pytest

from memoriale import (
    ConsolidateOptions,
    CorrectionStore,
    Curator,
    CuratorStores,
    FileMemory,
    InputError,
    LearnedKnowledge,
    Ledger,
    Memory,
    MemoryManager,
    MemoryScope,
    MissingRightError,
    PruneOptions,
    Right,
    UserFacts,
)
from memoriale.domain.chat import ModelReply
from tests.integration.test_reconcile_ledger import recall_table


class Silent:
    """A model that proposes to merge nothing."""

    model_id = "silent"

    def __init__(self) -> None:
        self.asked = 0

    def generate(self, *messages: Any, **settings: Any) -> ModelReply:
        """No merges."""
        self.asked += 1
        return ModelReply(text='{"merges": []}', model=self.model_id)


@pytest.fixture
def handle(alice: Memory) -> Memory:
    """Alice with an agent."""
    return alice.rebound(alice.principal.with_(agent="clerk"))


def test_what_other_stores_keep_is_left(handle: Memory) -> None:
    """A curator of some stores prunes, clears and deduplicates those alone."""
    facts, files = UserFacts(handle), FileMemory(handle)
    facts.add_facts(facts=["tea", "tea with milk"])
    assert files.add("memory", None, "note").ok
    of_files = Curator(handle, CuratorStores(file_memory=files))
    assert of_files.deduplicate().checked == 0
    assert of_files.consolidate(Silent()).checked == 0
    assert of_files.clear_all(dry_run=True).checked == 1
    assert of_files.clear_all().changed == 1
    assert len(facts.get_active_facts()) == 2
    assert Curator(handle, CuratorStores()).clear_all().checked == 0
    assert Curator(handle, CuratorStores(user_facts=facts)).clear_all().changed == 2


def test_stores_of_another_tenant_are_refused(shared_ledger: Ledger, handle: Memory) -> None:
    """A curator works on one tenant; what is no store is refused too."""
    other = UserFacts(shared_ledger.memory(tenant="another", user="alice"))
    for wrong in (other, "facts"):
        with pytest.raises(InputError, match="stores") as refused:
            Curator(handle, CuratorStores(user_facts=wrong))  # type: ignore[arg-type]
        assert refused.value.field == "stores.user_facts"


def test_options_say_the_same_as_arguments(handle: Memory) -> None:
    """``PruneOptions`` and ``ConsolidateOptions`` carry age, owner, model and threshold."""
    UserFacts(handle).add_facts("bob", ["likes tea", "likes tea a lot"], source="auto")
    curator, model = Curator(handle), Silent()
    options = ConsolidateOptions(model=model, user_id="bob", similarity_threshold=0)
    assert curator.consolidate(options).checked == 2
    assert model.asked == 1
    assert curator.consolidate(options, similarity_threshold=1).checked == 2
    assert model.asked == 1
    assert curator.prune(PruneOptions(max_age_days=1, user_id="bob")).changed == 0
    assert curator.prune(PruneOptions(max_age_days=0)).changed == 0
    assert curator.prune(PruneOptions(max_age_days=0, user_id="bob")).changed == 2


def test_a_row_that_searches_lack_is_put_back(
    shared_ledger: Ledger, handle: Memory, tenant: str
) -> None:
    """The curator says what differs, each store repairs it; it takes the right to operate."""
    learnings, corrections = LearnedKnowledge(handle), CorrectionStore(handle)
    learnings.save_learning({"title": "bees", "content": "Bees sleep in winter"})
    corrections.record_correction({"original_value": "wasps", "corrected_value": "hornets"})
    assert len(learnings.search_learnings("bees")) == 1
    for store in (learnings, corrections):
        recall_table(shared_ledger, tenant).delete("key = 0")
        found = Curator(handle).reconcile(dry_run=True)
        assert (found.missing, found.repaired) == (1, 0)
        assert store.reconcile() == 1
        assert store.reconcile() == 0
        assert len(learnings.search_learnings("bees")) == 1
    recall_table(shared_ledger, tenant).delete("key = 1")
    assert Curator(handle).reconcile().repaired == 1
    assert Curator(handle).reconcile().ok
    limited = handle.rebound(handle.principal.with_(rights=frozenset({Right.USE})))
    with pytest.raises(MissingRightError, match="operate"):
        LearnedKnowledge(limited).reconcile()


def test_a_manager_recalls_from_a_path(shared_ledger: Ledger, tenant: str) -> None:
    """What is kept at a path or above it is found from there, and nothing beside it."""
    for path in ("org/team", "org/other"):
        memory = shared_ledger.memory(tenant=tenant, user="alice", namespace=MemoryScope(path))
        UserFacts(memory).add_facts(facts=[f"The door code of {path} is 42"])
    plain = shared_ledger.memory(tenant=tenant, user="alice")
    manager = MemoryManager(storage=plain, user_facts=True)
    below = MemoryScope("/org//team/project/")
    found = manager.recall("door code", namespace=below)
    assert [hit.content for hit in found] == ["The door code of org/team is 42"]
    assert len(manager.recall("door code")) == 2

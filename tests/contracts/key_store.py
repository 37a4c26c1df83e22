"""What every key store must do. An adapter's test class names how to open one."""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.keys import PERSON_TYPES, KeyStore, PersonKey, Subject

ALICE = Subject("user", "alice")
BOB = Subject("user", "bob")

SIBLINGS = (
    "acme",
    "acme-corp",
    "acme_corp",
    "acme%corp",
    "acme%",
    "acme_",
    "_",
    "%",
    "/",
    "acme/",
    "acme/corp",
    "acme:corp",
    ":",
    "acme\\corp",
    "\\",
    "Acme",
    "ACME",
    " acme",
    "acme ",
    "аcme",
    "ａｃｍｅ",
    "acme\u200b",
    "café",
    unicodedata.normalize("NFD", "café"),
    "ß",
    "ss",
    "user",
    "4:acme",
    "a" * 255,
    "a" * 256,
    "é" * 128,
)

outside_ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60
).filter(lambda text: text.strip() and len(text.encode()) <= 256)


class KeyStoreContract(ABC):
    """The shared suite; subclass it and say how a store is opened."""

    @abstractmethod
    def open_store(self, place: Path) -> KeyStore:
        """Open the store that lives at ``place``, making it if there is none."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[KeyStore]:
        """An empty store."""
        with self.open_store(tmp_path) as store:
            yield store

    def test_a_person_keeps_pseudonym_and_key(self, store: KeyStore, tmp_path: Path) -> None:
        """Asking again gives the same pseudonym and key, also after the store was reopened."""
        first = person(store, ALICE)
        assert person(store, ALICE) == first
        store.close()
        with self.open_store(tmp_path) as again:
            assert person(again, ALICE) == first

    def test_keys_are_random_and_of_the_right_size(self, store: KeyStore) -> None:
        """Pseudonyms and key ids have 16 bytes, keys 32, and no two persons share any."""
        keys = store.get_or_create("acme", [Subject("user", f"u{n}") for n in range(50)])
        assert {(len(key.pseudonym.bytes), len(key.key_id), len(key.key)) for key in keys} == {
            (16, 16, 32)
        }
        for values in (
            {key.pseudonym.bytes for key in keys},
            {key.key_id for key in keys},
            {key.key for key in keys},
        ):
            assert len(values) == 50

    def test_a_batch_comes_back_in_order(self, store: KeyStore) -> None:
        """Keys come in the order of the subjects, known, new and doubled ones mixed."""
        bob = person(store, BOB)
        alice, again, known = store.get_or_create("acme", [ALICE, ALICE, BOB])
        assert alice == again
        assert known == bob
        assert [alice.subject, known.subject] == [ALICE, BOB]

    def test_an_empty_batch_makes_nothing(self, store: KeyStore) -> None:
        """No subjects, no keys."""
        assert store.get_or_create("acme", []) == []
        assert store.stats() == (0, 0, 0)

    def test_types_and_tenants_are_name_spaces_of_their_own(self, store: KeyStore) -> None:
        """The same id under another type or tenant is somebody else."""
        keys = [
            person(store, Subject(kind, "x"), tenant) for kind in PERSON_TYPES for tenant in "ab"
        ]
        assert len({key.pseudonym for key in keys}) == 2 * len(PERSON_TYPES)

    def test_names_are_compared_byte_for_byte(self, store: KeyStore) -> None:
        """Look-alikes, case variants and names with separators never meet, in any part."""
        names = [(tenant, Subject("user", one)) for one in SIBLINGS for tenant in ("acme", one)]
        names = list(dict.fromkeys(names))
        made = {name: person(store, name[1], name[0]) for name in names}
        assert len({key.pseudonym for key in made.values()}) == len(names)
        for (tenant, subject), key in made.items():
            assert store.find(tenant, subject) == key
            assert store.names(tenant, [key.pseudonym]) == {key.pseudonym: subject}

    @given(names=st.sets(st.tuples(outside_ids, st.sampled_from(PERSON_TYPES), outside_ids)))
    @settings(max_examples=25)
    def test_any_names_are_kept_apart(self, names: set[tuple[str, str, str]]) -> None:
        """Whatever the names are, each has one pseudonym, and the pseudonym leads back to it."""
        with TemporaryDirectory() as place, self.open_store(Path(place)) as store:
            made = {name: person(store, Subject(*name[1:]), name[0]) for name in names}
            assert len({key.pseudonym for key in made.values()}) == len(names)
            for (tenant, *subject), key in made.items():
                assert store.names(tenant, [key.pseudonym]) == {key.pseudonym: tuple(subject)}

    def test_find_never_makes_a_key(self, store: KeyStore) -> None:
        """Looking for somebody unknown gives None and stores nothing."""
        assert store.find("acme", ALICE) is None
        assert store.find_period("acme", "standard", "2026-01") is None
        assert store.stats() == (0, 0, 0)
        assert store.find("acme", ALICE) is None

    def test_a_period_key_belongs_to_class_month_and_tenant(self, store: KeyStore) -> None:
        """A period key is made once for (tenant, class, month) and found again."""
        key = store.period("acme", "standard", "2026-01")
        assert (len(key.key_id), len(key.key)) == (16, 32)
        assert store.period("acme", "standard", "2026-01") == key
        assert store.find_period("acme", "standard", "2026-01") == key
        others = (
            store.period("acme", "standard", "2026-02"),
            store.period("acme", "hipaa", "2026-01"),
            store.period("other", "standard", "2026-01"),
        )
        assert len({key.key, *(other.key for other in others)}) == 4

    def test_keys_are_fetched_by_id(self, store: KeyStore) -> None:
        """Keys of persons and periods come by id; an unknown id is absent, not an error."""
        alice, period = person(store, ALICE), store.period("acme", "standard", "2026-01")
        wanted = [alice.key_id, period.key_id, bytes(16), alice.key_id, b"short", b""]
        assert store.get_many(wanted) == {alice.key_id: alice.key, period.key_id: period.key}
        assert store.get_many([]) == {}

    def test_names_stay_with_their_tenant(self, store: KeyStore) -> None:
        """A pseudonym leads to a name only for the tenant whose person it is."""
        ours, theirs = person(store, ALICE), person(store, ALICE, "other")
        wanted = [ours.pseudonym, theirs.pseudonym, UUID(int=0)]
        assert store.names("acme", wanted) == {ours.pseudonym: ALICE}
        assert store.names("nobody", wanted) == {}

    def test_a_destroyed_key_is_gone(self, store: KeyStore, tmp_path: Path) -> None:
        """After destruction neither key nor name is found; other persons keep theirs."""
        alice, bob = store.get_or_create("acme", [ALICE, BOB])
        assert store.destroy(alice.key_id)
        for opened in (store, self.open_store(tmp_path)):
            assert opened.find("acme", ALICE) is None
            assert opened.get_many([alice.key_id, bob.key_id]) == {bob.key_id: bob.key}
            assert opened.names("acme", [alice.pseudonym]) == {}
            assert opened.find("acme", BOB) == bob
            assert opened.stats() == (1, 0, 1)
            opened.close()

    def test_destroying_twice_says_so(self, store: KeyStore) -> None:
        """Destroying what is not there returns False and changes nothing."""
        alice = person(store, ALICE)
        assert store.destroy(alice.key_id)
        assert not store.destroy(alice.key_id)
        assert not store.destroy(bytes(16))
        assert store.stats() == (0, 0, 1)

    def test_a_destroyed_person_comes_back_as_somebody_else(self, store: KeyStore) -> None:
        """The same outside name gets a fresh pseudonym, key id and key after destruction."""
        before = person(store, ALICE)
        store.destroy(before.key_id)
        after = person(store, ALICE)
        assert after.pseudonym != before.pseudonym
        assert after.key_id != before.key_id
        assert after.key != before.key
        assert store.names("acme", [before.pseudonym, after.pseudonym]) == {after.pseudonym: ALICE}

    def test_a_period_key_can_be_destroyed(self, store: KeyStore) -> None:
        """Destroying a period key leaves persons alone, and the period gets a fresh key."""
        alice, period = person(store, ALICE), store.period("acme", "standard", "2026-01")
        assert store.destroy(period.key_id)
        assert store.find_period("acme", "standard", "2026-01") is None
        assert store.find("acme", ALICE) == alice
        assert store.period("acme", "standard", "2026-01").key != period.key

    def test_handles_see_each_other(self, store: KeyStore, tmp_path: Path) -> None:
        """What one handle makes or destroys, another handle on the same store sees at once."""
        with self.open_store(tmp_path) as other:
            assert other.find("acme", ALICE) is None
            alice = person(store, ALICE)
            assert other.find("acme", ALICE) == alice
            assert person(other, ALICE) == alice
            other.destroy(alice.key_id)
            assert store.find("acme", ALICE) is None
            assert store.get_many([alice.key_id]) == {}

    def test_the_generation_changes_with_every_destruction(
        self, store: KeyStore, tmp_path: Path
    ) -> None:
        """Any handle can tell that a key was destroyed; new keys do not disturb it."""
        alice, bob = store.get_or_create("acme", [ALICE, BOB])
        with self.open_store(tmp_path) as other:
            before = store.generation()
            other.period("acme", "standard", "2026-01")
            assert store.generation() == before
            other.destroy(alice.key_id)
            between = store.generation()
            other.destroy(bob.key_id)
            assert len({before, between, store.generation()}) == 3

    def test_threads_agree(self, store: KeyStore) -> None:
        """Threads that ask for the same new persons at once get the same keys."""
        subjects = [Subject("user", f"u{n}") for n in range(40)]
        with ThreadPoolExecutor(8) as threads:
            answers = list(
                threads.map(lambda turn: ask_from(store, subjects, turn), range(0, 40, 5))
            )
        assert all(answer == answers[0] for answer in answers)
        assert store.stats().persons == 40

    @pytest.mark.parametrize(
        ("tenant", "subject", "field"),
        [
            ("acme", Subject("person", "x"), "type"),
            ("acme", Subject("user", ""), "user"),
            ("acme", Subject("user", "a" * 257), "user"),
            ("acme", Subject("user", "\ud800"), "user"),
            ("acme", Subject("user", "a\0b"), "user"),
            ("", Subject("user", "x"), "tenant"),
            ("a" * 257, Subject("user", "x"), "tenant"),
        ],
    )
    def test_a_bad_name_is_refused(
        self, store: KeyStore, tenant: str, subject: Subject, field: str
    ) -> None:
        """A name that cannot be stored gets an error that names the part; nothing is stored."""
        with pytest.raises(InputError) as caught:
            store.get_or_create(tenant, [ALICE, subject])
        assert caught.value.field == field
        with pytest.raises(InputError):
            store.find(tenant, subject)
        assert store.stats() == (0, 0, 0)

    @pytest.mark.parametrize(
        ("retention_class", "period", "field"),
        [
            ("", "2026-01", "retention_class"),
            ("très", "2026-01", "retention_class"),
            ("standard", "2026-13", "period"),
            ("standard", "2026-1", "period"),
            ("standard", "2026-01-01", "period"),
        ],
    )
    def test_a_bad_period_is_refused(
        self, store: KeyStore, retention_class: str, period: str, field: str
    ) -> None:
        """A class or month that is malformed gets an error that names it; nothing is stored."""
        with pytest.raises(InputError) as caught:
            store.period("acme", retention_class, period)
        assert caught.value.field == field
        assert store.stats() == (0, 0, 0)

    def test_keys_do_not_show(self, store: KeyStore) -> None:
        """No repr of a key object shows key bytes."""
        alice, period = person(store, ALICE), store.period("acme", "standard", "2026-01")
        for key in (alice, period):
            for shown in (repr(key), str(key), f"{key}"):
                assert repr(key.key) not in shown
                assert key.key.hex() not in shown
                assert "key=" not in shown

    def test_a_closed_store_says_so(self, store: KeyStore) -> None:
        """A closed store refuses every call; closing it twice is allowed."""
        store.close()
        store.close()
        for call in (
            lambda: store.get_or_create("acme", [ALICE]),
            lambda: store.find("acme", ALICE),
            lambda: store.get_many([bytes(16)]),
            lambda: store.destroy(bytes(16)),
            store.generation,
            store.stats,
        ):
            with pytest.raises(UnavailableError, match="closed"):
                call()


def person(store: KeyStore, subject: Subject, tenant: str = "acme") -> PersonKey:
    """Get or make one person's key."""
    (key,) = store.get_or_create(tenant, [subject])
    return key


def ask_from(store: KeyStore, subjects: list[Subject], start: int) -> list[PersonKey]:
    """Ask for every subject on its own, beginning at ``start``, and answer in their order."""
    turned = subjects[start:] + subjects[:start]
    found = {subject: person(store, subject) for subject in turned}
    return [found[subject] for subject in subjects]

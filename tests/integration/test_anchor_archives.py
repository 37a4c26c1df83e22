"""Anchors that can be read back: folders, object stores, git repositories."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memoriale.adapters.anchors.anchor import AnchorConflictError, Archive, path_of
from memoriale.adapters.anchors.opening import Anchors
from memoriale.adapters.anchors.places import parse_places
from memoriale.adapters.anchors.trees import Trees
from memoriale.domain.errors import UnavailableError
from tests.contracts.anchor import LOG, ArchiveContract, sealed
from tests.fixtures.object_store import BUCKET, ObjectStoreServer

ORIGIN = f"{LOG}/1"
CHECKPOINT = sealed(5)


def opened(uri: str, memory: Path) -> Archive:
    places = parse_places([uri])
    return Anchors(places, memory, Trees(memory)).archive(places.places[0])


def git(*arguments: str, folder: Path) -> str:
    ran = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder outside."""
    made = tmp_path / "out side"
    made.mkdir()
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty bare repository outside."""
    made = tmp_path / "checkpoints.git"
    subprocess.run(["git", "init", "--quiet", "--bare", made], check=True)
    return made


class TestFolder(ArchiveContract):
    """A folder is an anchor."""

    @pytest.fixture
    def archive(self, folder: Path, tmp_path: Path) -> Archive:
        return opened(folder.as_uri(), tmp_path)

    @pytest.fixture
    def again(self, folder: Path, tmp_path: Path) -> Archive:
        return opened(str(folder), tmp_path)


class TestObjectStore(ArchiveContract):
    """An object store is an anchor."""

    @pytest.fixture
    def archive(self, object_store: ObjectStoreServer, tmp_path: Path) -> Archive:
        return opened(f"s3://{BUCKET}/some/prefix", tmp_path)

    @pytest.fixture
    def again(self, archive: Archive, tmp_path: Path) -> Archive:
        return opened(f"s3://{BUCKET}/some/prefix/", tmp_path)


class TestGit(ArchiveContract):
    """A git repository is an anchor."""

    @pytest.fixture
    def archive(self, repository: Path, tmp_path: Path) -> Archive:
        return opened(f"git+{repository.as_uri()}", tmp_path / "one")

    @pytest.fixture
    def again(self, repository: Path, tmp_path: Path) -> Archive:
        return opened(f"git+{repository.as_uri()}", tmp_path / "two")


def test_a_missing_folder_is_not_made(folder: Path, tmp_path: Path) -> None:
    """A folder that is not there, such as a mount that is missing, is unavailable."""
    archive = opened(str(folder / "mount"), tmp_path)
    result = archive.put([CHECKPOINT])[ORIGIN]
    assert isinstance(result, UnavailableError)
    assert "no such folder" in result.message
    assert not (folder / "mount").exists()
    with pytest.raises(UnavailableError, match="no such folder"):
        archive.newest([ORIGIN])


def test_nothing_unfinished_is_left_in_a_folder(folder: Path, tmp_path: Path) -> None:
    """After a put the folder holds the checkpoint's file and nothing else."""
    opened(str(folder), tmp_path).put([CHECKPOINT])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files == [folder / path_of(CHECKPOINT)]
    assert files[0].read_bytes() == CHECKPOINT.note


def test_a_foreign_file_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    """A file that somebody else put where a checkpoint belongs stays, and is a conflict."""
    target = folder / path_of(CHECKPOINT)
    target.parent.mkdir(parents=True)
    target.write_bytes(b"something else")
    result = opened(str(folder), tmp_path).put([CHECKPOINT])[ORIGIN]
    assert isinstance(result, AnchorConflictError)
    assert target.read_bytes() == b"something else"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_unavailable(folder: Path, tmp_path: Path) -> None:
    """A folder without the right to write is unavailable, and says why."""
    folder.chmod(0o500)
    result = opened(str(folder), tmp_path).put([CHECKPOINT])[ORIGIN]
    folder.chmod(0o700)
    assert isinstance(result, UnavailableError)
    assert "Permission denied" in result.message


def test_an_object_store_that_fails_is_unavailable(
    object_store: ObjectStoreServer, tmp_path: Path
) -> None:
    """An object store that answers with errors is unavailable, then takes what it missed."""
    archive = opened(f"s3://{BUCKET}/p", tmp_path)
    object_store.down = True
    assert isinstance(archive.put([CHECKPOINT])[ORIGIN], UnavailableError)
    with pytest.raises(UnavailableError):
        archive.newest([ORIGIN])
    object_store.down = False
    assert archive.put([CHECKPOINT]) == {ORIGIN: None}
    assert object_store.objects == {f"p/{path_of(CHECKPOINT)}": CHECKPOINT.note}


def test_a_missing_repository_is_unavailable(tmp_path: Path) -> None:
    """A repository that is not there is unavailable, and git's words are told."""
    archive = opened(f"git+file://{tmp_path}/nowhere.git", tmp_path / "memory")
    result = archive.put([CHECKPOINT])[ORIGIN]
    assert isinstance(result, UnavailableError)
    assert "does not" in result.message


def rewind(repository: Path) -> None:
    first = git("rev-list", "--max-parents=0", "memoriale", folder=repository)
    git("update-ref", "refs/heads/memoriale", first, folder=repository)


def remove_branch(repository: Path) -> None:
    git("update-ref", "-d", "refs/heads/memoriale", folder=repository)


def replace_all(repository: Path) -> None:
    tree = git("rev-parse", "memoriale^{tree}", folder=repository)
    other = git("commit-tree", tree, "-m", "the same files, another history", folder=repository)
    git("update-ref", "refs/heads/memoriale", other, folder=repository)


def commit_change(repository: Path, change: Callable[[Path], object]) -> None:
    work = repository.parent / "work"
    git("clone", "--quiet", "-b", "memoriale", str(repository), str(work), folder=repository)
    change(work / path_of(CHECKPOINT))
    git("commit", "--quiet", "-am", "a change", folder=work)
    git("push", "--quiet", folder=work)


def change_file(repository: Path) -> None:
    commit_change(repository, lambda file: file.write_text("another note"))


def remove_file(repository: Path) -> None:
    commit_change(repository, lambda file: file.unlink())


@pytest.mark.parametrize("attack", [rewind, remove_branch, replace_all, change_file, remove_file])
def test_a_rewritten_repository_is_a_conflict(
    repository: Path, tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    """Whatever was taken from a branch after it was seen is reported by every later use."""
    archive = opened(f"git+{repository.as_uri()}", tmp_path / "memory")
    archive.put([CHECKPOINT])
    archive.put([sealed(6)])
    attack(repository)
    result = archive.put([sealed(7)])[ORIGIN]
    assert isinstance(result, AnchorConflictError)
    assert result.code == "anchor_rewritten"
    with pytest.raises(AnchorConflictError):
        list(archive.held(LOG))


def test_a_repository_with_other_content_stays_as_it_is(repository: Path, tmp_path: Path) -> None:
    """Checkpoints stand beside what else a branch holds, and other files may change."""
    work = tmp_path / "work"
    git("init", "--quiet", "-b", "memoriale", str(work), folder=tmp_path)
    (work / "README").write_text("first")
    git("add", ".", folder=work)
    git("commit", "--quiet", "-m", "first", folder=work)
    git("push", "--quiet", str(repository), "memoriale", folder=work)
    archive = opened(f"git+{repository.as_uri()}", tmp_path / "memory")
    assert archive.put([CHECKPOINT]) == {ORIGIN: None}
    names = git("ls-tree", "-r", "--name-only", "memoriale", folder=repository).split()
    assert names == ["README", path_of(CHECKPOINT)]


def test_hooks_and_variables_of_the_caller_do_not_matter(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a git hook, whose variables name another repository, the anchor works the same."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other.index"))
    archive = opened(f"git+{repository.as_uri()}", tmp_path / "memory")
    assert archive.put([CHECKPOINT]) == {ORIGIN: None}
    assert [held.note for held in archive.held(LOG)] == [CHECKPOINT.note]

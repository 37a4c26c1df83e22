"""The setting of anchors: what it may hold, and what is said about anything else."""

from pathlib import Path

import pytest

from memoriale.adapters.anchors.places import parse_places, split_setting
from memoriale.adapters.notes.verifier_keys import Algorithm, VerifierKey
from memoriale.adapters.settings import load_settings
from memoriale.domain.errors import InputError

WITNESS = str(VerifierKey("witness.example/w1", bytes(range(32)), Algorithm.COSIGNATURE))
OTHER = str(VerifierKey("witness.example/w2", bytes(32), Algorithm.COSIGNATURE))
LOG_KEY = str(VerifierKey("log.example", bytes(32), Algorithm.ED25519))


@pytest.mark.parametrize(
    ("entry", "kind", "address", "fragment"),
    [
        ("/srv/anchor", "folder", "/srv/anchor", ""),
        ("file:///srv/my%20anchor", "folder", "/srv/my anchor", ""),
        ("s3://bucket/a/b/", "objects", "s3://bucket/a/b", ""),
        ("gs://bucket", "objects", "gs://bucket", ""),
        ("az://container/a", "objects", "az://container/a", ""),
        ("git+file:///srv/a.git", "git", "file:///srv/a.git", "memoriale"),
        ("git+ssh://git@host:22/a.git#proofs", "git", "ssh://git@host:22/a.git", "proofs"),
        (f"witness+https://w.example/p/#{WITNESS}", "witness", "https://w.example/p", WITNESS),
        (
            "rfc3161+https://tsa.example/tsr#/etc/tsa.pem",
            "timestamps",
            "https://tsa.example/tsr",
            "/etc/tsa.pem",
        ),
    ],
)
def test_places(entry: str, kind: str, address: str, fragment: str) -> None:
    """Each kind of place is told by its scheme; what stands after # belongs to the kind."""
    (place,) = parse_places([entry]).places
    assert (place.kind, place.address, place.fragment, place.shown) == (
        kind,
        address,
        fragment,
        entry,
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("relative/folder", "no absolute path"),
        ("ftp://host/path", "no kind of anchor"),
        ("file://host/path", "file:///path"),
        ("s3://", "s3://bucket/path"),
        ("s3://bucket/a?region=b", "query"),
        ("https://host/path", "no kind of anchor"),
        ("witness+https://w.example", "name+hash+key"),
        ("witness+https://w.example#w+00000000+AAAA", "verifier key"),
        (f"witness+https://w.example#{LOG_KEY}", "not one that cosigns"),
        (f"witness+https://#{WITNESS}", "names no host"),
        ("git+ssh:///path", "names no host"),
        ("git+ssh://-oProxyCommand=x/path", "names no host"),
        ("git+file:///a.git#-f", "#branch"),
        ("git+file:///a.git#a..b", "#branch"),
        ("rfc3161+https://tsa.example/tsr", "certificates"),
        ("rfc3161+https://tsa.example/tsr#relative.pem", "certificates"),
        ("git+ssh://host:port/a.git", "no address"),
        ("quorum=0", "0 witnesses"),
        ("quorum=1", "0 witnesses"),
        ("quorum=x", "no option"),
    ],
)
def test_wrong_places(entry: str, said: str) -> None:
    """A wrong entry names the setting, the entry, and what is allowed."""
    with pytest.raises(InputError) as caught:
        parse_places([entry])
    error = caught.value
    assert (error.code, error.field, error.value) == ("bad_setting", "MEMORIALE_ANCHORS", entry)
    assert said in error.message
    assert "witness+https://host/path#verifier-key" in error.allowed


def test_a_password_is_refused_and_not_repeated() -> None:
    """Credentials have no place in the setting, and the error does not show them."""
    for entry in ("s3://id:geheim@bucket/p", "git+https://u:geheim@host/a.git", "x://u:geheim@h"):
        with pytest.raises(InputError, match="password") as caught:
            parse_places([entry])
        assert "geheim" not in str(caught.value.as_dict())


def test_quorum() -> None:
    """Without an option every witness must have cosigned; with one, as many as it says."""
    witnesses = [f"witness+https://w.example#{key}" for key in (WITNESS, OTHER)]
    assert parse_places(witnesses).quorum == 2
    assert parse_places([*witnesses, "quorum=1"]).quorum == 1
    assert parse_places(["/srv/a"]).quorum == 0
    for wrong in ("quorum=3", "quorum=0"):
        with pytest.raises(InputError, match="2 witnesses"):
            parse_places([*witnesses, wrong])
    with pytest.raises(InputError, match="twice"):
        parse_places([*witnesses, "quorum=1", "quorum=2"])


def test_one_key_is_one_witness() -> None:
    """A witness named twice, even at another address, would count twice: it is refused."""
    with pytest.raises(InputError, match="named twice"):
        parse_places([f"witness+https://{host}#{WITNESS}" for host in ("a.example", "b.example")])
    with pytest.raises(InputError, match="named twice"):
        parse_places(["/srv/a", "file:///srv/a"])


def test_the_environment_is_parted_by_commas_and_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The variable is one text with several entries; an argument or the file is a list."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORIALE_ANCHORS", " /srv/a, s3://bucket/b\n  every=60 ")
    settings = load_settings()
    assert settings.anchors == ("/srv/a", "s3://bucket/b", "every=60")
    assert settings.anchor_places.every == 60
    monkeypatch.delenv("MEMORIALE_ANCHORS")
    assert load_settings().anchors == ()
    (tmp_path / "memoriale.toml").write_text('anchors = ["/srv/with space", "/srv/c"]\n')
    assert load_settings().anchors == ("/srv/with space", "/srv/c")


def test_a_wrong_setting_fails_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong entry in the environment is an error before anything opens."""
    monkeypatch.setenv("MEMORIALE_ANCHORS", "nonsense")
    with pytest.raises(InputError) as caught:
        load_settings()
    assert (caught.value.field, caught.value.value) == ("MEMORIALE_ANCHORS", "nonsense")


def test_split() -> None:
    """Empty entries do not count."""
    assert split_setting(",, a ,b\t\nc,") == ["a", "b", "c"]
    assert split_setting("") == []

"""
Checks a bundle of a memoriale ledger. This one file needs Python and ``cryptography``, no more.

    python memoriale_verify.py BUNDLE [--verifier VKEY] [--checkpoint FILE] [--json]

Every byte of the archive is accounted for, and each file has the hash of the manifest. For each
log: its checkpoints are signed; entries give the leaf hashes, these the stored tiles and the root
of every checkpoint; events follow each other without a hole, appends are whole, times rise; sealed
states have the hashes that entries name; the deployment log names the log, its size and its root.
Formats: RFC 6962, C2SP tlog-tiles, signed-note, tlog-checkpoint and tlog-proof.
"""

import argparse
import base64
import hashlib
import json
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

OK, VIOLATION, USAGE, INCOMPLETE = 0, 1, 2, 6
FORMAT, TAG = "memoriale-bundle/1", b"memoriale/leaf/1"
# How many fields follow the tag in the data of a leaf, and where those stand that are checked.
FIELDS, PLACES = 43, {"tenant": 1, "log_id": 2, "index": 3, "append_first": 5, "append_last": 6}
PLACES |= {"topic": 13, "recorded_at": 15, "header": 41, "state_hash": 42}
WIDTH, HASH, NULL, SHOWN = 256, 32, 0xFFFFFFFF, 100
Event = dict[str, bytes | None]
# What comes of an archive, or of JSON, whose bytes are not what they were.
DAMAGED = (zipfile.BadZipFile, struct.error, EOFError, OSError, RuntimeError)
UNREADABLE = (*DAMAGED, KeyError, TypeError, ValueError, AttributeError)


class Violation(Exception):
    """Something does not hold, at event ``index`` where one can be named."""

    def __init__(self, code: str, detail: str, index: int | None = None) -> None:
        self.log: str | None = None
        self.code, self.detail, self.index = code, detail, index


class Usage(Exception):
    """What was given cannot be used."""


def decoded(text: str) -> bytes:
    """Standard base64 in its one spelling; nothing for anything else."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return data if base64.b64encode(data).decode() == text else b""


def key_id(name: str, key: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n\1" + key).digest()[:4]


def parse_key(text: str) -> bytes:
    """The Ed25519 key of a verifier key. It signs the checkpoints of each log under its origin."""
    name, digest, data = [*text.split("+", 2), "", ""][:3]
    key = decoded(data)[1:]
    if decoded(data)[:1] != b"\1" or len(key) != 32 or key_id(name, key).hex() != digest:
        raise Usage(f"{text[:80]!r} is no verifier key of the form name+hash+key")
    return key


class Checkpoint:
    """A checkpoint from its note; ``is_known`` when a key that is believed signed it."""

    def __init__(self, note: bytes, keys: list[bytes]) -> None:
        text, _, below = note.decode(errors="replace").rpartition("\n\n")
        origin, size, root, *more = [*text.split("\n"), "", ""]
        self.origin, self.root, self.is_known = origin, decoded(root), False
        is_number = size.isascii() and size.isdigit() and str(int(size)) == size
        if not is_number or len(self.root) != HASH or "" in more[:-2] or below[-1:] != "\n":
            raise Violation("malformed", "a checkpoint is not three lines and signatures")
        self.size = int(size)
        for line in below[:-1].split("\n"):
            mark, name, data = [*line.split(" "), "", ""][:3]
            blob = decoded(data)
            if f"{mark} {name} {data}" != line or mark != "—" or not name or len(blob) < 5:
                raise Violation("malformed", f"{line[:80]!r} is no signature")
            for key in [key for key in keys if (name, key_id(name, key)) == (origin, blob[:4])]:
                self.require_signature(f"{text}\n".encode(), blob[4:], key)

    def require_signature(self, text: bytes, signature: bytes, key: bytes) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
        except (InvalidSignature, ValueError):
            raise Violation("bad_signature", f"a known key did not sign {self.origin}") from None
        self.is_known = True

    def require(self, origin: str) -> "Checkpoint":
        """Returns itself if it is of that log, and signed by a key that is believed."""
        if self.origin != origin:
            raise Violation("foreign_origin", f"it is of {self.origin[:80]!r}, not of {origin}")
        if not self.is_known:
            raise Violation("unknown_key", f"no known key signed the checkpoint of {origin}")
        return self


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """A Merkle tree that grows leaf by leaf; ``rows`` are its last tiles, lowest first."""

    def __init__(self) -> None:
        self.size, self.stack, self.rows = 0, list[bytes](), [bytearray()]

    def append(self, leaf: bytes) -> None:
        self.rows[0] += leaf
        height = 0
        while self.size >> height & 1:
            leaf, height = node(self.stack.pop(), leaf), height + 1
            if height % 8 == 0:
                self.rows += [bytearray()] * (len(self.rows) == height // 8)
                self.rows[height // 8] += leaf
        self.stack.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        root = self.stack[-1] if self.stack else hashlib.sha256().digest()
        for left in self.stack[-2::-1]:
            root = node(left, root)
        return root


def is_included(leaf: bytes, index: int, path: list[bytes], tree: Checkpoint) -> bool:
    place, last = index, tree.size - 1
    for sibling in path:
        if last == 0 or len(sibling) != HASH:
            return False
        right = place & 1 or place == last
        leaf = node(sibling, leaf) if right else node(leaf, sibling)
        while right and not place & 1 and place:
            place, last = place >> 1, last >> 1
        place, last = place >> 1, last >> 1
    return 0 <= index < tree.size and last == 0 and leaf == tree.root


class Bundle:
    """The files of a bundle, each read with its hash checked."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file)
        if any(info.compress_type for info in self._zip.infolist()):
            raise Usage("a file in it is packed; in a bundle none is")
        # It ends with the hash of all before: so no byte is changed unnoticed.
        end, digest = file.seek(-len(self._zip.comment), 2), hashlib.sha256()
        for at in range(0, end, 2**20):
            file.seek(at)
            digest.update(file.read(min(end - at, 2**20)))
        self.is_whole = digest.hexdigest().encode() == self._zip.comment
        self.manifest = json.loads(self._zip.read("manifest.json"))
        self.hashes: dict[str, str] = self.manifest["files"]
        self.unread = {*self.hashes, *self._zip.namelist()} - {"manifest.json"}

    def read(self, name: str, index: int | None = None) -> bytes:
        self.unread.discard(name)
        try:
            data = self._zip.read(name)
        except UNREADABLE as error:
            raise Violation("damaged_file", f"{name}: {error}", index) from None
        if hashlib.sha256(data).hexdigest() != self.hashes.get(name):
            raise Violation("file_changed", f"{name} has another hash in the manifest", index)
        return data


def tile_path(level: int | str, index: int, width: int) -> str:
    digits = f"{index:0{-len(str(index)) // 3 * -3}}"
    groups = [f"x{digits[at : at + 3]}" for at in range(0, len(digits), 3)]
    partial = f".p/{width}" if width < WIDTH else ""
    return f"tile/{level}/" + "/".join([*groups[:-1], groups[-1][1:]]) + partial


def number(data: bytes | None) -> int:
    return int.from_bytes(data or b"", "big", signed=True)


def fields(leaf: bytes) -> Event:
    """What is checked of an event, from the data of its leaf: fields with their lengths."""
    values, at = list[bytes | None](), 0
    while at < len(leaf):
        size, at = int.from_bytes(leaf[at : at + 4], "big"), at + 4
        values.append(None if size == NULL else leaf[at : at + size])
        at += size if size != NULL else 0
    if at != len(leaf) or values[:1] != [TAG] or len(values) != FIELDS + 1:
        raise Violation("bad_entry", "it is no event of this format")
    return {name: values[place] for name, place in PLACES.items()}


class Log:
    """One log of the bundle, ``about`` as the manifest describes it."""

    def __init__(self, bundle: Bundle, about: dict[str, Any], keys: list[bytes]) -> None:
        self.bundle, self.keys, self.about, self.unknown = bundle, keys, about, 0
        self.folder = f"{about['log_id']}/{about['incarnation']}/"
        self.origin = f"memoriale/{self.folder[:-1]}"
        self.problems, self.tree, self.append = list[Violation](), Tree(), (0, -1, -(2**63))
        self.roots: dict[int, dict[bytes, str]] = {}
        self.last = Checkpoint(self.file("checkpoint"), keys).require(self.origin)
        self.expect(self.last, "the last checkpoint")

    def file(self, name: str, index: int | None = None) -> bytes:
        return self.bundle.read(self.folder + name, index)

    def add(self, found: Violation) -> None:
        found.log = self.origin
        self.problems += [found] * (len(self.problems) < SHOWN)

    def expect(self, checkpoint: Checkpoint, what: str) -> None:
        """So many events have to give this root."""
        if checkpoint.size > self.last.size:
            detail = f"{what} covers {checkpoint.size} events"
            self.add(Violation("missing", detail, self.last.size))
        self.roots.setdefault(checkpoint.size, {}).setdefault(checkpoint.root, what)

    def verify(self, deployment: str) -> None:
        """Checks everything; what cannot be read ends its part."""
        for check in (self.check_history, self.check_deployment, self.check_events):
            try:
                check(deployment)
            except Violation as found:
                self.add(found)
            except UNREADABLE as error:
                self.add(Violation("malformed", f"{type(error).__name__}: {error}"))

    def check_history(self, _: str) -> None:
        folder = f"{self.folder}checkpoints/"
        for name in [name for name in self.bundle.hashes if name.startswith(folder)]:
            earlier = Checkpoint(self.bundle.read(name), self.keys)
            if (earlier.origin, f"{folder}{earlier.size}") != (self.origin, name):
                raise Violation("foreign_origin", f"{name} is another checkpoint")
            # Its key need not be known any more: the last checkpoint covers the same events.
            self.unknown += not earlier.is_known
            self.expect(earlier, name)

    def check_deployment(self, origin: str) -> None:
        """The deployment log says, in an entry proved to be in it, how far this log goes."""
        head, _, note = self.file("deployment.tlog-proof").partition(b"\n\n")
        tree = Checkpoint(note, self.keys).require(origin)
        lines = [*head.decode("ascii").split("\n"), "", ""]
        entry, path = decoded(lines[1][6:]), [decoded(line) for line in lines[3:-2]]
        event, leaf = fields(entry), hashlib.sha256(b"\0" + entry).digest()
        index, header = number(event["index"]), json.loads(event["header"] or b"null")
        form = ["c2sp.org/tlog-proof@v1", f"extra {lines[1][6:]}", f"index {index}"]
        if lines[:3] != form or not is_included(leaf, index, path, tree):
            raise Violation("not_included", "the deployment log's entry is not proved")
        said = [header[name] for name in ("tenant", "log_kind", "log_id", "incarnation", "size")]
        own = [self.about[name] for name in ("tenant", "kind", "log_id", "incarnation")]
        if said != [*own, self.last.size] or event["topic"] != b"checkpoint.published":
            raise Violation("foreign_origin", "the deployment log's entry is of another checkpoint")
        if bytes.fromhex(header["root"]) != self.last.root:
            raise Violation("root_differs", "the deployment log has another root")

    def check_events(self, _: str) -> None:
        self.compare()
        states = self.states() if self.about["states"] else None
        for index, entry in enumerate(self.entries()):
            state = next(states, b"") if states else None
            try:
                self.check_event(index, fields(entry), state)
            except Violation as found:
                self.add(Violation(found.code, found.detail, index))
            self.tree.append(hashlib.sha256(b"\0" + entry).digest())
            self.compare()
        if states and next(states, None) is not None:
            self.add(Violation("extra_state", "there are more bodies than events"))
        if self.append[1] >= self.tree.size:
            self.add(Violation("bad_append", "its append goes on", self.tree.size - 1))

    def check_event(self, index: int, event: Event, state: bytes | None) -> None:
        place = [event["log_id"], event["tenant"], number(event["index"])]
        log_id, tenant = self.about["log_id"].replace("-", ""), self.about["tenant"]
        if place != [bytes.fromhex(log_id), tenant.encode(), index]:
            raise Violation("out_of_place", "it says that it is of another log or place")
        first, end = number(event["append_first"]), number(event["append_last"])
        before, self.append = self.append, (first, end, number(event["recorded_at"]))
        if self.append != before if index <= before[1] else not first == index <= end:
            raise Violation("bad_append", f"it claims the append {first} to {end}")
        if index > before[1] and self.append[2] <= before[2]:
            raise Violation("bad_time", "it was not recorded later than the append before it")
        if state is not None and hashlib.sha256(state).digest() != event["state_hash"]:
            raise Violation("state_changed", "its body is missing or has another hash")

    def entries(self) -> Iterator[bytes]:
        for first in range(0, self.last.size, WIDTH):
            width = min(WIDTH, self.last.size - first)
            data, at = self.file(tile_path("entries", first // WIDTH, width), first), 0
            for index in range(first, first + width):
                stop = at + 2 + int.from_bytes(data[at : at + 2], "big")
                if stop > len(data) or (index == first + width - 1 and stop < len(data)):
                    raise Violation("bad_entry", "the entries end elsewhere", index)
                yield data[at + 2 : stop]
                at = stop

    def states(self) -> Iterator[bytes]:
        count = 0
        while self.folder + (name := f"states/{count:015}") in self.bundle.hashes:
            data, at = self.file(name, count), 0
            while at < len(data) or not data:
                stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
                if stop > len(data):
                    raise Violation("state_changed", f"{name} ends elsewhere", count)
                yield data[at + 4 : stop]
                at, count = stop, count + 1

    def compare(self) -> None:
        """Compares the tiles that are complete now, and the roots of this size."""
        size = self.tree.size
        for level, row in enumerate(self.tree.rows):
            if len(row) == WIDTH * HASH or (row and size == self.last.size):
                tile, width = ((size >> 8 * level) - 1) // WIDTH, len(row) // HASH
                stored = self.file(tile_path(level, tile, width), size - 1)
                if stored != row:
                    places = range(width)
                    at = [stored[p * HASH :][:HASH] != row[p * HASH :][:HASH] for p in places]
                    index = (tile * WIDTH + [*at, True].index(True)) << 8 * level
                    self.add(Violation("leaf_changed", f"not as in a tile of {level}", index))
                row.clear()
        for root, what in self.roots.get(size, {}).items():
            if root != self.tree.root():
                self.add(Violation("root_differs", f"not the root of {size} events in {what}"))

    def summary(self) -> dict[str, Any]:
        facts = {"log": self.origin, "leaves": self.tree.size, "sealed": self.last.size}
        facts |= {"root": self.last.root.hex(), "checkpoints": len(self.roots)}
        facts |= {"tenant": self.about["tenant"], "kind": self.about["kind"]}
        return facts | {"ok": not self.problems, "first_bad_index": first_index(self.problems)}


def first_index(problems: list[Violation]) -> int | None:
    return min((one.index for one in problems if one.index is not None), default=None)


def verify(path: str, verifiers: list[str], checkpoints: list[str]) -> dict[str, Any]:
    """The report on a bundle. Without verifier keys those that the bundle holds are believed."""
    logs, problems, keys = list[Log](), list[Violation](), [parse_key(text) for text in verifiers]
    outside = {name: Path(name).read_bytes() for name in checkpoints}
    try:
        with open(path, "rb") as file:
            bundle = Bundle(file)
            if bundle.manifest["format"] != FORMAT or not bundle.manifest["logs"]:
                raise Usage(f"{path} is not a bundle of the format {FORMAT}, or has no log")
            if not bundle.is_whole:
                problems.append(Violation("archive_changed", "the archive has another hash"))
            own = bundle.read("verifiers").decode("ascii", "replace").split()
            keys = keys or [parse_key(text) for text in own]
            logs = [Log(bundle, about, keys) for about in bundle.manifest["logs"]]
            by_origin = {log.origin: log for log in logs}
            for name, note in outside.items():
                given = Checkpoint(note, keys)
                if given.origin not in by_origin:
                    raise Violation("foreign_origin", f"{name} is of no log of the bundle")
                by_origin[given.origin].expect(given.require(given.origin), name)
            bundle.read("README.txt")
            for log in logs:
                log.verify(bundle.manifest["deployment"])
            if bundle.unread:
                raise Violation("unknown_file", f"{min(bundle.unread)} belongs to nothing")
    except Violation as found:
        problems.append(found)
    problems += [found for log in logs for found in log.problems]
    missing = [f"{log.origin}: sealed states" for log in logs if not log.about["states"]]
    missing += [f"{log.origin}: {log.unknown} keys" for log in logs if log.unknown]
    code = VIOLATION if problems else INCOMPLETE if missing else OK
    keys_of = "given" if verifiers else "from the bundle itself"
    facts = {"bundle": path, "ok": not problems, "exit_code": code, "keys": keys_of}
    facts |= {"logs": [log.summary() for log in logs], "not_checked": missing}
    facts |= {"first_bad_index": first_index(problems)}
    return facts | {"problems": [vars(found) for found in problems]}


def main() -> None:
    """The command ``memoriale-verify``."""
    text = "Exit code 0: it holds; 1: it does not; 2: unusable; 6: it holds as far as it goes."
    parser = argparse.ArgumentParser("memoriale-verify", description=__doc__, epilog=text)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("bundle")
    parser.add_argument("--verifier", action="append", default=[], metavar="VKEY")
    parser.add_argument("--checkpoint", action="append", default=[], metavar="FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        found = verify(given.bundle, given.verifier, given.checkpoint)
    except (Usage, *UNREADABLE) as error:
        print(f"memoriale-verify: {error}", file=sys.stderr)
        sys.exit(USAGE)
    line = "{kind} log of {tenant}: {leaves} of {sealed} events, {checkpoints} checkpoints, {root}"
    lines = [line.format(**log) for log in found["logs"]]
    lines += [
        "BAD {log} index {index}: {code}, {detail}".format(**one) for one in found["problems"]
    ]
    lines += [f"not checked: {one}" for one in found["not_checked"]]
    lines += [f"keys: {found['keys']}", "it holds" if found["ok"] else "IT DOES NOT HOLD"]
    print(json.dumps(found) if given.json else "\n".join(lines))
    sys.exit(found["exit_code"])


if __name__ == "__main__":
    main()

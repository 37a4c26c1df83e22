"""The child process that reads pieces of a log and says which of them are in order."""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.adapters.postgres.raw_rows import raw_rows
from memoriale.projections.proofs.unbroken import Piece, read_piece

_UNUSED: Final = datetime(2000, 1, 1, tzinfo=UTC)


def main() -> None:
    """
    Reads requests from standard input, one JSON object a line, the first of them naming the
    log, and answers each of the others with a line; ends with the input.
    """
    first = json.loads(sys.stdin.readline())
    log = Log(first["tenant"], first["kind"], UUID(first["log_id"]), 1, _UNUSED)
    with Datastore(first["url"]) as datastore:
        for line in sys.stdin:
            request = json.loads(line)
            rows = raw_rows(datastore, log, request["start"], request["stop"])
            piece = read_piece(
                rows, request["start"], request["sizes"], tenant=log.tenant, log_id=log.log_id
            )
            sys.stdout.write(json.dumps(None if piece is None else as_json(piece)) + "\n")
            sys.stdout.flush()


def as_json(piece: Piece) -> dict[str, Any]:
    """A piece as JSON values; bytes are hexadecimal text."""
    return {
        **asdict(piece),
        "enters": [*piece.enters[:2], piece.enters[2].hex()],
        "leaves": [*piece.leaves[:2], piece.leaves[2].hex()],
        "subtrees": [node.hex() for node in piece.subtrees],
        "within": {str(size): [n.hex() for n in nodes] for size, nodes in piece.within.items()},
    }


def parse(text: str) -> Piece | None:
    """A piece from an answer. Raises ``ValueError`` when it is none."""
    found = json.loads(text)
    if found is None:
        return None
    ends = {
        name: (found[name][0], found[name][1], bytes.fromhex(found[name][2]))
        for name in ("enters", "leaves")
    }
    return Piece(
        start=found["start"],
        size=found["size"],
        subtrees=[bytes.fromhex(node) for node in found["subtrees"]],
        within={int(s): [bytes.fromhex(n) for n in ns] for s, ns in found["within"].items()},
        **ends,
    )


if __name__ == "__main__":
    main()

"""The table ``versions``: its columns, and how its text is split into words."""

from typing import Any, Final

TABLE: Final = "versions"
SENTINEL_KEY: Final = -1
"""Key of the row that carries the view's position in ``seq``."""
LACKING: Final = "lacking"
"""``status`` of that row while rows wait for vectors that the embedder could not make."""
OPEN: Final = 2**63 - 1
"""``recorded_until`` of a version that no later event has closed."""

_INTEGERS: Final = (
    "seq",
    "continues",
    "recorded_from",
    "recorded_until",
    "first_index",
    "importance",
    "confidence",
)
_TIMES: Final = ("recorded_at", "created_at", "valid_from", "valid_until", "expires_at")
_TEXTS: Final = (
    "memory_id",
    "branch",
    "status",
    "kind",
    "owner",
    "owner_type",
    "visibility",
    "principal_user",
    "principal_agent",
    "principal_team",
    "principal_session",
    "namespace",
    "source_tier",
    "text",
    "search_text",
    "speaker",
    "role",
    "caption",
    "source",
    "metadata",
    "model",
)
VECTOR: Final = "vector"
COLUMNS: Final = ("key", *_INTEGERS, *_TEXTS, *_TIMES, "tags")
"""Every column but the vectors."""
PASSAGES: Final = "passage_vectors"
"""
The vectors of a long text's passages, one after the other; null for a text of one passage, whose
vector is the row's.
"""

_STOP_TEXT: Final = """
    a about above after again against all also am an and any are as at be because been before
    being below between both but by can could did do does doing down during each few for from
    further had has have having he her here hers herself him himself his how i if in into is it
    its itself just many me might more most much my myself no nor not now of off on once only or
    other our ours ourselves out over own same she should so some such than that the their theirs
    them themselves then there these they this those through to too under until up very was we
    were what when where which while who whom why will with would you your yours yourself
    yourselves
"""
STOP_WORDS: Final = tuple(_STOP_TEXT.split())
"""
English words that say too little to search by. "May", "war" and "man" are none of them, as they
are in lists of many languages at once.
"""


def arrow_schema(width: int) -> Any:
    """
    The Arrow schema of the table.

    Args:
        width: Components of a vector.
    """
    import pyarrow as pa

    moment = pa.timestamp("us", "UTC")
    return pa.schema(
        [
            pa.field("key", pa.int64(), nullable=False),
            *(pa.field(name, pa.int64()) for name in _INTEGERS),
            *(pa.field(name, pa.utf8()) for name in _TEXTS),
            *(pa.field(name, moment) for name in _TIMES),
            pa.field("tags", pa.list_(pa.utf8())),
            pa.field(VECTOR, pa.list_(pa.float32(), width)),
            pa.field(PASSAGES, pa.list_(pa.float32())),
        ]
    )


def index_name(column: str) -> str:
    """The name of a column's index."""
    return f"{column}_idx"


KEY_INDEX: Final = index_name("key")
WORDS: Final = "search_text"
WORDS_INDEX: Final = index_name(WORDS)


def index_configs() -> dict[str, Any]:
    """The indexes by column that every table has: what filters look up."""
    from lancedb.index import Bitmap, BTree

    return {
        "key": BTree(),
        "memory_id": BTree(),
        "branch": Bitmap(),
        "owner": Bitmap(),
        "visibility": Bitmap(),
    }


def words_config() -> Any:
    """
    The index of words, which only a table has that was searched by it: shelves answer without
    it, and it takes a third of the memory and time of ``optimize``.
    """
    from lancedb.index import FTS

    # The column holds words as ``words`` split them, so both ways of searching see the same.
    return FTS(
        base_tokenizer="whitespace",
        lower_case=False,
        stem=False,
        ascii_folding=False,
        remove_stop_words=False,
    )

"""Whether the tiles on this machine are those whose root was signed."""

from memoriale.adapters.sealing.log_tree import LogTree
from memoriale.domain.errors import CorruptViewError
from memoriale.projections.proofs.merkle import HASH_BYTES, root_of
from memoriale.projections.proofs.tiles import TILE_WIDTH, folded, tiles_of


def require_whole_tiles(tree: LogTree) -> None:
    """
    Refuses tiles that are not those that were signed here; asked before a proof made from them
    is taken for a sign that the log was changed.

    Args:
        tree: Whose tiles.

    Raises:
        CorruptViewError: ``bad_tile``.
    """
    last = tree.last()
    if last is None:
        return
    size, root = last.checkpoint.size, last.checkpoint.root
    if root_of(tree.reader(size).leaf_hashes()) != root or not _agree(tree, size):
        raise CorruptViewError(
            f"The tiles of {tree.origin} are not those that were signed: they are damaged, or "
            "somebody changed them. Build them again with 'memoriale replay --view proofs'.",
            code="bad_tile",
            value=tree.origin,
        )


def _agree(tree: LogTree, size: int) -> bool:
    """Whether the tiles of each level give those of the next."""
    reader = tree.reader(size)
    return all(
        folded(reader.tile(tile.level - 1, tile.index * TILE_WIDTH + number))
        == reader.tile(tile.level, tile.index)[number * HASH_BYTES : (number + 1) * HASH_BYTES]
        for tile in tiles_of(size)
        if tile.level
        for number in range(tile.width)
    )

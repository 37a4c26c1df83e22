"""The tree of branches as an SVG drawing."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID
from xml.sax.saxutils import escape

from memoriale.adapters.application.comparing import BranchNode

ROW: Final = 28
"""Height of a branch's row."""
STEP: Final = 24
"""Indentation of a branch under the one that it left."""
MARGIN: Final = 16
LONGEST_NAME: Final = 60
"""Characters of a name that are drawn; the whole name is in the title."""

_CHARACTER: Final = 8
_RADIUS: Final = 5
_STYLE: Final = (
    "text{font:13px ui-monospace,monospace;fill:#222}.d{fill:#666}"
    "path{fill:none;stroke:#888;stroke-width:1.5}circle{fill:#2463b4}"
)


def svg(nodes: Sequence[BranchNode]) -> str:
    """
    A drawing of branches: each in a row of its own, indented under the branch that it left,
    with the index and time of the fork and the number of its events. Equal trees give equal
    drawings.

    Args:
        nodes: From ``Memory.tree``.

    Returns:
        An SVG document. Names are escaped, and what XML cannot hold is replaced.
    """
    rows = {node.id: row for row, node in enumerate(nodes)}
    lines = [_connection(node, nodes, rows) for node in nodes if node.parent is not None]
    drawn = [_branch(node, rows[node.id]) for node in nodes]
    size = _size(nodes)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
            f'viewBox="0 0 {size[0]} {size[1]}" role="img">',
            "<title>Branches</title>",
            f"<style>{_STYLE}</style>",
            *lines,
            *drawn,
            "</svg>",
            "",
        ]
    )


def _size(nodes: Sequence[BranchNode]) -> tuple[int, int]:
    widths = [
        _x(node) + 2 * MARGIN + _CHARACTER * (len(_short(node.branch)) + len(_details(node)) + 2)
        for node in nodes
    ]
    return max(widths, default=0), 2 * MARGIN + ROW * len(nodes)


def _connection(node: BranchNode, nodes: Sequence[BranchNode], rows: dict[UUID, int]) -> str:
    assert node.parent_id is not None
    parent = rows[node.parent_id]
    x, y = _x(nodes[parent]), _y(rows[node.id])
    return f'<path d="M{x} {_y(parent) + _RADIUS}V{y}H{_x(node) - _RADIUS}"/>'


def _branch(node: BranchNode, row: int) -> str:
    x, y = _x(node), _y(row)
    details = f'<tspan class="d" dx="{_CHARACTER}">{_text(_details(node))}</tspan>'
    return (
        f"<g><title>{_text(node.branch)}</title>"
        f'<circle cx="{x}" cy="{y}" r="{_RADIUS}"/>'
        f'<text x="{x + 12}" y="{y + 4}" xml:space="preserve">{_text(_short(node.branch))}'
        f"{details}</text></g>"
    )


def _details(node: BranchNode) -> str:
    events = "1 event" if node.events == 1 else f"{node.events} events"
    if node.recorded_at is None:
        return events
    time = node.recorded_at.isoformat(sep=" ", timespec="seconds")
    return f"from index {node.at}, {time}, {events}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _x(node: BranchNode) -> int:
    return MARGIN + STEP * node.depth


def _y(row: int) -> int:
    return MARGIN + ROW * row + ROW // 2


def _text(value: str) -> str:
    return escape("".join(c if _allowed(c) else "\N{REPLACEMENT CHARACTER}" for c in value))


def _allowed(character: str) -> bool:
    # Of what XML 1.0 allows, without what breaks lines or turns the reading direction.
    code = ord(character)
    if 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069:
        return False
    return 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF

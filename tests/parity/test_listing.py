"""Names are read from declarations, also where the reference documents are not at hand."""

from pathlib import Path

import pytest

from tests.parity.listing import main, read_b, read_c
from tests.parity.typescript import Names, read_declarations

DECLARED = """
export declare class Shelf {
    readonly owner: Owner;
    constructor(storage: Driver, config?: {
        /** At most so many. Default: 7 */
        size?: number;
        onPlaced?: (book: Book) => void;
    });
    /**
     * @param how which order (default 20).
     */
    place(books: Array<{ title: string; }>, how?: number): Promise<{ ok: true; } | { no: string; }>;
    change(book: Omit<Book, "id" | "tags"> & { tags?: string[]; }): Promise<void>;
}
export interface Book {
    kind: "novel" | "atlas"; // not a name
    /** ON by default. */
    shown?: boolean;
}
export type Order = "up" | "down";
export declare function sort(opts: { by?: Order; }, deep: boolean): string[];
"""


def test_declarations() -> None:
    """Members, options of objects, results, choices and defaults are told apart."""
    names = Names()
    read_declarations(DECLARED, names)
    assert names.settle().kinds == {
        "Shelf": "class",
        "Shelf.owner": "field",
        "Shelf.constructor": "constructor",
        "Shelf.constructor.storage": "parameter",
        "Shelf.constructor.size": "option",
        "Shelf.constructor.onPlaced": "option",
        "Shelf.place": "method",
        "Shelf.place.books": "parameter",
        "Shelf.place.books.title": "option",
        "Shelf.place.how": "parameter",
        "Shelf.place.ok": "result",
        "Shelf.place.no": "result",
        "Shelf.change": "method",
        "Shelf.change.book": "parameter",
        "Shelf.change.book.tags": "option",
        "Book": "model",
        "Book.kind": "field",
        "Book.kind.novel": "value",
        "Book.kind.atlas": "value",
        "Book.shown": "field",
        "Order": "type",
        "Order.up": "value",
        "Order.down": "value",
        "sort": "function",
        "sort.by": "option",
        "sort.deep": "parameter",
        "Owner": "type",
        "Driver": "type",
    }
    assert names.defaults == {
        "Shelf.constructor.size": "7",
        "Shelf.place.how": "20",
        "Book.shown": "ON",
    }


def test_a_plain_page() -> None:
    """A signature, a table of options and lists of what is returned."""
    names = read_b(
        "function shelf(opts: ShelfOptions): Shelf\n"
        "Option\tType\tDescription\n"
        "size\tnumber\tHow many. Default 4.\n"
        "• add(book, opts?) => AddOperation\n"
        "• count: Store<number>\n"
        "const addOp = mem.add(book);\n"
        'addOp.status.get(); // "queued" | "done"\n'
    )
    assert names.defaults == {"ShelfOptions.size": "4"}
    assert {
        "shelf": "function",
        "ShelfOptions.size": "option",
        "Shelf.add.book": "parameter",
        "Shelf.count": "field",
        "AddOperation.status.queued": "value",
    }.items() <= names.kinds.items()


def test_a_page_of_tables() -> None:
    """Options, members, functions and errors by the heading that they stand under."""
    names = read_c(
        "## `new Shelf(options)`\n"
        "| `room` | `IRoom` | `walls`, `doors` (default 1). |\n"
        "| `add(book, { at? })` | `Promise<Placed>` | `{ place }` |\n"
        "## Functions\n"
        "| `sortShelf(shelf)` | Sorts |\n"
        "## Errors\n"
        "| `FullError` | Full |\n"
    )
    assert names.defaults == {"Shelf.constructor.room.doors": "1"}
    assert {
        "Shelf": "class",
        "Shelf.constructor.room.walls": "option",
        "Shelf.add.at": "option",
        "Shelf.add.place": "result",
        "sortShelf.shelf": "parameter",
        "FullError": "error",
        "Placed": "type",
    }.items() <= names.kinds.items()


def test_a_folder_without_the_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is listed and the reason is told."""
    assert main([]) == 2
    assert main([str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "usage" in told.err
    assert "[]" in told.err

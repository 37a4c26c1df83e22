"""How a receipt is printed."""

from typing import TYPE_CHECKING

from memoriale.adapters.command_line.output import Output, Page

if TYPE_CHECKING:
    from memoriale.domain.receipt import Receipt


def print_receipt(output: Output, receipt: "Receipt", done: str) -> None:
    """
    Prints what a write returned.

    Args:
        output: Where.
        receipt: What the write returned.
        done: What was done, in one word.
    """

    def show(page: Page) -> None:
        what = done if receipt.created else "stored before"
        time = page.time(receipt.recorded_at)
        page.line(f"{what} {receipt.memory_id} at index {receipt.index}, {time}")
        for replaced in receipt.superseded:
            page.line(f"replaced {replaced}")
        if receipt.proof is not None:
            page.line()
            page.line(receipt.proof)

    output.result(receipt.as_dict(), show)

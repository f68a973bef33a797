"""Where the tensors lie in memory, which parts of them instructions touch, and what they hold."""

from __future__ import annotations

from nki_lab.profiler.text_table import text_table
from nki_lab.views.layout.access import access_parts
from nki_lab.views.layout.model import TENSORS_SHOWN, first_tensor, tensor_layout, tensor_list
from nki_lab.views.layout.picture import layout_picture
from nki_lab.views.layout.values import values_parts
from nki_lab.views.registry import NUMBERS, Needs, View
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack

#: Tensors in HBM whose values a saved page holds.
VALUES_SAVED = 6


def layout_text(data: ViewData, limit: int | None) -> list[str]:
    """Return a table of the tensors and their places."""
    rows = []
    for tensor in data.tensors:
        partitions, span = "", f"{tensor.nbytes:,} in all"
        if tensor.on_chip and tensor.address is not None:
            first, start = tensor.address
            partitions = f"{first} to {first + tensor.rows - 1}"
            span = f"{start:,} to {start + tensor.row_bytes - 1:,}"
        shape = " x ".join(map(str, tensor.shape))
        rows.append((tensor.name, tensor.memory, shape, tensor.dtype, partitions, span))
    return text_table(("tensor", "memory", "shape", "dtype", "partitions", "bytes"), rows, limit)


def _tensors(data: ViewData) -> bytes:
    more = max(0, len(data.tensors) - TENSORS_SHOWN)
    return pack({"tensors": tensor_list(data), "first": first_tensor(data.tensors), "more": more})


def _at_end(data: ViewData, tensor: int) -> bytes:
    return values_parts(data, tensor, None, after=True)


def _after(data: ViewData, tensor: int, instruction: int) -> bytes:
    return values_parts(data, tensor, instruction, after=True)


def _before(data: ViewData, tensor: int, instruction: int) -> bytes:
    return values_parts(data, tensor, instruction, after=False)


def _first(data: ViewData) -> list[str]:
    return ["layout", f"layout/{first_tensor(data.tensors)}"] if data.tensors else ["layout"]


def _in_hbm(data: ViewData) -> list[str]:
    first = data.tensors[: NUMBERS["instruction"].saved]
    return [f"values/{n}" for n, tensor in enumerate(first) if not tensor.on_chip][:VALUES_SAVED]


VIEW = View(
    name="layout",
    title="Layout",
    needs=Needs.PROGRAM,
    text=layout_text,
    words="Places of the tensors in memory",
    parts={
        "layout": _tensors,
        "layout/{tensor}": tensor_layout,
        "access/{instruction}": access_parts,
        "values/{tensor}": _at_end,
        "values/{tensor}/{instruction}": _after,
        "values/{tensor}/{instruction}/before": _before,
    },
    first=(_first,),
    saved=("layout/{tensor}", "access/{instruction}", _in_hbm),
    live=("values/{tensor}/{instruction}", "values/{tensor}/{instruction}/before"),
    picture=layout_picture,
    if_small=True,
)

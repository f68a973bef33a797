"""Data of the array view: a product on the Tensor engine's multipliers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.views.array.products import Matmul, matmul_of, matmul_times, times_text
from nki_lab.views.entries import place_entry
from nki_lab.views.run import ShownAccess, ViewData
from nki_lab.widgets.packing import pack

#: Products listed to choose from.
PRODUCTS_SHOWN = 1_000


def array_list(data: ViewData) -> bytes:
    """Return the products of a run, packed: position, text, line."""
    positions = data.products[:PRODUCTS_SHOWN].tolist()
    target = data.profile.target
    meta = {
        "products": [
            {
                "position": position,
                "text": data.operations[position].text,
                "place": _heading(data, position),
            }
            for position in positions
        ],
        "more": max(0, len(data.products) - PRODUCTS_SHOWN),
        "rows": target.pe_rows,
        "columns": target.pe_columns,
    }
    return pack(meta)


def array_product(data: ViewData, position: int) -> bytes:
    """Return one product with its sizes, times, and the values of its operands where they are known, packed."""
    product = matmul_of(data, position)
    if product is None:
        return pack({"position": position, "problem": "this instruction multiplies nothing"})
    k, m, n = product.sizes
    target = data.profile.target
    meta: dict[str, Any] = {
        "position": position,
        "text": product.text,
        **place_entry(product.place),
        "sizes": [k, m, n],
        "adds": product.adds,
        "rows": target.pe_rows,
        "columns": target.pe_columns,
        "loads": target.load_stationary_columns_per_cycle,
        "operands": {
            name: {"text": access.text, "dtype": access.dtype, "shape": list(access.shape)}
            for name, access in _operands(product).items()
        },
        "times": times_text(matmul_times(data, position)),
        "ghz": target.tensor_ghz,
        "modelled": data.profile.is_simulation,
    }
    arrays = {}
    notes = []
    for name, access in _operands(product).items():
        values, note = _values(data, access, position, after=name == "dst")
        notes.append(note)
        if values is not None:
            arrays[name] = values.astype("f4").reshape(-1)
    meta["note"] = notes[0]
    return pack(meta, arrays)


def _operands(matmul: Matmul) -> dict[str, ShownAccess]:
    return {"stationary": matmul.stationary, "moving": matmul.moving, "dst": matmul.dst}


def _values(
    data: ViewData, access: ShownAccess, position: int, after: bool
) -> tuple[np.ndarray | None, str]:
    """Return the elements of an operand as numbers, and at which moment they are those."""
    held = data.held(access.tensor, position, after)
    if held.values is None:
        return None, held.note
    if access.gather is not None or access.itemsize != held.values.dtype.itemsize:
        return None, "values of operands that the device addresses are not drawn"
    try:
        return held.values.reshape(-1)[access.elements()].astype(np.float64), held.note
    except (TypeError, ValueError):  # packed types have no number per element
        return None, f"elements of {access.dtype} are not single numbers"


def _heading(data: ViewData, position: int) -> str:
    place = data.operations[position].place
    return place.heading if place else ""

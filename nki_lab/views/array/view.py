"""The multiplier array of the Tensor engine during a product."""

from __future__ import annotations

from nki_lab.views.array.model import array_list, array_product
from nki_lab.views.array.picture import array_picture
from nki_lab.views.array.products import matmul_text
from nki_lab.views.registry import Needs, View
from nki_lab.views.run import ViewData

#: Products that a saved page plays.
PRODUCTS_SAVED = 2


def _products(data: ViewData) -> list[str]:
    return [f"array/{position}" for position in data.products[:PRODUCTS_SAVED].tolist()]


VIEW = View(
    name="array",
    title="Array",
    needs=Needs.PROGRAM,
    text=matmul_text,
    words="Multiplier array of the Tensor engine during a product",
    parts={"array": array_list, "array/{instruction}": array_product},
    first=("array",),
    saved=(_products,),
    picture=array_picture,
    if_small=True,
)

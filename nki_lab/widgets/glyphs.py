"""How are letters drawn into a picture without a font library?

A picture is made of NumPy arrays only, so that it can be made anywhere. The letters are a 5 x 7 dot
matrix, one word of five bytes each: a byte is a column from left to right, its lowest bit the top
dot (an eighth row holds descenders).
"""

from __future__ import annotations

import numpy as np

#: Dots from one letter to the next, and of a line.
ADVANCE, LINE = 6, 9

_FIRST = 32
_COLUMNS = """
0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649552250 0005030000
001c224100 0041221c00 14083e0814 08083e0808 0050300000 0808080808 0060600000 2010080402
3e5149453e 00427f4000 4261514946 2141454b31 1814127f10 2745454539 3c4a494930 0171090503
3649494936 064949291e 0036360000 0056360000 0814224100 1414141414 0041221408 0201510906
324979413e 7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e4149497a
7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e
7f09090906 3e4151215e 7f09192946 4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f
6314081463 0708700807 6151494543 007f414100 0204081020 0041417f00 0402010204 4040404040
0001020400 2054545478 7f48444438 3844444420 384444487f 3854545418 087e090102 18a4a4a47c
7f08040478 00447d4000 4080847d00 7f10284400 00417f4000 7c04180478 7c08040478 3844444438
fc24242418 18242418fc 7c08040408 4854545420 043f444020 3c4040207c 1c2040201c 3c4030403c
4428102844 1ca0a0a07c 4464544c44 0008364100 00007f0000 0041360800 0804080408
"""


def _table() -> np.ndarray:
    columns = np.array([list(bytes.fromhex(word)) for word in _COLUMNS.split()], dtype=np.uint8)
    dots = np.unpackbits(columns[:, :, None], axis=2, bitorder="little")
    return dots.transpose(0, 2, 1).astype(bool)  # letter, row, column


_LETTERS = _table()


def text_dots(text: str) -> np.ndarray:
    """Return a text as dots [8, 6 * letters]; what is not printable ASCII becomes `?`."""
    codes = [
        ord(c) - _FIRST if _FIRST <= ord(c) < _FIRST + len(_LETTERS) else ord("?") - _FIRST
        for c in text
    ]
    dots = np.zeros((8, ADVANCE * len(text)), dtype=bool)
    for k, code in enumerate(codes):
        dots[:, k * ADVANCE : k * ADVANCE + 5] = _LETTERS[code]
    return dots


def doubled(dots: np.ndarray) -> np.ndarray:
    """Return dots at twice the size, with the corners of diagonals filled (the Scale2x rule)."""
    around = np.pad(dots, 1)
    up, down = around[:-2, 1:-1], around[2:, 1:-1]
    left, right = around[1:-1, :-2], around[1:-1, 2:]
    result = np.repeat(np.repeat(dots, 2, 0), 2, 1)
    corners = ((0, 0, up, left, right, down), (0, 1, up, right, left, down),
               (1, 0, down, left, right, up), (1, 1, down, right, left, up))  # fmt: skip
    for row, column, one, other, across, beyond in corners:
        rounded = (one == other) & (one != across) & (other != beyond)
        result[row::2, column::2] = np.where(rounded, one, dots)
    return result

"""The forms: ways of writing that versions of NKI treat differently, one row each."""

from __future__ import annotations

from nki_lab.versions.version import DEPRECATED, ERROR, PORTABILITY, Form

_MIGRATION = "nki/migration/index.rst"
_TO_0_3 = f"{_MIGRATION}, NKI 0.3.0"
_TO_0_4 = f"{_MIGRATION}, NKI 0.4.0"
_TO_0_5 = f"{_MIGRATION}, NKI 0.5.0"
_LIMITS = "release-notes/components/nki.rst, known issues since NKI 0.3.0"
_LOOPS = "nki/migration/index.html, NKI 0.7.0"

#: Every form by its key. The levels are in the order of versions.
FORMS: dict[str, Form] = {
    "raw enum": Form(
        "an integer where an instruction takes a member of an enumeration",
        "write the member, such as nisa.dge_mode.hwdge",
        f"{_TO_0_3}, Integer enum constants no longer supported",
        {"0.3": ERROR}, code="NKI206",
    ),
    "platform target": Form(
        "nki.jit(platform_target=...)",
        "set NEURON_PLATFORM_TARGET_OVERRIDE, or use %%nki --target / nki_lab.run(..., target=...)",
        f"{_TO_0_3}, nki.jit(platform_target=...)",
        {"0.3": ERROR},
    ),
    "private result": Form(
        "a result in nl.hbm",
        "write buffer=nl.shared_hbm where it is made",
        f"{_TO_0_3}, Output tensors must use nl.shared_hbm",
        {"0.3": ERROR},
    ),
    "string buffer": Form(
        "the name of a memory as a string",
        "write nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm",
        f"{_TO_0_3}, String buffer names no longer supported",
        {"0.3": ERROR},
    ),
    "float in integers": Form(
        "nisa.memset of integers with a float",
        "write an integer",
        f"{_TO_0_3}, nisa.memset: strict type matching",
        {"0.3": ERROR},
    ),
    "copy from PSUM": Form(
        "nisa.dma_copy of a tile in PSUM",
        "copy the tile into SBUF first: nl.copy(tile)",
        f"{_TO_0_3}, nisa.dma_copy: reading from PSUM",
        {"0.3": ERROR},
    ),
    "cast by hardware": Form(
        "nisa.dma_copy(dge_mode=nisa.dge_mode.hwdge) between two dtypes",
        "write src.view(dst.dtype), since it moves bits, or another dge_mode, which casts",
        f"{_TO_0_3}, nisa.dma_copy: dge_mode type matching",
        {"0.3": ERROR},
    ),
    "reduce axis": Form(
        "nisa.tensor_reduce with axes counted from the last one, such as axis=1 for the last of three",
        "write the numbers of the axes, such as the last one's",
        f"{_TO_0_3}, nisa.tensor_reduce: axis handling fix",
        {"0.3": ERROR},
    ),
    "transpose rank": Form(
        "nisa.dma_transpose into a tensor that has fewer axes than `src`",
        "give `dst` the transposed shape of `src`, with dst.reshape(...)",
        f"{_TO_0_4}, nisa.dma_transpose: dst shape and rank now enforced exactly",
        {"0.4": ERROR},
    ),
    "rsqrt of PSUM": Form(
        "nl.rsqrt of a tile in PSUM",
        "copy the tile into SBUF first, nl.rsqrt(nl.copy(tile)), or write nisa.activation(dst, op=nl.rsqrt, data=tile)",
        f"{_TO_0_5}, nki.language.rsqrt: PSUM inputs no longer supported",
        {"0.5": ERROR},
    ),
    "reshape in HBM": Form(
        "reshape to fewer elements than a tensor in HBM has",
        "take the first ones before: t.flatten_dims(0, t.ndim - 1)[0:count].reshape(shape)",
        f"{_TO_0_5}, nki.language.NkiTensor.reshape: element count now validated",
        {"0.5": ERROR},
    ),
    "reshape on chip": Form(
        "reshape to fewer elements than a tensor on chip has",
        "take the first ones of each partition before: t.flatten_dims(1, t.ndim - 1)[:, 0:count].reshape(shape)",
        f"{_TO_0_5}, nki.language.NkiTensor.reshape: element count now validated",
        {"0.5": ERROR},
    ),
    "unknown keyword": Form(
        "a keyword that an instruction does not have",
        "leave it out",
        "release-notes/components/nki.rst, NKI 0.2.0: invalid keyword arguments were ignored before",
        {"0.1": DEPRECATED, "0.2": ERROR},
    ),
    "dynamic_range": Form(
        "a loop over nl.dynamic_range",
        "write nl.fori_loop(lower, upper, body, step)",
        _LOOPS,
        {"0.6": DEPRECATED, "0.7": ERROR}, code="NKI120", parser_takes=True,
    ),
    "while register": Form(
        "`while` over a register",
        "write nl.while_loop(register, body)",
        _LOOPS,
        {"0.6": DEPRECATED, "0.7": ERROR}, code="NKI120", parser_takes=True,
    ),
    "loop state": Form(
        "a value of Python that the body of a device loop changes",
        "keep it in a tensor in SBUF or HBM",
        f"{_MIGRATION}, NKI 0.6.0, Rules for migrated loops",
        {"0.7": ERROR}, code="NKI124", parser_takes=True,
    ),
    "broadcast": Form(
        "a function of nki.language on tiles of different shapes",
        "repeat the smaller tile first: nl.broadcast_to(tile, shape)",
        _LIMITS,
        {"0.3": PORTABILITY},
    ),
    "dependency kind": Form(
        "depends_on without `kind`",
        "write kind=nisa.dependency.runtime",
        "nki/api/generated/nki.isa.NkiInstruction.html",
        {"0.7": DEPRECATED},
    ),
    "quotient": Form(
        "nl.divide of tiles",
        "write nl.multiply(x, nl.reciprocal(y)), which is rounded twice: no engine divides",
        _LIMITS,
        {"0.3": PORTABILITY},
    ),
    "remainder": Form(
        "nl.mod or nl.fmod of tiles",
        "compute the quotient with nl.reciprocal, and round it with nl.floor or nl.trunc",
        _LIMITS,
        {"0.3": PORTABILITY},
    ),
}  # fmt: skip

"""Errors of kernels in the older dialect, `neuronxcc.nki`: index tensors, masks and what they select."""

from __future__ import annotations

from nki_lab.errors.language import LanguageError, OutOfBounds, ViewError

_INDENT = "\n            "


def older(code: str) -> str:
    """Return the note that names an error as the compiler of the older dialect named it."""
    return f"the compiler of the older dialect calls this {code}"


def _kernel(*lines: str) -> str:
    return f"""
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl
        import numpy as np

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            i_p, i_f = nl.arange(128)[:, None], nl.arange(4)[None, :]
            {_INDENT.join(lines)}
            return out

        kernel(np.ones((128, 4), dtype=np.float32))
        """


class IndexExpression(ViewError, TypeError):
    """An index tensor is used as something that it cannot be: as data, in control flow, not affine."""

    code = "NKI140"
    page = """
        The index tensors of nl.arange and nl.mgrid are positions that are known while the kernel is
        traced. They can be added to, subtracted from and multiplied by integers, compared to make a mask,
        and used as an index. They have no elements to assign, and `if` cannot ask them. nisa.iota makes a
        tile of one.
        """
    wrong = _kernel("nl.store(out[i_p, i_f], nl.load(x[i_p, (3 + i_f) % 4]))")
    right = wrong.replace("(3 + i_f) % 4", "3 - i_f")


class BadMask(ViewError):
    """A mask is no conjunction of affine comparisons, or does not belong to the access it is given to."""

    code = "NKI141"
    page = """
        A mask compares index tensors, variables of loops and program ids, and joins comparisons with &.
        It has the axes of the access that it is given to, and holds for boxes of it. Python asks for the
        truth of what stands in `and`, `or`, `not` and in chains of comparisons, which a mask does not
        have: it differs from position to position. What depends on data is chosen with nl.where.
        """
    wrong = _kernel("nl.store(out[i_p, i_f], nl.load(x[i_p, i_f]), mask=1 <= i_f < 3)")
    right = wrong.replace("1 <= i_f < 3", "(1 <= i_f) & (i_f < 3)")


class BadIndexing(ViewError):
    """A tensor is indexed in a way that selects no tile."""

    code = "NKI142"
    page = """
        A tensor is indexed with integers and slices, or with index tensors and integers between them. On
        the chip axis 0 is the partition axis: an access takes adjacent partitions, at the same place of
        each.
        """
    wrong = _kernel("nl.store(out, nl.load(x[i_p, :]))")
    right = wrong.replace("i_p, :", "i_p, i_f")


class IndirectIndex(BadIndexing):
    """A tile of indices stands where the hardware takes none."""

    code = "NKI143"
    page = """
        Rows of a tensor in HBM are loaded and stored by a tile of indices in SBUF with one index for each
        partition; it stands for the first axis, or for one after integers. A tile with one element moves
        an access along any axis of a tensor in HBM, and along a free axis of a tile.
        """
    wrong = _kernel(
        "rows = nl.load(x[i_p, 0], dtype=nl.int32)", "nl.store(out, nl.load(x[i_p, rows]))"
    )
    right = wrong.replace("x[i_p, rows]", "x[rows, i_f]")


class OutsideTensor(OutOfBounds):
    """What an access reaches after its mask is not inside the tensor."""

    code = "NKI144"
    page = """
        The positions of an access, where its mask holds, are compared with the size of each axis while
        the kernel is traced. Where the last tile is smaller than the others, mask what lies outside, in
        every call that works on it: nl.load, nl.store and the functions between them.
        """
    wrong = _kernel("nl.store(out[i_p, i_f + 1], nl.load(x[i_p, i_f]))")
    right = wrong.replace("i_f]))", "i_f]), mask=i_f + 1 < 4)")


class OutputDependency(LanguageError):
    """Trips of a parallel loop write one place."""

    code = "NKI145"
    page = """
        The trips of nl.affine_range do not depend on each other: none may write what another one writes.
        Products may be added to one place in PSUM with `+=`. In nl.sequential_range trips follow each
        other.
        """
    wrong = """
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl
        import numpy as np

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t = nl.load(x)
            for i in nl.affine_range(4):
                nl.store(out, t + float(i))
            return out

        kernel(np.ones((128, 4), dtype=np.float32))
        """
    right = wrong.replace("affine_range", "sequential_range")


class TileTruth(LanguageError, ValueError, TypeError):
    """Control flow of the older dialect depends on the values of a tile."""

    code = "NKI146"
    page = """
        What is in a tile is only known when the kernel runs, and a kernel is traced before: `if`,
        `while`, `and`, `or`, `not`, int(), float() and range() cannot ask it. Compare with `is not None` to
        see whether there is a tensor at all; combine tiles with &, | and ~; choose elements with nl.where.
        """
    wrong = _kernel("t = nl.load(x)", "if t > 0:", "    t = t * 2", "nl.store(out, t)")
    right = _kernel("t = nl.load(x)", "t = nl.where(t > 0, t * 2, t)", "nl.store(out, t)")


class OutOfScope(LanguageError):
    """A tensor that the body of a loop makes is used after the loop."""

    code = "NKI147"
    page = """
        In the older dialect a tensor on the chip that the body of nl.affine_range or nl.sequential_range
        makes belongs to that body: the old compiler traced it once. A tensor that is used after the loop,
        or carried from trip to trip, is made before it with nl.ndarray or nl.zeros, and assigned to in the
        loop, `t[...] = value`; `t = value` would only name another tensor.
        """
    wrong = """
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl
        import numpy as np

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            total = nl.zeros(x.shape, dtype=x.dtype)
            for i in nl.sequential_range(4):
                total = total + nl.load(x)
            nl.store(out, total)
            return out

        kernel(np.ones((128, 4), dtype=np.float32))
        """
    right = wrong.replace("total = total +", "total[...] = total +")


class ReturnInLoop(LanguageError):
    """`return` stands inside a loop of the older dialect."""

    code = "NKI148"
    page = """
        `return` ends a function, and so every loop around it: of a loop of nl.affine_range,
        nl.sequential_range or nl.static_range only the trips before it are run. The old compiler traced
        the body of a loop once, and no page says what it made of a `return` in it. Write it after the
        loop, with the indentation of its `for`.
        """
    wrong = """
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl
        import numpy as np

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            for i in nl.affine_range(2):
                nl.store(out[i], nl.load(x[i]))
                return out

        kernel(np.ones((2, 128, 4), dtype=np.float32))
        """
    right = wrong.replace("        return out", "    return out")


class WrongMemory(LanguageError):
    """An operand of the older dialect is in a memory that its function does not take."""

    code = "NKI149"
    page = """
        nl.load takes a tensor in HBM and makes a tile in SBUF; nl.store takes a tile and writes HBM. Every
        function that computes takes tiles in SBUF or PSUM. The DMA functions of nki.isa take both.
        """
    wrong = _kernel("nl.store(out, nl.exp(x))")
    right = wrong.replace("nl.exp(x)", "nl.exp(nl.load(x))")


class ParameterUpdate(LanguageError):
    """A kernel of the older dialect writes a parameter that it may not write, or does not return it."""

    code = "NKI150"
    page = """
        A parameter of a kernel is written only where it is annotated with nt.mutable_tensor, of
        neuronxcc.nki.typing, and returned. Kernels without a result, as those of 2.20 and 2.21, write what
        they compute to their parameters.
        """
    wrong = _kernel("nl.store(out, nl.load(x))", "nl.store(x, nl.load(out))")
    right = (
        wrong.replace("kernel(x):", "kernel(x: nt.mutable_tensor):")
        .replace("return out", "return out, x")
        .replace(
            "import numpy as np\n",
            "import neuronxcc.nki.typing as nt\n        import numpy as np\n",
        )
    )


class AnnotatedShape(LanguageError):
    """A variable of the older dialect is annotated with another shape than its tensor has."""

    code = "NKI151"
    page = """
        `t: nt.tensor[128, 512] = ...` says what shape a tensor has, for who reads the kernel. The shape is
        compared with that of the tensor.
        """
    wrong = _kernel("t: nt.tensor[128, 8] = nl.load(x)", "nl.store(out, t)").replace(
        "import numpy as np\n", "import neuronxcc.nki.typing as nt\n        import numpy as np\n"
    )
    right = wrong.replace("[128, 8]", "[128, 4]")

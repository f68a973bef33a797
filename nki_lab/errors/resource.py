"""Errors NKI3xx: memory that does not fit."""

from __future__ import annotations

from nki_lab.errors.nki_error import NkiError


class ResourceError(NkiError):
    """On-chip memory does not hold what the kernel keeps in it."""

    code = "NKI300"
    page = """
        What the kernel keeps on the chip at one time does not fit into SBUF or PSUM. The official CPU
        simulator does not notice; a device would refuse the kernel.
        """


class OverCapacity(ResourceError, MemoryError):
    """Tensors in use at the same time need more bytes than the memory has."""

    code = "NKI301"
    page = """
        Tiles in use at the same moment need more bytes per partition than SBUF or PSUM has. A tile is in
        use from its first to its last access. The notes list the largest ones with their lines. Use smaller
        tiles or narrower dtypes, or store a tile before the next one is loaded. --capacity finding runs the
        kernel anyway, as if the memory were larger, and reports it.
        """
    wrong = """
        big = nl.zeros((128, 65536), dtype=nl.float32)
        nisa.tensor_copy(dst=t, src=big[:, 0:4])
        """
    right = """
        big = nl.zeros((128, 8192), dtype=nl.float32)
        nisa.tensor_copy(dst=t, src=big[:, 0:4])
        """


class MixedAllocation(ResourceError):
    """A kernel of the older dialect places some of its tensors on the chip itself, but not all."""

    code = "NKI303"
    page = """
        Where a kernel of neuronxcc.nki gives one tensor a place with nki.compiler.sbuf.alloc, mod_alloc or
        their like of PSUM, it gives one to all: also to results of calls, which are new tensors unless they
        are assigned, t[...] = nl.load(x). Calls that need a tensor of their own, such as nl.softmax, are
        refused there, and so are tensors in HBM that are neither arguments nor results.
        @nki.compiler.force_auto_alloc leaves all tensors to the compiler.
        """
    wrong = """
        %%nki --run "kernel(x)"
        import neuronxcc.nki as nki
        import neuronxcc.nki.compiler as ncc
        import neuronxcc.nki.language as nl

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray(x.shape, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
            u = nl.load(x)
            t[...] = nl.add(u, u)
            nl.store(out, t)
            return out
        """
    right = wrong.replace(
        "u = nl.load(x)",
        "u = nl.ndarray(x.shape, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=64))\n"
        "            u[...] = nl.load(x)",
    )


class AddressConflict(ResourceError, ValueError):
    """An explicit address is outside its memory, misaligned, or used by another tensor in use."""

    code = "NKI302"
    page = """
        A tensor with an explicit address lies outside its memory, is not aligned, or shares bytes with
        another tensor in use at the same time. Leave the address out to have one chosen.
        """
    wrong = """
        u = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        v = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 8))
        nisa.memset(dst=u, value=1.0)
        nisa.memset(dst=v, value=2.0)
        nisa.tensor_tensor(dst=t, data1=u, data2=v, op=nl.add)
        """
    right = """
        u = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        v = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 16))
        nisa.memset(dst=u, value=1.0)
        nisa.memset(dst=v, value=2.0)
        nisa.tensor_tensor(dst=t, data1=u, data2=v, op=nl.add)
        """

"""Errors NKI4xx: mistakes that only the values show."""

from __future__ import annotations

from nki_lab.errors.nki_error import NkiError


class SimulationError(NkiError):
    """A mistake that only the values show."""

    code = "NKI400"
    #: `nki_lab.step` gets to the same instruction: the run has one core and one rank.
    can_be_stepped = False
    page = "The kernel is well formed, but its values show a mistake."
    wrong = """
        import numpy as np
        import nki
        import nki.isa as nisa
        import nki.language as nl

        @nki.jit
        def kernel(x, rows):
            t = nl.load(x)
            out = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.shared_hbm)
            row = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.sbuf)
            nisa.nc_n_gather(dst=row, data=t, indices=nl.load(rows))
            nl.store(out, row)
            return out

        kernel(np.ones((32, 4), dtype=np.float32), np.full((32, 4), 9, dtype=np.uint32))
        """
    right = wrong.replace("(32, 4), 9", "(32, 4), 3")


class UninitializedRead(SimulationError):
    """Elements that nothing has written since their tensor was made were read."""

    code = "NKI401"
    page = """
        An instruction reads elements that nothing has written since their tensor was made. On a device they
        hold whatever was there before. Write the whole tile first, for example with nisa.memset, or read
        only the part that was written.
        """
    wrong = """
        %%nki --run "kernel(x)" --strict
        def kernel(x):
            t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """
    right = wrong.replace("nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)", "nl.load(x)")


class AddressOutOfRange(SimulationError, IndexError):
    """An address computed at run time lies outside its tensor."""

    code = "NKI402"
    page = """
        A register or a tile of indices addressed elements outside its tensor. The message names the index,
        the partition and what is valid. Clip the indices in the kernel, or pass oob_mode=nisa.oob_mode.skip
        to a DMA, which then leaves out what is out of range.
        """
    wrong = """
        row = nisa.register_alloc(200)
        nisa.dma_copy(dst=t[0:1, :], src=x.select(0, row).reshape((1, 4)))
        """
    right = wrong.replace("register_alloc(200)", "register_alloc(20)")


class UnwrittenRegister(SimulationError):
    """A register was read before anything had been written to it."""

    code = "NKI403"
    page = """
        A register was read before the kernel had set it. Give it a value when it is allocated,
        nisa.register_alloc(0), or set it with nisa.register_move or nisa.register_load.
        """
    wrong = """
        n = nisa.register_alloc()

        def body(k):
            nisa.memset(dst=t, value=1.0)

        nl.fori_loop(0, n, body)
        """
    right = wrong.replace("register_alloc()", "register_alloc(2)")


class MissingPartner(SimulationError):
    """A core or rank waits for another one, which never arrives."""

    code = "NKI405"
    page = """
        A core waits in nisa.sendrecv or nisa.core_barrier, or a rank in a collective, for a partner that
        never arrives: it has ended, waits somewhere else, or does not exist. All cores and ranks must make
        these calls in the same order; calls of sendrecv with different pipe_id do not wait for each other.
        A kernel that is called runs as rank 0 alone: nki_lab.launch(kernel, ranks=4, inputs=[...]) runs
        several ranks.
        """
    wrong = """
        import numpy as np
        import nki
        import nki.isa as nisa
        import nki.language as nl

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            if nl.program_id(0) == 0:
                nl.store(out, nl.load(x))
                nisa.core_barrier(out, cores=(0, 1))
            return out

        kernel[2](np.ones((128, 4), dtype=np.float32))
        """
    right = wrong.replace("    nisa.core_barrier", "nisa.core_barrier")


class RanksDiffer(SimulationError):
    """The ranks of a collective do not fit together."""

    code = "NKI406"
    page = """
        The ranks of a replica group must call the same collective, with tensors of one shape and dtype, and
        every rank that calls it must be in one of its groups. All ranks run one program, so they differ
        only where values decide: in loops that the device runs, and between the two cores of a rank.
        """
    wrong = """
        import numpy as np
        import nki
        import nki.collectives as ncc
        import nki.language as nl
        import nki_lab

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            ncc.all_reduce(srcs=[x], dsts=[out], replica_group=ncc.ReplicaGroup([[0]]), op=nl.add)
            return out

        nki_lab.launch(kernel, ranks=2, inputs=[np.ones((128, 4), dtype=np.float32)] * 2)
        """
    right = wrong.replace("[[0]]", "[[0, 1]]")


class TooManyTrips(SimulationError):
    """The device loops of a run make more trips than a run may: one of them may never end."""

    code = "NKI407"
    page = """
        Together, the device loops of a run may make 10,000,000 trips, unless --max-trips or
        NKI_LAB_MAX_TRIPS says otherwise. A loop over a register that its body never sets to 0 does not end.
        """
    wrong = """
        %%nki --run "kernel(x)" --max-trips 1000
        def kernel(x):
            t = nl.load(x)
            more = nisa.register_alloc(3)

            def body(more):
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
                return more

            nl.while_loop(more, body)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """
    right = """
        %%nki --run "kernel(x)" --max-trips 1000
        def kernel(x):
            t = nl.load(x)
            more = nisa.register_alloc(3)
            count = nl.full((1, 1), 3, dtype=nl.int32)

            def body(more):
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
                nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
                nisa.register_load(more, count)
                return more

            nl.while_loop(more, body)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """

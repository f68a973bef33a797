"""The versions of NKI, one block each: names that are new in it, and signatures as they were before it.

`official_api.json` holds the names and signatures of the newest version. Stubs and pages of the documentation give
the changes: nki/api/nki of each release, nki/migration/index.rst, release-notes/components/nki.rst.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from nki_lab.errors import Needs
from nki_lab.versions.version import Form, Version

VERSIONS: tuple[Version, ...] = (
    Version(
        "0.1",
        "2.27",
        # nki/api/nki.api.shared.rst of 2.27 and 2.28, tables of `op`; the stubs have them from 2.29 on.
        operators=(
            "arctan copy erf erf_dx exp gelu gelu_apprx_tanh gelu_dx log mish relu sigmoid sign silu silu_dx sin "
            "softplus sqrt square tanh"
        ),
    ),
    Version(
        "0.2",
        "2.28",
        adds={
            "nki.language": "dynamic_range float8_e4m3fn gelu_apprx_sigmoid_dx no_reorder",
            "nki.isa": "exponential nonzero_with_count",
            "nki.collectives": (
                "ReplicaGroup all_gather all_reduce all_to_all collective_permute collective_permute_implicit "
                "collective_permute_implicit_current_processing_rank_id collective_permute_implicit_reduce rank_id "
                "reduce_scatter"
            ),
        },
        before={
            "nki.isa.dma_copy": "dst src dst_rmw_op=None oob_mode=oob_mode.error dge_mode=dge_mode.unknown name=None",
            "nki.isa.dma_transpose": "dst src axes=None dge_mode=dge_mode.unknown name=None",
            "nki.isa.range_select": (
                "dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd=reduce_cmd.idle reduce_res=None "
                "reduce_op=maximum range_start=0.0 on_false_value=0.0 name=None"
            ),
        },
    ),
    Version(
        "0.3",
        "2.29",
        adds={
            "nki": "simulate",
            "nki.language": (
                "MemoryRegion NkiTensor all arctan broadcast_to ceil copy cos dropout empty_like erf erf_dx exp "
                "expand_dims floor fmod full gather_flattened gelu gelu_apprx_tanh gelu_dx is_hbm is_on_chip is_psum "
                "is_sbuf load load_transpose2d log matmul max mean min mish mod negative ones prod rand random_seed "
                "relu rms_norm sigmoid sign silu silu_dx sin softmax softplus sqrt square store sum tan tanh "
                "transpose trunc var where zeros_like"
            ),
            # Stubs list these methods from 0.5 on; a page of 2.29 already slices a tensor by one (nki-aps.rst).
            "nki.language.NkiTensor": (
                "broadcast expand_dim flatten_dims indirect is_contiguous is_indirect permute rearrange "
                "reinterpret_cast reshape_dim select slice squeeze_dim vector_select"
            ),
            "nki.isa": "NkiValidationError VirtualRegister",
            "nki.collectives": "all_to_all_v",
        },
        before={
            # The stub has no address; nki/deep-dives/nki-migration-guide.rst of 2.27 and 2.28 has.
            "nki.language.ndarray": "shape dtype buffer=None name='' address=None",
            "nki.language.zeros": "shape dtype buffer=None name=''",
            "nki.language.shared_constant": "constant dtype=None",
            "nki.language.shared_identity_matrix": "n dtype=uint8",
            "nki.language.sequential_range": "start stop step",
            "nki.language.equal": "x y dtype=bool",
            "nki.language.greater": "x y dtype=bool",
            "nki.language.greater_equal": "x y dtype=bool",
            "nki.language.less": "x y dtype=bool",
            "nki.language.less_equal": "x y dtype=bool",
            "nki.language.logical_and": "x y dtype=bool",
            "nki.language.logical_not": "x dtype=bool",
            "nki.language.logical_or": "x y dtype=bool",
            "nki.language.logical_xor": "x y dtype=bool",
            "nki.language.not_equal": "x y dtype=bool",
            "nki.language.num_programs": "axes=None",
            "nki.language.program_id": "axis",
            # The stubs of affine_select and iota demand an offset; kernels of nki-library at its tag 2.28 leave it out.
            "nki.isa.affine_select": (
                "dst pattern offset=0 channel_multiplier on_true_tile on_false_value cmp_op=equal name=None"
            ),
            "nki.isa.core_barrier": "data cores engine=engine.unknown name=None",
            "nki.isa.dma_compute": "dst srcs scales reduce_op name=None",
            "nki.isa.dma_copy": (
                "dst src dst_rmw_op=None oob_mode=oob_mode.error dge_mode=dge_mode.unknown unique_indices=True "
                "name=None"
            ),
            "nki.isa.iota": "dst pattern offset=0 channel_multiplier=0 name=None",
            "nki.isa.nc_matmul": (
                "dst stationary moving is_stationary_onezero=False is_moving_onezero=False is_transpose=False "
                "tile_position=() tile_size=() perf_mode=matmul_perf_mode.none name=None"
            ),
            "nki.isa.nc_matmul_mx": (
                "dst stationary moving stationary_scale moving_scale tile_position=None tile_size=None name=None"
            ),
            "nki.isa.range_select": (
                "dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd=reduce_cmd.reset_reduce reduce_res=None "
                "reduce_op=maximum range_start=0.0 on_false_value=-3.4028235e+38 name=None"
            ),
            "nki.isa.register_move": "dst imm",
            "nki.isa.sendrecv": "src dst send_to_rank recv_from_rank pipe_id use_gpsimd_dma=False name=None",
            "nki.isa.tensor_scalar_cumulative": "dst src op0 op1 imm0 imm1=None reduce_cmd=reduce_cmd.reset_reduce",
            "nki.isa.exponential": "dst src max_value=0.0 reduce_res=None reduce_cmd=reduce_cmd.idle reduce_init=0.0",
            "nki.isa.nonzero_with_count": "dst src index_offset=0 padding_val=-1",
            "nki.collectives.collective_permute_implicit_current_processing_rank_id": (
                "iteration_id replica_group channel_id=0 num_channels=1"
            ),
        },
    ),
    Version(
        "0.4",
        "2.30",
        adds={
            "nki.language": "abs_max abs_min bypass prelu",
            "nki.isa": "activate2",
            "nki.language.tile_size": "psum_bank_fmax psum_bank_fmax_bytes sbuf_fmax sbuf_fmax_bytes sbuf_size_bytes",
        },
        before={
            "nki.jit": "func=None mode='auto' **kwargs",
            "nki.isa.dma_compute": "dst srcs reduce_op scales=None unique_indices=True name=None",
            "nki.isa.dma_copy": (
                "dst src oob_mode=oob_mode.error dge_mode=dge_mode.unknown engine=engine.unknown name=None"
            ),
            "nki.isa.dma_transpose": "dst src axes=None dge_mode=dge_mode.unknown oob_mode=oob_mode.error name=None",
            "nki.isa.tensor_scalar_reduce": "dst data op0 operand0 reduce_op reduce_res reverse0=False name=None",
            "nki.collectives.all_reduce": "srcs dsts replica_group op",
            "nki.collectives.all_gather": "srcs dsts replica_group collective_dim",
            "nki.collectives.reduce_scatter": "srcs dsts replica_group collective_dim op",
            "nki.collectives.all_to_all": "srcs dsts replica_group collective_dim",
            "nki.collectives.collective_permute": "srcs dsts source_target_pairs",
            "nki.collectives.collective_permute_implicit": (
                "srcs_by_channel dsts_by_channel replica_group channel_ids=[0]"
            ),
            "nki.collectives.collective_permute_implicit_reduce": (
                "srcs0_by_channel srcs1_by_channel dsts_by_channel replica_group op channel_ids=[0]"
            ),
            "nki.collectives.all_to_all_v": (
                "srcs dsts replica_group metadata_tensor recv_counts_known=False has_rdispls=False"
            ),
        },
        removes={
            "nki.isa.tensor_copy_dynamic_dst": (
                "dst src engine=engine.unknown name=None",
                "nisa.tensor_copy(dst.ap(pattern, scalar_offset=index), src)",
            ),
            "nki.isa.tensor_copy_dynamic_src": (
                "dst src engine=engine.unknown name=None",
                "nisa.tensor_copy(dst, src.ap(pattern, scalar_offset=index))",
            ),
        },
        deprecates={
            "nki.language.tile_size.total_available_sbuf_size": "nki.language.tile_size.sbuf_fmax_bytes"
        },
    ),
    Version(
        "0.5",
        "2.31",
        adds={
            "nki.language": "average float8_e8m0fnu",
            "nki.isa": "get_nc_sub_version",
            "nki.language.tile_size": "psum_num_banks",
        },
        before={
            "nki.isa.rand_get_state": "dst engine=engine.unknown name=None",
            "nki.isa.rand_set_state": "src_seeds engine=engine.unknown name=None",
            "nki.isa.rng": "dst engine=engine.unknown name=None",
            "nki.collectives.all_reduce": "srcs dsts replica_group op priority=None",
            "nki.collectives.all_gather": "srcs dsts replica_group collective_dim priority=None",
            "nki.collectives.reduce_scatter": "srcs dsts replica_group collective_dim op priority=None",
            "nki.collectives.all_to_all": "srcs dsts replica_group collective_dim priority=None",
            "nki.collectives.collective_permute": "srcs dsts source_target_pairs priority=None",
            "nki.collectives.collective_permute_implicit": (
                "srcs_by_channel dsts_by_channel replica_group channel_ids=[0] priority=None"
            ),
            "nki.collectives.collective_permute_implicit_reduce": (
                "srcs0_by_channel srcs1_by_channel dsts_by_channel replica_group op channel_ids=[0] priority=None"
            ),
            "nki.collectives.rank_id": "",
            "nki.collectives.collective_permute_implicit_current_processing_rank_id": (
                "iteration_id replica_group channel_id=0"
            ),
            "nki.collectives.all_to_all_v": (
                "srcs dsts replica_group metadata_tensor recv_counts_known=False has_rdispls=False priority=None"
            ),
        },
    ),
    Version(
        "0.6",
        "2.32",
        adds={
            "nki.language": "DType fori_loop while_loop",
            "nki.isa": "NkiInstruction topk",
            "nki.collectives": "all_gather_v",
        },
        before={
            "nki.isa.tensor_scalar_reduce": (
                "dst data op0 operand0 reduce_op reduce_res reverse0=False reduce_cmd=reduce_cmd.reset_reduce "
                "reduce_init=None name=None"
            ),
        },
        # The stubs of 0.6 call them deprecated aliases of `range`.
        deprecates={
            f"nki.language.{name}": "range"
            for name in ("affine_range", "sequential_range", "static_range")
        },
    ),
    Version(
        "0.7",
        "2.33",
        adds={
            "nki.language": "NkiBlockGrid NkiGrid NkiTileGrid alloc_blocks alloc_tiles blocks int64 tiles",
            "nki.language.NkiTensor": "data",
            "nki.isa": "NkiScalar dependency scalar_load scalar_store sendrecv_compute",
            "nki.compiler": "AddressRotation CompileConfig SpecializationConfig",
            "nki.collectives": "all_gather_v_prepare all_gather_v_trigger all_to_all_v_prepare all_to_all_v_trigger",
        },
        before={
            "nki.jit": "fn=None **kwargs",
            "nki.isa.NkiInstruction.depends_on": "self *producers",
            "nki.language.empty_like": "x dtype=None buffer=None name=''",
            "nki.isa.activation": (
                "dst op data bias=None scale=1.0 reduce_op=None reduce_res=None reduce_cmd=reduce_cmd.idle name=None"
            ),
            "nki.isa.activate2": (
                "dst op data imm0 imm1 op0 op1 relu_param=0.0 reverse0=False reverse1=False reduce_op=None "
                "reduce_res=None reduce_cmd=reduce_cmd.idle name=None"
            ),
        },
        # What a page does not say, or what stands behind the part of it that was seen; then what is done about it.
        unseen={
            "nki.jit": (
                "which keywords besides the two configurations stay valid; `mode` is ignored, others are errors"
            ),
            "nki.compiler.CompileConfig": (
                "the defaults of non_ssa_legalization, dead_code_elim and barrier_check (the page writes "
                "`...`); None stands for them"
            ),
            "nki.compiler.SpecializationConfig": (
                "its default (the page writes `...`); False is assumed, since the page says that another "
                "configuration raises"
            ),
            "nki.compiler.AddressRotation": "the values of its members; they have their names in small letters",
            "nki.language.NkiGrid": (
                "which indices are refused; only integers and slices with a step of 1 or more are taken, "
                "others are errors"
            ),
            "nki.language.NkiTileGrid": "what stands behind its example; attributes are those that NkiGrid lists",
            "nki.language.NkiBlockGrid": (
                "what stands behind its example; attributes are those that NkiGrid lists"
            ),
            "nki.language.tiles": (
                "what stands behind its example: its errors; a source or shape of another type is an error"
            ),
            "nki.language.blocks": (
                "what stands behind its example: its errors; a block that does not fit the ranks is an error"
            ),
            "nki.language.alloc_tiles": (
                "when the native allocation refuses (AssertionError); axes in front of the tiles are an error on chip"
            ),
            "nki.language.alloc_blocks": "what stands behind its example; its errors are those of alloc_tiles",
            "nki.language.empty_like": "its errors, and transpose_axes of axes without tiles; both are errors",
            "nki.language.NkiTensor": (
                "the methods that its list has after is_contiguous; they are those of 0.6, with `data`"
            ),
            "nki.language.int64": (
                "its page: what besides scalars, their tiles and copies takes it; other instructions refuse it"
            ),
            "nki.language.fori_loop": (
                "what stands behind its parameters: its errors; bounds of other types or of 64 bits are errors"
            ),
            "nki.language.while_loop": (
                "its page in 0.7: whether an NkiScalar may be the condition; it is an error, registers are taken"
            ),
            "nki.language.dynamic_range": (
                "whether the name is still there, and what it raises; a loop over it is error NKI120"
            ),
            "nki.isa.NkiScalar": (
                "operators besides + - * and comparisons; each is an error that lists those three"
            ),
            "nki.isa.sendrecv_compute": (
                "dtypes and shapes; `src` and `dst` must be alike, and packed or scale dtypes are errors"
            ),
            "nki.isa.activation": (
                "rules behind its parameters, and its time on GpSimd; rules are those of 0.6, the time is assumed"
            ),
            "nki.isa.activate2": (
                "rules behind its parameters, and its time on GpSimd; rules are those of 0.6, the time is assumed"
            ),
            "nki.isa.core_barrier": "rules behind its parameters; they are those of 0.6",
            "nki.isa.activation_reduce": "rules behind reading out the registers; they are those of 0.6",
            "nki.isa.nc_matmul_mx": "rules behind `tile_size`; they are those of 0.6",
            "nki.isa.tensor_scalar_reduce": "rules behind the number of axes; they are those of 0.6",
            "nki.collectives.all_reduce": "what `op` and `priority` may be; they are what they were in 0.6",
            "nki.collectives.all_gather": (
                "what `collective_dim` and `priority` may be; they are what they were in 0.6"
            ),
            "nki.collectives.all_to_all_v": (
                "the last of its restrictions; that it needs two cores without a NeuronSwitch is assumed"
            ),
            "nki.collectives.all_to_all_v_prepare": (
                "what follows the restriction on a NeuronSwitch, where it is an error"
            ),
            "nki.collectives.all_gather_v_trigger": (
                "its page, which that of all_gather_v_prepare names; parameters are those of all_to_all_v_trigger"
            ),
        },
        # nki/api/generated/nki.isa.scalar_load.html and nki.isa.scalar_store.html
        traced_only=frozenset(("nki.isa.scalar_load", "nki.isa.scalar_store")),
        plain_python=True,
    ),
)
NEWEST = VERSIONS[-1]

#: The front ends that NKI_COMPILER_FRONTEND names, and whether each reads the text of a kernel, as all did before 0.7.
#: "custom" is documented for 0.7; "parser" and "tracer" are what migration texts of 0.6 call the two.
FRONTENDS = {"custom": True, "parser": True, "tracer": False}


@lru_cache(maxsize=64)
def version_named(name: str, frontend: str = "") -> Version:
    """Return a version, with the front end that was asked for; KeyError for one that does not exist.

    Before 0.7 a front end changes nothing: kernels of these versions are held to what the parser takes.
    """
    version = {v.name: v for v in VERSIONS}[name]
    if version.plain_python and FRONTENDS.get(frontend, False):
        return replace(version, plain_python=False)
    return version


def added_in(name: str) -> Version:
    """Return the version that an official name, such as "nki.language.fori_loop", is new in."""
    return next((v for v in VERSIONS if name in v.added), VERSIONS[0])


@lru_cache(maxsize=4096)
def named_since(name: str) -> Version:
    """Return the first version that has an official name, be it as an operator only."""
    module, _, member = name.rpartition(".")
    tables = (v for v in VERSIONS if module == "nki.language" and member in v.operators.split())
    return next(tables, added_in(name))


def is_newer(name: str, since: Version, version: Version) -> str:
    """Return what an error says of a name or parameter that the version of a kernel does not have yet."""
    return f"`{name}` is new in NKI {since.name}, and the kernel is written for NKI {version.name}"


def new_in(name: str, since: Version) -> Needs:
    """Return what an error needs that `is_newer` is the message of."""
    return Needs(f"`{name}`", since=since.name)


def begun_with(what: str, since: str) -> Needs | None:
    """Return what an error needs of a form that the version `since` is the first to take; None where none does."""
    if not since:
        return None
    return Needs(what, since=since, note=f"NKI {since} is the first version that takes it")


def ended_with(what: str, later: str) -> Needs:
    """Return what an error needs of a form that the version `later` is the first not to take."""
    names = [version.name for version in VERSIONS]
    until = names[names.index(later) - 1]
    return Needs(what, until=until, note=f"NKI {until} was the last version that took it")


def refused(form: Form, what: str) -> Needs:
    """Return what an error needs of a form that the kernel's version refuses; `what` are the words for it."""
    return ended_with(what, form.refused_since)


def removed_in(name: str) -> Version | None:
    """Return the version that no longer has an official name; None where the newest has it."""
    return next((v for v in VERSIONS if name in v.removes), None)


@lru_cache(maxsize=64)
def deprecated_in(version: Version) -> dict[str, str]:
    """Return the official names that a version advises against, each with what is the same."""
    earlier = (v for v in VERSIONS if v.number <= version.number)
    return {name: now for v in earlier for name, now in v.deprecates.items()}


def former_signature(name: str, version: Version) -> str | None:
    """Return the signature of an official name in a version; None where it is that of the newest version."""
    for later in VERSIONS:
        if later.number > version.number:
            if name in later.before:
                return later.before[name]
            if name in later.removes:
                return later.removes[name][0]
    return None


def version_with(name: str, parameter: str) -> Version | None:
    """Return the last earlier version in which an official function had a parameter; None where none had it."""
    for version in reversed(VERSIONS[:-1]):
        words = (former_signature(name, version) or "").split()
        if any(word.partition("=")[0] == parameter for word in words):
            return version
    return None


def version_since(name: str, parameter: str, version: Version, newest: str) -> Version | None:
    """Return the first version after `version` in which an official function has a parameter.

    Args:
        name: of the function.
        parameter: one of its parameters.
        version: where to begin.
        newest: the signature that the newest version has.
    """
    for later in VERSIONS[VERSIONS.index(version_named(version.name)) + 1 :]:
        former = former_signature(name, later)
        words = (newest if former is None else former).split()
        if any(word.partition("=")[0] == parameter for word in words):
            return later
    return None

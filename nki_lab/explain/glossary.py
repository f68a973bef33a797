"""The glossary: words that errors, views and options use without explaining them.

Numbers are not written here: a term names facts of a target, which bring their values and pages.
"""

from __future__ import annotations

from dataclasses import dataclass

_ARCH = "nki/guides/architecture/trainium_inferentia2_arch.rst"


@dataclass(frozen=True)
class Term:
    """One word.

    Attributes:
        names: how it may be asked for, in lower case; the first is its heading.
        text: what it is.
        source: page of what the text says about hardware; empty where it says nothing of it.
        facts: attributes of a target that say how large or fast it is.
        command: magic whose options belong to it.
    """

    names: tuple[str, ...]
    text: str
    source: str = ""
    facts: tuple[str, ...] = ()
    command: str = ""


TERMS = (
    Term(
        ("sbuf", "state buffer"),
        """\
The main on-chip memory of a NeuronCore. It has two dimensions: partitions, and bytes in each of
them. All engines but Sync compute on tiles in it, and DMA fills and empties it. A tile in it is
nl.ndarray(shape, dtype, buffer=nl.sbuf), or what nl.load returns.""",
        f"{_ARCH}:76 and :588",
        ("partitions", "sbuf_bytes_per_partition", "sbuf_reserved_bytes_per_partition"),
    ),
    Term(
        ("psum", "partial sum buffer", "bank"),
        """\
The small on-chip memory that the Tensor engine writes, and where it can add a result to what is
there: that is how a matmul over a long axis is summed up. It has as many partitions as SBUF, each
divided into banks; before NeuronCore-v4 one nc_matmul writes within one bank. Copy results to SBUF
(nisa.tensor_copy) before they are stored. A tile in it is made with buffer=nl.psum.""",
        f"{_ARCH}:121 and :790",
        ("partitions", "psum_banks", "psum_bank_bytes"),
    ),
    Term(
        ("hbm", "dram", "device memory"),
        """\
The large memory beside the cores. Arguments and results of a kernel are in it; engines do not
reach it, so data goes through SBUF by DMA (nl.load, nl.store, nisa.dma_copy). nl.shared_hbm is
for what a kernel returns and what both cores see, nl.private_hbm for one core's own.""",
        f"{_ARCH}:577 and :588",
        ("hbm_bytes_per_chip", "hbm_stacks_per_chip", "hbm_bytes_per_ns"),
    ),
    Term(
        ("partition", "partition axis", "lane"),
        """\
One row of SBUF or PSUM. Axis 0 of an on-chip tile lies across partitions, and the engines work on
all of them at the same time, a lane for each; the other axes are walked through in time. So a short
axis 0 wastes lanes, and the elements per partition decide how long an instruction takes.""",
        f"{_ARCH}:689 and :704",
        ("partitions", "start_partitions"),
    ),
    Term(
        ("free axis", "free size", "free dimension"),
        """\
Every axis of an on-chip tile but the first. Its elements lie one after the other in each partition
and are read and written one after the other. The free size is their number per partition.""",
        f"{_ARCH}:689",
        ("sbuf_free_max_elements", "psum_free_max_elements"),
    ),
    Term(
        ("tile",),
        """\
A tensor in SBUF or PSUM, what one instruction works on. Larger arrays are cut into tiles by loops
of the kernel. A slice of a tile is a view: it moves no data.""",
    ),
    Term(
        ("tensor engine", "tensor", "tensore", "pe"),
        """\
The engine for matrix products (nisa.nc_matmul) and transposes: an array of cells that holds one
matrix, the stationary, while the other, the moving, streams through. It reads SBUF and writes PSUM.""",
        f"{_ARCH}:96 and :120",
        ("pe_rows", "pe_columns", "tensor_ghz"),
    ),
    Term(
        ("vector engine", "vector", "vectore", "dve"),
        """\
The engine for element-wise operations on two tensors and for reductions along the free axis
(nisa.tensor_tensor, nisa.tensor_reduce). It reads and writes SBUF and PSUM.""",
        f"{_ARCH}:310",
        ("vector_ghz",),
    ),
    Term(
        ("scalar engine", "scalar", "scalare", "act"),
        """\
The engine for functions of one element, such as exp and gelu, with a scale and a bias on the way in
(nisa.activation). Functions come from tables, which take time to load when another one is
needed. It reads and writes SBUF and PSUM.""",
        f"{_ARCH}:413",
        ("scalar_ghz", "scalar_table_load_ns"),
    ),
    Term(
        ("gpsimd engine", "gpsimd", "gpsimde", "pool"),
        """\
The engine for what the others cannot do, such as index patterns and masks (nisa.iota,
nisa.affine_select): processors that run programs. It does not reach PSUM.""",
        f"{_ARCH}:511",
        ("gpsimd_ghz", "gpsimd_start_cycles"),
    ),
    Term(
        ("sync engine", "sync", "synce", "sp"),
        """\
The engine that computes nothing: it starts DMA transfers and waits for semaphores, so that the
others need not.""",
        f"{_ARCH}:58",
        ("sync_ghz",),
    ),
    Term(
        ("dma", "dma engine", "queue"),
        """\
The engines that move data between HBM and SBUF, beside all computing. A transfer waits in a queue,
is cut into descriptors, and has a fixed cost, so few large transfers are faster than many small
ones. The timeline shows one track per queue.""",
        f"{_ARCH}:588",
        ("dma_engines", "dma_bytes_per_ns", "dma_efficient_bytes_per_partition"),
    ),
    Term(
        ("semaphore", "wait", "stall"),
        """\
A counter in hardware that engines and DMA use to wait for each other. The compiler inserts the waits:
an instruction starts when the results it reads are there and nobody still reads what it overwrites.
The report tells how long each engine waited, `--analyse stalls` for what.""",
        f"{_ARCH}:54",
        ("semaphore_hop_ns",),
    ),
    Term(
        ("critical path",),
        """\
The chain of instructions, transfers and waits that took the whole time of a run: only a change of
something on it makes the run shorter. `--analyse path` prints it, result.critical_path() returns it.""",
    ),
    Term(
        ("mfu", "hfu", "model flop utilisation", "hardware flop utilisation"),
        """\
MFU is the share of the Tensor engine's bfloat16 peak that the run's matrix products reached. HFU also
counts the products that only transpose. The Summary of a profile calls them mfu_estimated_percent and
hfu_estimated_percent; the report shows MFU in its Tensor line.""",
        "tools/neuron-explorer/profile-schema-reference.rst",
        ("tensor_ghz", "pe_rows", "pe_columns"),
    ),
    Term(
        ("mbu", "memory bandwidth utilisation"),
        """\
The share of the peak bandwidth of one HBM stack that the run's reads and writes of HBM reached. The
Summary of a profile calls it mbu_estimated_percent; the report shows it in its HBM line.""",
        "tools/neuron-explorer/profile-schema-reference.rst",
        ("hbm_bytes_per_ns_per_chip", "hbm_stacks_per_chip"),
    ),
    Term(
        ("roofline", "arithmetic intensity", "roof"),
        """\
The least time that the work of a run needs by each limit of the chip: products on the Tensor engine,
bytes of HBM, bytes moved by DMA. The largest of these times is the roof. Arithmetic intensity is the
floating-point operations per byte of HBM; where it is below the chip's balance, memory is the roof.
`--analyse roofline` prints it, the view `charts` draws it.""",
        "nki/deep-dives/nki_perf_guide.rst:53",
        ("tensor_ghz", "hbm_bytes_per_ns_per_chip", "dma_bytes_per_ns"),
    ),
    Term(
        ("sbuf peak", "peak in time", "peak in program order"),
        """\
The most bytes of one partition that tiles hold together. In program order, as the memory view counts,
one instruction follows the other, and a tile lasts from its first to its last instruction. In time, as the
report and vary count, loads run ahead of the instructions that wait for them, so that more tiles are
in use together. Both are less than the highest address, which says how far tiles are spread.""",
        f"{_ARCH}:588",
        ("sbuf_bytes_per_partition", "sbuf_reserved_bytes_per_partition"),
    ),
    Term(
        ("balance", "ridge point"),
        """\
The floating-point operations per byte of HBM at which products and bytes take equally long on one core:
the bfloat16 peak divided by the core's share of HBM's rate, or by the rate of its DMA engines where that is
less. The report and `--analyse roofline` print it. Neuron Explorer's peak_flops_bandwidth_ratio, in the
Summary of a profile, divides by the rate of a whole stack, which the cores beside it share.""",
        "tools/neuron-explorer/profile-schema-reference.rst",
        ("tensor_ghz", "hbm_bytes_per_ns_per_chip", "dma_bytes_per_ns"),
    ),
    Term(
        ("rank", "replica group", "collective"),
        """\
One of several devices' logical cores that run the same kernel on their own data. A replica group,
ReplicaGroup([[0, 1], [2, 3]]), lists which ranks work together; a collective (ncc.all_reduce and its
relatives) takes place when all ranks of a list have come to it. nki_lab.launch(kernel, ranks=4,
inputs=[...]) runs the ranks of one node; how long data takes between them is not modelled.""",
        "neuron-runtime/about/collectives.rst:110",
        ("cores_per_chip", "lnc_max"),
    ),
    Term(
        ("logical core", "lnc2"),
        """\
One or two physical NeuronCores that run one kernel. kernel[2](...) launches it on both: each runs the
same program, nl.program_id(0) is 0 on one and 1 on the other, nl.num_programs(0) is 2, and they share
what is in nl.shared_hbm. nisa.core_barrier lets one wait for the other and orders what both do with
its `data`; what both touch without an order, where one writes, is reported as a race.""",
        "nki/get-started/about/index.rst, Logical Neuron Cores",
        ("lnc_max", "cores_per_chip"),
    ),
    Term(
        ("debug run", "print", "breakpoint"),
        """\
A run in which each instruction computes as soon as it is traced, so that print(tile) and breakpoint()
in a kernel see values: %%nki --debug, nki-lab run --debug, nki.jit(debug=True) or NKI_LAB_DEBUG=1.
Without it a kernel is traced before anything is computed, and print(tile) shows shape, dtype and memory.""",
    ),
    Term(
        ("finding",),
        """\
Something an author should know that does not stop a kernel. Kinds: uninitialized, capacity and
hazard may make the result wrong on a device; the others are portability, deprecation, advice and
unchecked (a check that only a run can make). They stand in the report; where none is shown, all but
advice are printed. Where a kernel is called directly, kernel(x) or nki.simulate(kernel)(x), they are
warnings (nki_lab.NkiWarning) at their lines, each once. --strict makes findings errors; --allow makes
a finding of what only later versions of NKI refuse.""",
    ),
    Term(
        ("older dialect", "beta1", "beta 1", "neuronxcc", "neuronxcc.nki"),
        """\
The NKI of Beta 1, `import neuronxcc.nki`: instructions return tiles, and index tensors, masks and
operators on tiles are allowed. Its kernels run as they are; imports tell the dialect, and --nki beta1
says it for a cell without them. `nki-lab migrate` moves a kernel to today's NKI.""",
    ),
    Term(
        ("%%nki",),
        """\
The magic of a cell that holds a kernel. Its first line takes these options; the cell below it is
plain Python. `%%nki?` shows an example.""",
        command="%%nki",
    ),
    Term(
        ("%nki",),
        """\
Runs a kernel of an earlier cell in one line: %nki --run "add(a, b)" --show timeline""",
        command="%nki",
    ),
    Term(
        ("%nki_target",),
        """\
Shows the chip that kernels are compiled for; %nki_target trn2 chooses one for the whole notebook.
`--target` wins over it for one cell.""",
    ),
    Term(
        ("%nki_explain",),
        """\
Explains an error code, an instruction, a function of nki.language, an option, a variable, a target,
or a word of this glossary. `nki-lab explain` does the same in a terminal.""",
    ),
    Term(
        ("%nki_ir", "%nki_layout", "%nki_profile", "%nki_timeline", "%nki_summary"),
        """\
Show a run again: its program after each pass, where its tensors lie, the report, the timeline, and
the metrics by Neuron Explorer's names. Each takes the variable of a run or the file of a stored
profile; without one, it is the last run of the notebook.""",
    ),
    Term(
        ("%nki_vary",),
        """\
Shows sliders for the compile-time parameters of the last run's kernel, or of a run in a variable, and
the timeline of what they say; no value is computed. %nki_vary matmul_result tile_n=128,256,512
target=trn1,trn2 names the values; without any they suggest themselves.""",
    ),
    Term(
        ("%nki_compare",),
        """\
Says where the time of two runs differs, by engine, line and opcode, and shows both on one timeline:
%nki_compare before after, with variables that hold runs, or files of stored profiles. `%%nki --compare
before` compares a new run, `result.show(compare=before)` does it in Python.""",
    ),
    Term(
        ("%nki_exercise",),
        """\
An exercise of the workshop: %nki_exercise 01.2 says what is asked, its state and the next step. The
options help and check; without a number it shows which exercises are solved. In Python the same is
nki_lab.exercises: statement, hint, check, answer, progress.""",
        command="%nki_exercise",
    ),
    Term(
        ("%nki_doctor",),
        """\
Tests this installation: Python, packages, JupyterLab's extension, and one kernel on the simulator.""",
    ),
)

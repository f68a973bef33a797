"""What does each error mean, and how does one get rid of it?"""

from __future__ import annotations

from nki_lab import errors as e

PAGES: dict[type[e.NkiError], str] = {
    e.NkiError: """\
Every error a kernel author is shown starts with a code. The first digit tells the stage: 1 the text
of the kernel, 2 one instruction, 3 memory, 4 values, 5 hardware and official tools, 6 the use of
notebooks, commands and files.""",
    e.KernelErrors: """\
Several independent errors of one kernel, in the order of their lines. Correct the first one and run
again: later ones are sometimes its consequences.""",
    e.LanguageError: """\
The text of the kernel says something that NKI does not allow, or that nki_lab cannot trace. Nothing
has run.""",
    e.InstructionError: """\
An instruction is used in a way the hardware cannot carry out. Nothing has run: instructions are
checked while the kernel is traced.""",
    e.ResourceError: """\
What the kernel keeps on the chip at one time does not fit into SBUF or PSUM. The official CPU
simulator does not notice; a device would refuse the kernel.""",
    e.SimulationError: """\
The kernel is well formed, but its values show a mistake.""",
    e.ToolchainError: """\
The official Neuron packages or a device are missing, or they refused the kernel.""",
    e.UsageError: """\
A magic, a command, a file or an expression was used wrongly. The kernel itself may be right.""",
    e.OutsideKernel: """\
Instructions and the functions of nki.language describe what a NeuronCore does; they mean something
only while a kernel is traced. Put the call into a function decorated with @nki.jit, and call that
function with arrays. A helper function needs no decorator, as long as a kernel calls it.""",
    e.NotModelled: """\
The feature exists in NKI, and this version of nki_lab has no model of it. It refuses the feature by
name, since a wrong result would be worse. The help line says what can be used in its place.""",
    e.TensorOperator: """\
NKI tensors have no Python operators: `a + b` does not say which engine adds, or where the result
goes. Write nl.add(a, b), or the instruction with the destination you mean.""",
    e.TileAssignment: """\
`tile[...] = value` copies a tensor, as nisa.tensor_copy(dst=tile[...], src=value) does; numbers and
arrays of Python cannot be assigned. Fill a tile with nisa.memset. To save the copy, give the view
as `dst` to the instruction that makes the value.""",
    e.ViewError: """\
Slices, reshapes and permutations of a tensor only change how its bytes are walked through. What was
asked for would need other bytes, such as a reshape across partitions. Copy the data instead.""",
    e.OutOfBounds: """\
An index or slice reaches past the end of its axis. Unlike NumPy, NKI does not shorten slices. Where
the last tile is smaller, compute its size: min(tile, size - start).""",
    e.TensorArgument: """\
A tensor needs a shape of positive integers, an NKI dtype, and a memory. In SBUF and PSUM, axis 0 is
the partition axis with at most 128 elements, and there is at least one more axis.""",
    e.UnknownName: """\
The kernel reads a name that neither the notebook (or file), nor Python, nor NKI has. It is checked
when the kernel is defined, so define helpers and constants before the kernel. Or it asks a tensor
for an attribute of NumPy arrays: what computes is a function of nki.language, nl.sum(t, axis=1).""",
    e.KernelRaised: """\
A kernel is run once by Python while it is traced, and its own Python raised: an `assert` that does
not hold, a missing key, a division by zero. The note names the exception; the line is yours.""",
    e.NotAllowed: """\
No NKI compiler takes this Python construct in a kernel: `try`, `yield`, `global` and the like have
no meaning in a program for the engines. They may be used outside kernels, to prepare arguments.""",
    e.KernelResult: """\
What a kernel returns are tensors in shared HBM, made with nl.ndarray(..., buffer=nl.shared_hbm).
Tiles in SBUF or PSUM are gone when the kernel ends; copy them out with nisa.dma_copy. A kernel may
return nothing only if it writes one of its inputs.""",
    e.KernelArgument: """\
A kernel takes arrays (NumPy, PyTorch on the CPU, JAX) of dtypes NKI has, and Python values that
are constants of the program. NumPy makes float64 and int64 by default: cast them.""",
    e.ObjectFields: """\
An NKIObject takes its annotated fields as keywords, and no others. Fields that are left out are
None unless the class gives them a value.""",
    e.OlderDialect: """\
neuronxcc.nki is the older dialect, in which instructions return tiles. In today's NKI,
`import nki`, they write to `dst`. The migration guide of NKI lists every change.""",
    e.StrictFinding: """\
Findings are facts an author should know that do not stop a kernel: a read of memory nothing wrote,
something another NKI compiler refuses. --strict and NKI_LAB_STRICT=1 make each one an error.""",
    e.RemovedLoop: """\
NKI 0.6 deprecates loops over nl.dynamic_range and `while` over a register; a later NKI has them no
longer. Until then they are findings. Write nl.fori_loop and nl.while_loop.""",
    e.RawEnum: """\
Since version 0.3 NKI takes members of enumerations, such as nisa.dge_mode.hwdge, and no integers.
To run a kernel written for an older NKI as it is, allow it: --allow NKI206, NKI_LAB_ALLOW=NKI206,
nki_lab.run(..., allow="NKI206"). The integers then mean the members of the same value.""",
    e.TooManyTrips: """\
Together, the device loops of a run may make 10,000,000 trips, unless --max-trips or
NKI_LAB_MAX_TRIPS says otherwise. A loop over a register that its body never sets to 0 does not end.""",
    e.RegisterValue: """\
A register holds a value that only the device knows, so Python cannot test it, convert it or compute
with it while the kernel is traced. Use it as a bound of nl.fori_loop, as the condition of
nl.while_loop, or as an index: t.select(dim, register), t.ap(..., scalar_offset=register).""",
    e.LoopControl: """\
A loop that the device runs is traced once and ends by its bound or condition: break, continue and
return cannot leave it, tensors made in its body end with it, and it cannot stand in a no_reorder
block. Loops over range() are unrolled and have none of these limits.""",
    e.CoresDiffer: """\
A kernel launched on two cores, kernel[2](...), is traced once per core. The cores may issue other
instructions, but their device loops must be the same, shared_hbm tensors must pair by name or by
order of creation, with one shape and dtype, and both must return the same tensors.""",
    e.BadSyntax: """\
A `%%nki` cell is Python below its first line. The mark shows where Python stopped reading; the
mistake may stand a little earlier, such as a bracket that is never closed. Other magics and shell
commands need cells of their own.""",
    e.WrongCall: """\
An instruction or function of NKI was called with an argument it does not have, or without one it
needs. The note lists its parameters; `explain` with its name shows them with their meaning.
Instructions return no tile: the first argument, `dst`, is the tile they write.""",
    e.WrongOperand: """\
Each engine reaches some memories and not others: Tensor reads SBUF and writes PSUM, GpSimd does not
reach PSUM, and only DMA reaches HBM. Move the data first: nisa.dma_copy between HBM and SBUF,
nisa.tensor_copy between PSUM and SBUF.""",
    e.RuleBroken: """\
An instruction has limits that follow from the hardware: sizes, dtypes, positions, combinations of
arguments. The message is the rule that does not hold, the notes show the operands, the help says
what to change. `explain` with the name of the instruction lists all of its rules.""",
    e.NotOnTarget: """\
The chip the kernel is compiled for lacks the instruction or this form of it; another chip has it.
Choose it with --target, %nki_target or NEURON_PLATFORM_TARGET_OVERRIDE, or use what the help
names.""",
    e.BrokenProgram: """\
A program does not fit together: an instruction uses a tensor the program does not have, or runs
before what it needs. Programs traced from Python never show it; check text edited by hand. If there
is none, please report it.""",
    e.OverCapacity: """\
Tiles in use at the same moment need more bytes per partition than SBUF or PSUM has. A tile is in
use from its first to its last access. The notes list the largest ones with their lines. Use smaller
tiles or narrower dtypes, or store a tile before the next one is loaded. --capacity finding runs the
kernel anyway, in memory no chip has, and says so.""",
    e.AddressConflict: """\
A tensor with an explicit address lies outside its memory, is not aligned, or shares bytes with
another tensor in use at the same time. Leave the address out to have one chosen.""",
    e.UninitializedRead: """\
An instruction reads elements that nothing has written since their tensor was made. On a device they
hold whatever was there before. Write the whole tile first, for example with nisa.memset, or read
only the part that was written.""",
    e.AddressOutOfRange: """\
A register or a tile of indices addressed elements outside its tensor. The message names the index,
the partition and what is valid. Clip the indices in the kernel, or pass oob_mode=nisa.oob_mode.skip
to a DMA, which then leaves out what is out of range.""",
    e.UnwrittenRegister: """\
A register was read before the kernel had set it. Give it a value when it is allocated,
nisa.register_alloc(0), or set it with nisa.register_move or nisa.register_load.""",
    e.MissingPartner: """\
A core waits in a meeting (nisa.sendrecv, nisa.core_barrier) or a rank in a collective, and another
one never comes: it has ended, waits somewhere else, or does not exist. All must come to the same
meetings in the same order; calls of sendrecv with different pipe_id do not wait for each other. A
kernel that is called runs as rank 0 alone: nki_lab.launch(kernel, ranks=4, inputs=[...]) runs
several.""",
    e.RanksDiffer: """\
The ranks of a replica group must come to the same collective, with tensors of one shape and dtype,
and every rank that comes must be in one of its groups. All ranks run one program, so they differ
only where values decide: in loops that the device runs, and between the two cores of a rank.""",
    e.CheckFailed: """\
The result and the reference given to --check differ by more than the tolerance, which follows from
the narrowest dtype involved: about 1e-5 of the value for float32, 2e-2 for bfloat16, nothing for
integers. The message names the worst element. A different shape is an error as well. Or an
`assert nl.equal(a, b)` of the kernel does not hold for the values of this run.""",
    e.TimedOut: """\
The time given with --timeout was over. The lines show where the kernel was. All loops that are not
dynamic are unrolled while tracing, so a loop over millions takes long; a `while` over Python values
that never becomes false takes for ever.""",
    e.UnknownOption: """\
The magic or command does not have this option, or the option does not take this value. Values are
quoted as in a shell: --run 'add(a, b)'. One that starts with a dash is written --check='-a'.""",
    e.BadFile: """\
A file cannot be used: it is damaged, of another kind, or written by a newer version.""",
    e.UnknownTarget: """\
Targets are chips: trn1, trn2, trn3. Their other names are inf2 and gen2 (trn1), gen3 (trn2), gen4
(trn3).""",
    e.BadKernelText: """\
The text form of a kernel (.nkir) cannot be read at the place marked. It is what `--show ir` prints;
take such a text as a pattern.""",
    e.NoKernel: """\
A kernel was expected and there is none, or more than one and none is chosen. A `%%nki` cell
defines functions decorated with @nki.jit, or exactly one function. On the command line a kernel is
named file.py:kernel.""",
    e.UnknownTopic: """\
`explain` knows error codes (NKI203), instructions (nc_matmul), functions of nki.language
(nl.softmax), methods of tensors (t.reshape), named choices (nisa.dge_mode), what nki and nki_lab
offer (nki_lab.launch), options (--check), environment variables and targets.""",
    e.ErrorNotRaised: """\
With --expect a cell shows a mistake on purpose: it succeeds only if the error named there comes.
This cell ended without any. Put the mistake back, or take --expect away.""",
    e.ExerciseFailed: """\
The kernel, slice or answer that was handed in does not do what the exercise asks. The message names
what was found and with which arguments; other arguments are drawn in each check, so that only what
is right for all of them passes. hint("01.2") helps in three steps, %nki_exercise 01.2 shows again
what is asked.""",
    e.UnknownExercise: """\
An exercise is named by the number of its notebook and its own, in quotes: check("01.2", kernel).
progress() lists all of them.""",
}

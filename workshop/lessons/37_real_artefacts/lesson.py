# %% [markdown] id="title"
# # 37 Files from a device
#
# You read the files that a run on a device leaves: an export of its profile, a compiled program, a capture. About
# 30 minutes.
#
# **No file of this notebook comes from a device.** The next cells make them: laid out as the official tools lay
# them out, with the times of the model, in which some constants were changed. What you learn here works on
# real ones.

# %% [markdown] id="load-text"
# ## Load the extension

# %% id="load"
...

# %% id="target"
# %nki_target trn2

# %% id="inputs"
import json
import os
import tempfile
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import nki_lab
from nki_lab.exercises import answer
from nki_lab.exercises.artefacts import write_files

os.chdir(tempfile.mkdtemp())  # for the files of this notebook
rng = np.random.default_rng(seed=37)
x = rng.standard_normal((512, 256), dtype=np.float32)
w = rng.standard_normal((1, 256), dtype=np.float32)

# %% [markdown] id="kernel-text"
# ## The kernel that was measured
#
# **Specification.** `gated_rows(x, w)` returns `exp(gelu(x)) * w`; `w` is one row.


# %% id="kernel"
# %%nki --run "gated_rows(x, w)" --show none
@nki.jit
def gated_rows(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    weight = nl.ndarray((128, columns), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=w.broadcast(0, 128))

    for start in range(0, rows, 128):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + 128])
        nisa.activation(dst=tile, op=nl.gelu, data=tile)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weight, op=nl.multiply)
        nisa.dma_copy(dst=out[start : start + 128], src=tile)
    return out


# %% [markdown] id="make-text"
# ## The files
#
# `export.json` is what `neuron-explorer view --output-format json` writes, `a.neff` and `b.neff` are compiled
# programs, and `profile.ntff` is the capture of one of them. `modelled.json` is the modelled profile.

# %% id="make"
write_files(gated_rows_result, nki_lab.run(gated_rows, x[:128], w))
print(*sorted(os.listdir()))

# %% [markdown] id="open-text"
# ## Open an export
#
# It is one JSON document. Look at it with your own eyes first.

# %% id="open"
document = json.loads(Path("export.json").read_text())
summary = document["summary"][0]

print(*(f"{name}: {len(rows)}" for name, rows in document.items()))
for row in document["instruction"][:3]:
    print(row["timestamp"], row["duration"], row["label"], row["opcode"])
print(f"total_time {summary['total_time']:.3e}, total_exec_time {summary['total_exec_time']:.3e}")

# %% [markdown] id="unit-text"
# ## Your turn: 37.1 The unit
#
# No field says in which unit `timestamp` and `duration` are; one version of the official tool wrote nanoseconds,
# another one picoseconds. Times of the summary are seconds. Which unit do the instructions have?

# %% id="unit-answer" exercise="37.1" check="37.1"
# one of: "ps", "ns", "us"
answer("37.1", ...)

# %% [markdown] id="total-text"
# ## Your turn: 37.2 Two totals
#
# `total_time` is the time from start to stop of the core, `total_exec_time` that from the first to the last
# instruction that is not setup (the schema reference of Neuron Explorer). How many microseconds lie between them,
# and which instruction spends most of them?
#
# **Predict.** With which of the two would you compare a modelled time?

# %% id="total-answer" exercise="37.2" check="37.2"
answer("37.2", ...)

# %% [markdown] id="load-profile-text"
# ## The same in one call
#
# `nki_lab.load_profile` finds the unit in the same way. A JSON export does not name the chip, so you do. All views
# know a measured profile; each of them says that it was measured.

# %% id="load-profile"
measured = nki_lab.load_profile("export.json", target="trn2")
print(measured)
print(measured.lines())

# %% [markdown] id="bound-text"
# ## Your turn: 37.3 What bounds it
#
# **Predict.** Four tiles of 128 KiB come and go, and each is computed on three times.

# %% id="bound"
# %nki_timeline measured

# %% id="bound-answer" exercise="37.3" check="37.3"
# one of: "tensor", "vector", "scalar", "gpsimd", "dma", "waiting"
answer("37.3", ..., measured)

# %% [markdown] id="tables-text"
# Half of that engine's time is no work: `gelu` and `exp` are in different activation tables, and each tile needs
# both. The model says so, too; you need no device for this finding.

# %% [markdown] id="compare-text"
# ## Beside the model
#
# Events of both runs are paired by line and order, and each pair has a ratio: measured / modelled. Where it is 1,
# the model is right about this device.

# %% id="compare"
print(nki_lab.compare(gated_rows_result, measured).model)

# %% [markdown] id="class-text"
# ## Your turn: 37.4 Where the model is wrong
#
# Which class of instructions takes longer on the device than the model says? Name it as the table does.

# %% id="class-answer" exercise="37.4" check="37.4"
answer("37.4", ...)

# %% [markdown] id="calibrate-text"
# ## Constants
#
# `nki-lab calibrate`, or the function, asks which constants of the chip explain the difference. It finds what was
# changed to make `export.json`, and says what these times cannot tell.

# %% id="calibrate"
found = nki_lab.calibrate((gated_rows_result, measured))
for constant in found.fit.constants:
    if constant.moved:
        print(
            f"{constant.name:<26}{constant.before:>6g} -> {constant.value:>6.4g}  {constant.remark}"
        )

# %% [markdown] id="calibrate-after"
# One kernel with one size cannot tell a slower clock from a longer latency: both make each activation longer. Kernels
# with several sizes can. `found.save("mine.toml")` writes an overlay, and `--target trn2+mine.toml` uses it.

# %% [markdown] id="neff-text"
# ## A compiled program
#
# A NEFF is a header of 1,024 bytes and an archive. It holds the transfers of the program with the place of each tile
# in SBUF: what the real compiler decided.

# %% id="neff"
# %neff_layout a.neff

# %% [markdown] id="pair-text"
# ## Your turn: 37.5 Which program was captured
#
# A capture can only be read with the program it was made of; both carry the same UUID. Which NEFF belongs to
# `profile.ntff`? `nki_lab.hardware.neff` has `read_neff(path).uuid` and `belongs(uuid, ntff)`.

# %% id="pair-answer" exercise="37.5" check="37.5"
# "a.neff" or "b.neff"
answer("37.5", ...)

# %% [markdown] id="seen"
# ## What you have seen
#
# * The unit of an export follows from its own total; compare with `total_exec_time`, not with `total_time`.
# * Every view, analysis and comparison works on a measured profile, and says that it was measured.
# * Ratios per class show where a model is wrong; one kernel rarely shows which constant.
# * A capture belongs to one program, and a check of their UUIDs tells which.

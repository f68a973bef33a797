# %% [markdown] id="title"
# # 00 Setup
#
# In five minutes you see whether everything works here, what you can do in this lab, and what you cannot
# do yet.
#
# You need no Trainium and no Neuron software. A kernel is compiled for the chip you name, its values
# are computed on this computer, and its time is modelled from public documents.

# %% [markdown] id="load-text"
# ## Load the extension
#
# Every notebook starts with this cell. Click into it and press Shift+Enter to run it. If it says that there
# is no module `nki_lab`, its comment tells you how to install it.

# %% id="load"
# The cell that every notebook starts with; its text stands in workshop/generate.py.

# %% [markdown] id="target-text"
# ## Choose a chip
#
# Kernels are compiled for one chip, the target. `%nki_target` chooses it for the whole notebook, and
# `%%nki --target ...` for one cell.
#
# | target | chip | NeuronCore |
# |---|---|---|
# | `trn1` | Trainium and Inferentia2 | v2 |
# | `trn2` | Trainium2 | v3 |
# | `trn3` | Trainium3 | v4 |

# %% id="target"
# %nki_target trn2

# %% [markdown] id="doctor-text"
# ## Is everything here?
#
# `%nki_doctor` looks at Python, the packages, JupyterLab's extension and the target, and runs a small
# kernel. If something that nki_lab needs is missing, it raises an error and says what to do. A `note` is
# for your information. The lines describe *your* computer, so this is the only cell of the workshop
# whose output is not stored with the notebook.

# %% id="doctor" tags=["nbval-ignore-output"]
# %nki_doctor

# %% [markdown] id="kernel-text"
# ## Run one kernel
#
# A cell that starts with `%%nki` holds a kernel. `--run` calls it, and `--check` compares its result
# with NumPy. If the two differ, the cell ends with an error; without one, the
# numbers are right.

# %% id="inputs"
import numpy as np

x = np.linspace(-1, 1, 128 * 64, dtype=np.float32).reshape(128, 64)


# %% id="kernel"
# %%nki --run "double(x)" --check "2 * x" --show none
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out


# %% [markdown] id="kernel-after"
# The line says that the kernel `double` was compiled for `trn2`, and how many *modelled* microseconds it
# took. The variable `double_result` keeps the whole run. Notebook 01 looks at it in detail.

# %% [markdown] id="help-text"
# ## Ask for help
#
# `%nki_explain` knows error codes, instructions, functions of `nki.language`, methods of tensors
# such as `reshape`, options, environment variables, targets and words such as `psum`. `%%nki?` lists
# the options, and the tab key completes them.

# %% id="help"
# %nki_explain --check

# %% [markdown] id="here"
# ## What is here, and what is not
#
# | | |
# |---|---|
# | **language** | NKI 0.7; a cell, file or kernel that begins with the comment `# nki: 0.6` is held to the rules of that version |
# | **values** | computed tile by tile with the number types of the chip and rounded where it rounds |
# | **rules** | sizes, types, memories and positions that the hardware refuses are errors at the line of your cell; so is a tile that does not fit in on-chip memory |
# | **times** | modelled from public documents: good for comparing kernels and finding what bounds one, not for promises; every report says *modelled* |
# | **chips** | `trn1`, `trn2`, `trn3`; one NeuronCore, or the two of a logical core with `kernel[2]` |
#
# A missing feature never gives a wrong result silently:
#
# | not yet | what happens |
# |---|---|
# | running on a device | `--backend neuron` was built against stand-ins of the official tools and has not been confirmed on hardware yet; where there is no device, it is an error that lists what was looked for |
# | collectives between nodes | an error; `nki_lab.launch` runs the ranks of one node |
# | transfer times between ranks | the report says that it is not counted |
# | stepping through two cores, or ranks, that exchange data | the stepper says so and suggests what to do instead |
#
# Next: [01 First kernel](01_first_kernel.ipynb).

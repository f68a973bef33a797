"""Every mistake a user of nki_lab can make: one class per mistake, with its code, its page and its examples.

    NkiError                         everything shown to a kernel author
    +-- KernelErrors       NKI001    all errors of one kernel
    +-- LanguageError      NKI1xx    what the kernel's text may say
    +-- InstructionError   NKI2xx    a rule of one instruction
    +-- ResourceError      NKI3xx    memory that does not fit
    +-- SimulationError    NKI4xx    found while values are computed
    +-- ToolchainError     NKI5xx    hardware and the official tools
    +-- UsageError         NKI6xx    notebooks, command line, files

Each stage has its file. An error has a place in the author's text, says what was found and what was expected, and what
to write instead. `str(error)` is the same on every run (no paths, ids or times), since nbval compares it.
"""

# A new class is imported without being named here.
# ruff: noqa: F401, F403
from nki_lab.errors.beta1 import *
from nki_lab.errors.instruction import *
from nki_lab.errors.language import *
from nki_lab.errors.nki_error import KernelErrors, Needs, NkiError, error_classes, in_order, joined
from nki_lab.errors.resource import *
from nki_lab.errors.simulation import *
from nki_lab.errors.toolchain import *
from nki_lab.errors.tracebacks import show_place, without_our_frames
from nki_lab.errors.usage import *

# Most errors that give a help look for close matches.
from nki_lab.rewrite import close_matches

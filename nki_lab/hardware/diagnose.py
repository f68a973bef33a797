"""Turns what the official tools say into an error of ours: what it means, and what to do.

    error = diagnose(stderr, tool="neuron-explorer", code=1)
    print(without_harmless(stderr))

The table below has one row for each message. The lines that the tools printed stay with the error, as notes.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nki_lab.errors import (
    CompilerRefused,
    DeviceBusy,
    DeviceFailed,
    DeviceMemory,
    DeviceNaN,
    DeviceOutOfBounds,
    DeviceTimedOut,
    DiskFull,
    KernelRefused,
    LogicalCoreMismatch,
    NoDevice,
    NotificationOverflow,
    PackageMissing,
    ProcessDied,
    ProfileToolRefused,
    ProgramRefused,
    ToolchainError,
    VersionSkew,
)

#: So many lines of what a tool printed stay with an error: those around the one that tells.
LINES_KEPT = 6
_LINE_LENGTH = 300


class Message(NamedTuple):
    """A message of the official tools.

    Attributes:
        pattern: finds it in a line; its groups fill the braces of `means`.
        kind: our error.
        means: what it means, in one sentence.
        help: what to do.
        source: the page that shows it; "seen" where only somebody else's notes do.
    """

    pattern: str
    kind: type[ToolchainError]
    means: str
    help: str
    source: str


_TROUBLES = "neuron-runtime/nrt-troubleshoot.rst"
_STATUS = "neuron-runtime/api/nrt_status.rst"
_EXPLORER = "tools/neuron-explorer/troubleshooting.rst"
_MIGRATION = "nki/migration/index.rst"
_RELOAD = "load the driver again: sudo rmmod neuron; sudo modprobe neuron"
_UPDATE = (
    "update aws-neuronx-dkms, aws-neuronx-runtime-lib, neuronx-cc and nki to one release of the SDK"
)
_SIMULATE = "run it with --backend simulator and the same inputs, which names the line"

#: What the tools say, the more special before the more general: the first row that a line fits decides.
MESSAGES: tuple[Message, ...] = (
    # Packages and files.
    Message(r"No module named '(nki|neuronxcc|nrtpy|spike)[.\w]*'", PackageMissing, "the package {0} is not installed",
            "name the Python of an environment that has it in NKI_LAB_NEURON_PYTHON", "nki/get-started/setup-env.rst"),
    Message(r"(libnrt\.so\S*): cannot open shared object file", PackageMissing,
            "the library {0} of the runtime was not found",
            "install aws-neuronx-runtime-lib; or set LD_LIBRARY_PATH=/opt/aws/neuron/lib",
            "neuron-runtime/nrtpy/nrtpy-troubleshooting.rst"),
    Message(r"No space left on device|Errno 28", DiskFull, "the disk is full",
            "make room, or choose another folder for runs", "errno(3)"),
    # Before anything runs.
    Message(r"No neuron device available", NoDevice, "no Neuron device is available",
            "load the driver: sudo modprobe neuron; in a container, pass --device=/dev/neuron0",
            "deploy/troubleshooting.rst"),
    Message(r"Unable to determine Neuron Driver version", NoDevice, "the Neuron driver is not installed or not loaded",
            "install aws-neuronx-dkms, then: sudo modprobe neuron", _TROUBLES),
    Message(r"Could not open the (nd\d+)", NoDevice,
            "device {0} cannot be opened: fewer devices are there than were asked for",
            "ask for fewer cores: --core, NEURON_RT_VISIBLE_CORES", _TROUBLES),
    Message(r"requires Neuron Driver version (\S+) or greater", VersionSkew,
            "the runtime needs version {0} or newer of the driver",
            "install the newest aws-neuronx-dkms, and " + _RELOAD, _TROUBLES),
    Message(r"aws_hal_tpb_pooling_write_profile", VersionSkew, "the driver is older than this runtime",
            "install the newest aws-neuronx-dkms, and " + _RELOAD, _TROUBLES),
    Message(r"compatibility id: (\S+?)\) is not compatible", VersionSkew,
            "runtime and driver do not work together (id {0})",
            f"{_UPDATE}; then {_RELOAD}", _TROUBLES),
    Message(r"NeuronCore\(s\) not available - Requested:(\S+) Available:(\d+)", DeviceBusy,
            "another process holds the cores that were asked for ({0}; {1} are free)",
            "end that process, or choose another core with --core", _TROUBLES),
    Message(r"NRT_EXEC_NC_BUSY", DeviceBusy, "another process or program holds the core",
            "end that process, or choose another core with --core", _STATUS),
    Message(r"Failed to stop neuron core|TDRV not initialized|Failed to initialize devices", DeviceFailed,
            "an earlier program left the device running", _RELOAD, _TROUBLES),
    # The compiler.
    Message(r"NCC_EARG001", LogicalCoreMismatch, "the chip has no logical cores of this size",
            "choose --lnc 1: trn1 and inf2 have logical cores of one physical core",
            "compiler/error-codes/EARG001.rst"),
    Message(r"NCC_EVRF065", VersionSkew, "the kernel was traced by a version of NKI that the compiler does not read",
            "install nki and neuronx-cc of one release, and run the kernel again", "compiler/error-codes/EVRF065.rst"),
    Message(r"NCC_EVRF059", CompilerRefused, "a file of the compiler was deleted while it ran",
            "run the kernel again; leave its folder alone meanwhile", "compiler/error-codes/EVRF059.rst"),
    Message(r"NCC_(EOOM\d+)", CompilerRefused, "the tensors need more device memory than there is ({0})",
            "use smaller inputs", "compiler/error-codes/EOOM001.rst"),
    Message(r"NCC_EXTP004", CompilerRefused, "the kernel has more instructions than the compiler takes",
            "use smaller inputs, or a loop that the device runs in place of one that is unrolled",
            "compiler/error-codes/EXTP004.rst"),
    Message(r"NCC_(E\w+)", CompilerRefused, "the compiler refuses the kernel with NCC_{0}",
            "read its page: compiler/error-codes in the documentation of the SDK", "compiler/error-codes/index.rst"),
    Message(r"unexpected keyword argument '(platform_target|mode)'", KernelRefused,
            "nki.jit of this NKI takes no `{0}`",
            "leave it out: the chip is chosen by --target, and what runs the kernel by --backend", _MIGRATION),
    Message(r"\blists?\b.* not supported\b", KernelRefused,
            "NKI takes no lists as arguments of a kernel", "write a tuple", _MIGRATION),
    Message(r"\boutputs? must be .*\bshared_hbm", KernelRefused, "a kernel returns only tensors in shared_hbm",
            "make it with nl.ndarray(..., buffer=nl.shared_hbm)", _MIGRATION),
    # While a capture runs: before the timeout that its text speaks of.
    Message(r"NRT_EXEC_SW_NQ_OVERFLOW|DGE notification", NotificationOverflow,
            "the kernel makes more dynamic transfers than the device can note while it is profiled",
            "capture it without --enable-dge-notifs, or set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0", _TROUBLES),
    # Loading and running.
    Message(r"NEFF version mismatch supported: (\S+) received: (\S+)", VersionSkew,
            "the runtime reads programs of version {0}, and this one has {1}", _UPDATE, _TROUBLES),
    Message(r"Unsupported hardware operator code (\d+)", VersionSkew,
            "the runtime does not know operation {0} of the program", _UPDATE, _TROUBLES),
    Message(r"Could not find VNC id|NRT_LOAD_NOT_ENOUGH_NC|Logical NC not available", LogicalCoreMismatch,
            "the program needs other logical cores than the runtime has",
            "set --lnc to what kernel[n] is launched on; NEURON_LOGICAL_NC_CONFIG must be the same", _TROUBLES),
    Message(r"NRT_EXEC_OOB|out-of-bound access|completed with err: 1006", DeviceOutOfBounds,
            "an index left its tensor while the device ran", _SIMULATE, _TROUBLES),
    Message(r"NRT_EXEC_COMPLETED_WITH_NUM_ERR|INFER_ERROR_SUBTYPE_NUMERICAL", DeviceNaN, "the device computed NaN",
            "run it with --backend simulator and the same inputs, and look at its steps", _TROUBLES),
    Message(r"mc_alloc: device mempool|NRT_RESOURCE|NRT_FAIL_HOST_MEM_ALLOC", DeviceMemory,
            "there is no memory for the program", "use smaller inputs, or end other processes that use the device",
            _TROUBLES),
    Message(r"(NRT_EXEC_HW_ERR_\w+|NRT_EXEC_UNIT_UNRECOVERABLE|NRT_HW_ERROR|NRT_NETWORK_PROXY_FAILURE)", DeviceFailed,
            "the device reports a failure of its hardware ({0})",
            f"{_RELOAD}; where that does not help, stop and start the instance", _STATUS),
    Message(r"NRT_EXEC_COMPLETED_WITH_ERR|GPSIMD EXCEPTION", DeviceFailed, "an engine ended with an error",
            "unset NEURON_RT_RESET_CORES, so that the next run resets the core; the simulator may show why", _TROUBLES),
    Message(r"NRT_TIMEOUT|inference timeout|execution timeout|completed with err: 5\b", DeviceTimedOut,
            "the kernel did not end on the device",
            "run it with --backend simulator, which reports a wait for what never happens; NEURON_RT_EXEC_TIMEOUT gives"
            " more time", _TROUBLES),
    Message(r"(NRT_EXEC_BAD_INPUT|NRT_INVALID\b)", ProgramRefused,
            "the runtime refuses the program or its inputs ({0})",
            "compile the kernel again, and give inputs of the shapes and dtypes it was compiled for", _STATUS),
    Message(r"(NRT_FAILURE|NRT_UNSUPPORTED_NEFF_VERSION)", ProgramRefused,
            "the runtime does not load the program ({0})",
            "compile it again for the chip of this device: --target", "neuron-runtime/nrtpy/nrtpy-troubleshooting.rst"),
    # Profiles.
    Message(r"influxdb? .*not setup|\"influx\"", ProfileToolRefused,
            "neuron-profile looks for a database, which nki_lab does not use",
            "name a format: --output-format json", "archive/profiler/neuron-profile-user-guide.rst"),
    Message(r"Missing --display-name", ProfileToolRefused, "neuron-explorer wants a name for the profile",
            "add --display-name", "seen"),
    Message(r"UUID mismatch", ProfileToolRefused, "the NTFF was not captured from this NEFF",
            "name the NEFF that was captured; both come from one compilation", _EXPLORER),
    Message(r"ERROR_PROCESS_INCOMPLETE", ProfileToolRefused, "neuron-explorer could not process the profile",
            "look whether NEFF and NTFF belong together, whether the disk is full, and whether the NTFF is above 5 GB",
            _EXPLORER),
    Message(r"unsupported type for npy output: (\w+)", ProfileToolRefused, "outputs of dtype {0} are not saved as .npy",
            "save them as bytes: --save-output", "archive/profiler/neuron-profile-user-guide.rst"),
)  # fmt: skip

#: Lines that mean nothing, and the pages that say so.
HARMLESS: tuple[tuple[str, str], ...] = (
    (r"CCOM WARN (NET/)?OFI", "nki/get-started/quickstart-implement-run-kernel.rst"),
    (r"Platform 'neuron' is experimental", "nki/get-started/quickstart-implement-run-kernel.rst"),
    (
        r"ERRO\[\d+\] (Unable to process node|invalid DMA duration|Unable to convertToInt64)",
        _EXPLORER,
    ),
)
_MEANS_NOTHING = re.compile("|".join(pattern for pattern, _ in HARMLESS))


def diagnose(
    text: str, *, tool: str = "", code: int | None = None, users: Iterable[object] = ()
) -> ToolchainError:
    """Return what the official tools say as an error of ours.

    Args:
        text: what they printed.
        tool: who printed it, where that is known.
        code: its exit code; negative for the signal that ended it.
        users: the processes that hold cores, for an error that is about them.
    """
    lines = without_harmless(text).splitlines()
    for message in MESSAGES:
        for number, line in enumerate(lines):
            if found := re.search(message.pattern, line):
                notes = [f"cores are held by {user}" for user in users] * _is_about_users(
                    message.kind
                )
                means = message.means.format(*found.groups(""))
                notes += _kept(lines, number, tool)
                return message.kind(means, notes=notes, help=message.help)
    who = tool or "the process that ran the kernel"
    if code is not None and code < 0:
        ended = f"{who} was ended by {_signal(-code)} before it had a result"
        help = "run it again; where the system ended it for its memory, use smaller inputs"
        return ProcessDied(ended, notes=_kept(lines, len(lines), tool), help=help)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    ended = f"{who} ended with exit code {code}" if code is not None else f"{who} failed"
    return ToolchainError(
        f"{ended}: {last[:_LINE_LENGTH]}",
        notes=_kept(lines, len(lines), tool),
        help="read what it printed; run it with --backend simulator to see whether the kernel is right",
    )


def without_harmless(text: str) -> str:
    """Return a text without the lines that mean nothing."""
    return "".join(
        line for line in text.splitlines(keepends=True) if not _MEANS_NOTHING.search(line)
    )


def _is_about_users(kind: type[ToolchainError]) -> bool:
    return issubclass(kind, (DeviceBusy, DeviceMemory, VersionSkew, DeviceFailed))


def _kept(lines: Sequence[str], number: int, tool: str) -> list[str]:
    """Return the lines up to the one that tells and those behind it, as notes."""
    first = max(0, number - LINES_KEPT // 2)
    chosen = lines[first : first + LINES_KEPT]
    return [
        f"{tool or 'it'} printed: {line.strip()[:_LINE_LENGTH]}" for line in chosen if line.strip()
    ]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""Errors NKI5xx: hardware and the official tools."""

from __future__ import annotations

from nki_lab.errors.nki_error import NkiError

_ON_THE_SIMULATOR = "$ nki-lab run copy.py:copy --input x=randn:128x64"


def _said(*lines: str) -> str:
    """Return a script that ends as a run does in which the official tools say these lines."""
    script = "from nki_lab.hardware.diagnose import diagnose\n\n"
    said = "".join(f'\n    "{line} "' for line in lines)
    return f"{script}raise diagnose({said}\n)\n"


class ToolchainError(NkiError):
    """The official toolchain or the device is missing or refused."""

    code = "NKI500"
    page = "The official Neuron packages or a device are missing, or they refused the kernel."
    wrong = _said("a message that no page tells of")
    right = _ON_THE_SIMULATOR


class NoDevice(ToolchainError):
    """No Neuron device can be found, or its driver is not loaded."""

    code = "NKI501"
    page = """
        A device was asked for, and there is none: the instance has no Neuron device, its driver is not
        loaded, or a container does not see it. %nki_doctor prints what was looked for and what is missing.
        The simulator is never used in its place: leave --backend neuron out to have it.
        """
    wrong = _said("ERROR  TDRV:tdrv_get_dev_info    No neuron device available")
    right = _ON_THE_SIMULATOR


class PackageMissing(ToolchainError):
    """A Neuron package or library is missing in the Python that was asked."""

    code = "NKI502"
    page = """
        The Python interpreter that compiles or runs the kernel lacks a Neuron package, or the runtime's
        library is not found. NKI_LAB_NEURON_PYTHON names the interpreter of an environment that has the
        packages, such as /opt/aws_neuronx_venv_pytorch_2_9/bin/python on a Deep Learning AMI.
        """
    wrong = _said("ModuleNotFoundError: No module named 'nki'")
    right = _ON_THE_SIMULATOR


class DeviceBusy(ToolchainError):
    """Another process holds the NeuronCore."""

    code = "NKI503"
    page = """
        A process that has started the Neuron Runtime keeps its NeuronCores until it ends, and nobody else
        can use them. Often it is the kernel of another notebook that has run a kernel itself; nki_lab runs
        them in a process of their own, which ends. The error names the processes that hold cores. End
        them, or take another core with --core.
        """
    wrong = _said(
        "ERROR   NRT:nrt_allocate_neuron_cores", "NeuronCore(s) not available - Requested:nc1-nc1 Available:0"
    )  # fmt: skip
    right = _ON_THE_SIMULATOR


class LogicalCoreMismatch(ToolchainError):
    """A kernel is launched on another number of physical cores than a logical core has."""

    code = "NKI504"
    page = """
        NEURON_LOGICAL_NC_CONFIG says how many physical cores a logical core has, and kernel[n](...) must
        launch on as many; --lnc sets both. trn1 and inf2 have only logical cores of one physical core.
        """
    wrong = _said("Logical NC not available")
    right = _ON_THE_SIMULATOR


class DeviceOutOfBounds(ToolchainError):
    """A transfer by index left its tensor on the device."""

    code = "NKI505"
    page = """
        A transfer whose place comes from an index reached outside its tensor while the device ran. The
        runtime does not say which line it was; the simulator does: run the kernel there, with the same
        inputs.
        """
    wrong = _said("NRT Error NRT_EXEC_OOB(1006): Failed to execute model")
    right = _ON_THE_SIMULATOR


class VersionSkew(ToolchainError):
    """Driver, runtime, compiler and packages are of versions that do not work together."""

    code = "NKI506"
    page = """
        Two parts of the Neuron SDK are of versions that do not work together: driver and runtime, compiler
        and runtime, or nki and neuronx-cc. Update all of them to one release of the SDK. After an update of
        the driver, load it again: sudo rmmod neuron; sudo modprobe neuron. No process may use it meanwhile.
        """
    wrong = _said("NEFF version mismatch supported: 1.1 received: 2.0")
    right = _ON_THE_SIMULATOR


class DeviceTimedOut(ToolchainError, TimeoutError):
    """A kernel did not end on the device, or a tool did not answer in time."""

    code = "NKI507"
    page = """
        The device or a tool did not end within the time limit, and the process was ended. A kernel that
        waits for what never happens hangs; the simulator reports such a wait. --timeout gives more time,
        NEURON_RT_EXEC_TIMEOUT gives more to one execution.
        """
    wrong = _said("NRT Error NRT_TIMEOUT(5): Failed to execute model")
    right = _ON_THE_SIMULATOR


class NotificationOverflow(ToolchainError):
    """A kernel makes more dynamic transfers than the device can note while it is profiled."""

    code = "NKI508"
    page = """
        Noting each dynamic transfer (DGE notifications) overflowed the queue of the runtime, which waited
        until its time was over. The capture is made again without them, and says so: single transfers are
        then missing from the profile.
        """
    wrong = _said("Failure: NRT_EXEC_SW_NQ_OVERFLOW in nrt_execute()")
    right = _ON_THE_SIMULATOR


class DeviceNaN(ToolchainError):
    """The device has computed NaN, and the runtime treats it as an error."""

    code = "NKI509"
    page = """
        The runtime reports that NaN was computed. The simulator, with the same inputs, shows where they
        come from: nki_lab.run(...).steps, or --show steps.
        """
    wrong = _said("Error notifications found on NC .... INFER_ERROR_SUBTYPE_NUMERICAL")
    right = _ON_THE_SIMULATOR


class DeviceFailed(ToolchainError):
    """The device reports a failure of its hardware, or a state it cannot leave."""

    code = "NKI510"
    page = """
        The device reports a failure of its memory or engines, or is in a state it cannot leave. Load the
        driver again: sudo rmmod neuron; sudo modprobe neuron. Where that does not help, stop and start the
        instance, which gives it another device.
        """
    wrong = _said("NRT Error NRT_EXEC_HW_ERR_HBM_UE(1201): Failed to execute model")
    right = _ON_THE_SIMULATOR


class CompilerRefused(ToolchainError):
    """The official compiler refuses a kernel that nki_lab compiles."""

    code = "NKI511"
    page = """
        The official compiler ends with an error code of its own, NCC_..., whose page is named. Where
        nki_lab compiles the kernel, please report it with the kernel: one of the two is wrong.
        """
    wrong = _said("[NCC_EXTP004] The number of instructions generated exceeds the limit.")
    right = _ON_THE_SIMULATOR


class ProfileToolRefused(ToolchainError):
    """neuron-explorer or neuron-profile does not capture or export a profile."""

    code = "NKI512"
    page = """
        The tool that captures and exports profiles refuses. A NEFF and an NTFF must come from the same
        compilation. Of the two tools neuron-explorer is the newer one; neuron-profile needs a database for
        its own display, which nki_lab does not use.
        """
    wrong = _said("ERROR_PROCESS_INCOMPLETE")
    right = _ON_THE_SIMULATOR


class ProgramRefused(ToolchainError):
    """The runtime does not load a compiled program, or not with these inputs."""

    code = "NKI513"
    page = """
        The runtime refuses a compiled program: it is of another chip than the device, damaged, or called
        with inputs of other names or sizes. Compile it again for this device: --target names the chip.
        """
    wrong = _said("NRT Error NRT_FAILURE(6): Failed to load model")
    right = _ON_THE_SIMULATOR


class DeviceMemory(ToolchainError, MemoryError):
    """The memory of the device or of the host does not hold a program and its tensors."""

    code = "NKI514"
    page = """
        The runtime found no memory for the program and its tensors. Other processes that use the device
        keep memory, too; the error names them.
        """
    wrong = _said("NRT Error NRT_RESOURCE(4): Failed to load model")
    right = _ON_THE_SIMULATOR


class KernelRefused(ToolchainError):
    """The installed NKI does not take a form of the kernel or of its call."""

    code = "NKI515"
    page = """
        The installed version of NKI refuses what the kernel or its call says. nki_lab holds kernels to the
        same rules when it knows the version: --nki 0.6. nki-lab migrate rewrites older forms.
        """
    wrong = _said("TypeError: jit() got an unexpected keyword argument 'platform_target'")
    right = _ON_THE_SIMULATOR


class DiskFull(ToolchainError, OSError):
    """There is no room left for the files of a run."""

    code = "NKI516"
    page = """
        The compiler or the profiler could not write its files. A profile of a long kernel can take
        gigabytes.
        """
    wrong = _said("OSError: [Errno 28] No space left on device")
    right = _ON_THE_SIMULATOR


class ProcessDied(ToolchainError):
    """The process that compiled or ran a kernel ended before it had a result."""

    code = "NKI517"
    page = """
        The process in which the official packages compiled or ran the kernel ended by a signal: the system
        ended it for its memory, somebody ended it, or the runtime crashed. This session is not affected,
        and the device is free.
        """
    wrong = "from nki_lab.hardware.diagnose import diagnose\n\nraise diagnose('', code=-9)\n"
    right = _ON_THE_SIMULATOR

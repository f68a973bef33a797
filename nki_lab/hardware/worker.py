"""Runs one request with the official package, and ends: the script of the child process.

    python worker.py FOLDER        reads FOLDER/request.json, writes FOLDER/result.json

It is run by the interpreter that has the official package, which need not have nki_lab: it needs Python 3.10 and NumPy.
Nothing of the runtime is left when it has ended, so the device is free. It ends, too, when whoever started it is gone.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import traceback
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
#: Distributions whose versions a result tells.
DISTRIBUTIONS = (
    "nki",
    "neuronx-cc",
    "nrtpy",
    "spike",
    "torch-neuronx",
    "torch-xla",
    "jax-neuronx",
    "numpy",
)


def main(folder: str) -> int:
    """Answer the request of a folder; return the exit code."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(os.path.join(folder, "request.json"), encoding="utf-8") as file:
        request = json.load(file)
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE] + request["folders"]
    answer: dict[str, Any] = {}
    problem = None
    try:
        answer = ACTIONS[request["api"]](Call(folder, request))
    except BaseException as error:
        traceback.print_exc()
        problem = {"type": type(error).__name__, "text": str(error)}
    result = dict(answer, ok=problem is None, error=problem, versions=_versions())
    path = os.path.join(folder, "result.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(path + ".part", path)
    return 0 if problem is None else 1


def _end_with_parent() -> None:
    """End this process, and those it has started, when its input is closed: whoever started it is gone."""
    import signal

    while os.read(0, 1024):
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": sys.version.split()[0]}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def dtype_named(name: str) -> Any:
    """Return the NumPy dtype of a name; those that NumPy lacks are of ml_dtypes."""
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise RuntimeError(
                f"{sys.executable} has no ml_dtypes, which arrays of {name} need"
            ) from None
        return np.dtype(getattr(ml_dtypes, name))


class NotYet(Exception):
    """What a name stands for has not been defined yet."""


class Call:
    """A kernel with the arguments of a call, as this process sees them."""

    def __init__(self, folder: str, request: dict[str, Any]) -> None:
        self.folder, self.request = folder, request
        self.arrays = [self._array(a["file"], a["dtype"], a["shape"]) for a in request["arrays"]]
        self._kernels: dict[int, Any] = {}
        self._made: dict[int, Any] = {}
        self._modules: list[Any] = []

    def _array(self, file: str, dtype: str, shape: list[int]) -> Any:
        import numpy as np

        kind = dtype_named(dtype)
        data = np.fromfile(os.path.join(self.folder, file), dtype=np.uint8)
        return np.array(data).view(kind).reshape(shape) if data.size else np.zeros(shape, kind)

    def function(self) -> Any:
        """Return the author's function, with all that it reads."""
        import types

        for number in range(len(self.request["namespaces"])):
            module = types.ModuleType(f"kernel_{number}")
            sys.modules[module.__name__] = module
            self._modules.append(module)
        for number in self.request["order"]:
            definition = self.request["definitions"][number]
            self._bind(definition["space"])  # what defaults, decorators and bases need
            self._made[number] = self._defined(definition)
        for number in range(len(self._modules)):
            self._bind(number)
        return self._made[self.request["kernel"]]

    def _bind(self, number: int) -> None:
        """Bind the names of a namespace, as far as what they stand for is there."""
        for name, value in self.request["namespaces"][number].items():
            try:
                vars(self._modules[number])[name] = self.value(value)
            except NotYet:
                continue

    def _defined(self, definition: dict[str, Any]) -> Any:
        """Execute the statement of a function or class, and return what it defines."""
        import __future__

        import ast

        path = os.path.join(self.folder, definition["file"])
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        name = definition["name"]
        (node,) = (n for n in tree.body if (n.name, n.lineno) == (name, definition["line"]))  # type: ignore[attr-defined]
        module = ast.Module([node], [])
        code = compile(module, path, "exec", __future__.annotations.compiler_flag, True)
        names = vars(self._modules[definition["space"]])
        names["__file__"] = path
        before = {name: names[name]} if name in names else {}
        exec(code, names)
        made = names.pop(name)
        names.update(before)
        return made

    def jitted(self) -> Any:
        """Return the kernel with the official decorator, its schedule and its grid."""
        kernel = self._jit(self.request["kernel"], self.function())
        if self.request["schedule"]:
            kernel = kernel.with_schedule(
                [(a, b if isinstance(b, str) else list(b)) for a, b in self.request["schedule"]]
            )
        return self.launched(kernel)

    def launched(self, kernel: Any) -> Any:
        """Return a kernel on its grid."""
        grid = self.request["grid"]
        return kernel[grid[0] if len(grid) == 1 else tuple(grid)] if grid else kernel

    def _jit(self, number: int, function: Any) -> Any:
        if number not in self._kernels:
            package = importlib.import_module(self.request["namespace"])
            self._kernels[number] = package.jit(function)
        return self._kernels[number]

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the keyword arguments of the call."""
        call = self.request["call"]
        args = [self.value(value) for value in call["args"]]
        return args, {name: self.value(value) for name, value in call["kwargs"].items()}

    def value(self, encoded: dict[str, Any]) -> Any:
        """Return the value that was encoded; see `hardware.kernel_files`."""
        kind, value = next(iter(encoded.items()))
        return getattr(self, "_of_" + kind)(value, encoded)

    def _of_array(self, value: Any, encoded: dict[str, Any]) -> Any:
        return self.arrays[value]

    def _of_plain(self, value: Any, encoded: dict[str, Any]) -> Any:
        return value

    def _of_float(self, value: Any, encoded: dict[str, Any]) -> Any:
        return float(value)

    def _of_ellipsis(self, value: Any, encoded: dict[str, Any]) -> Any:
        return Ellipsis

    def _of_dtype(self, value: Any, encoded: dict[str, Any]) -> Any:
        return dtype_named(value)

    def _of_type(self, value: Any, encoded: dict[str, Any]) -> Any:
        return dtype_named(value).type

    def _of_data(self, value: Any, encoded: dict[str, Any]) -> Any:
        import numpy as np

        dtype, shape, data = value
        array = np.frombuffer(bytes.fromhex(data), dtype_named(dtype)).reshape(shape).copy()
        return array[()] if encoded["scalar"] else array

    def _of_name(self, value: Any, encoded: dict[str, Any]) -> Any:
        module, name = value
        found = importlib.import_module(module)
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
        return found

    def _of_module(self, value: Any, encoded: dict[str, Any]) -> Any:
        return importlib.import_module(value)

    def _of_member(self, value: Any, encoded: dict[str, Any]) -> Any:
        return self.value(value[0])[value[1]]

    def _of_function(self, value: Any, encoded: dict[str, Any]) -> Any:
        if value not in self._made:
            raise NotYet
        return self._made[value]

    _of_class = _of_function

    def _of_kernel(self, value: Any, encoded: dict[str, Any]) -> Any:
        return self._jit(value, self._of_function(value, encoded))

    def _of_constant(self, value: Any, encoded: dict[str, Any]) -> Any:
        constant = self.value(value)
        return lambda *args, **kwargs: constant

    def _of_partial(self, value: Any, encoded: dict[str, Any]) -> Any:
        from functools import partial

        function, args, kwargs = (self.value(part) for part in value)
        return partial(function, *args, **kwargs)

    def _of_tuple(self, value: Any, encoded: dict[str, Any]) -> Any:
        return tuple(self.value(part) for part in value)

    def _of_list(self, value: Any, encoded: dict[str, Any]) -> Any:
        return [self.value(part) for part in value]

    def _of_set(self, value: Any, encoded: dict[str, Any]) -> Any:
        return {self.value(part) for part in value}

    def _of_frozenset(self, value: Any, encoded: dict[str, Any]) -> Any:
        return frozenset(self.value(part) for part in value)

    def _of_dict(self, value: Any, encoded: dict[str, Any]) -> Any:
        return {self.value(k): self.value(v) for k, v in value}

    def _of_slice(self, value: Any, encoded: dict[str, Any]) -> Any:
        return slice(*(self.value(part) for part in value))

    def _of_range(self, value: Any, encoded: dict[str, Any]) -> Any:
        return range(*(self.value(part) for part in value))

    def _of_call(self, value: Any, encoded: dict[str, Any]) -> Any:
        return self.value(value[0])(*(self.value(part) for part in value[1]))

    def _of_object(self, value: Any, encoded: dict[str, Any]) -> Any:
        kind = self.value(value[0])
        made = object.__new__(kind)
        for name, part in value[1].items():
            object.__setattr__(made, name, self.value(part))
        return made

    # -- what came out ---------------------------------------------------------------------------------------------

    def written(self, returned: Any) -> dict[str, Any]:
        """Write what came out, and the arrays that the kernel has written; return what was written where."""
        outputs = [self._written(f"output_{n}", value) for n, value in enumerate(_flat(returned))]
        inputs = {}
        for n, (array, described) in enumerate(
            zip(self.arrays, self.request["arrays"], strict=True)
        ):
            with open(os.path.join(self.folder, described["file"]), "rb") as file:
                if file.read() != array.tobytes():
                    inputs[str(n)] = self._written(f"updated_{n}", array)
        return {"outputs": outputs, "updated": inputs, "neff": self.neff()}

    def _written(self, name: str, value: Any) -> dict[str, Any]:
        import numpy as np

        array = np.ascontiguousarray(np.asarray(value))
        file = name + ".bin"
        with open(os.path.join(self.folder, file), "wb") as out:
            out.write(array.tobytes())
        return {
            "file": file,
            "dtype": array.dtype.name,
            "shape": list(np.shape(value)),
            "itemsize": array.itemsize,
        }

    def neff(self) -> str | None:
        """Return the newest NEFF below the folder, or None."""
        found = [
            os.path.join(root, file)
            for root, _, files in os.walk(self.folder)
            for file in files
            if file.endswith(".neff")
        ]
        return max(found, key=os.path.getmtime) if found else None


def _flat(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _flat(part)]
    return [value]


# -- the ways to run -------------------------------------------------------------------------------------------------


def standalone(call: Call) -> dict[str, Any]:
    """Run with nki 0.3 or newer: a call with NumPy arrays compiles and executes."""
    kernel = call.jitted()
    args, kwargs = call.arguments()
    return call.written(kernel(*args, **kwargs))


def baremetal(call: Call) -> dict[str, Any]:
    """Run with neuronxcc.nki: nki.baremetal compiles and executes."""
    nki = importlib.import_module("neuronxcc.nki")

    artifacts = os.path.join(call.folder, "artifacts")
    os.makedirs(artifacts, exist_ok=True)
    os.chdir(artifacts)
    kernel = call.launched(nki.baremetal(call.function(), save_neff_name="file.neff"))
    args, kwargs = call.arguments()
    return call.written(kernel(*args, **kwargs))


def benchmark(call: Call) -> dict[str, Any]:
    """Time with neuronxcc.nki: nki.benchmark runs the official neuron-bench."""
    nki = importlib.import_module("neuronxcc.nki")

    artifacts = os.path.join(call.folder, "benchmark")
    os.makedirs(artifacts, exist_ok=True)
    os.chdir(artifacts)
    warmup, iters = call.request["warmup"], call.request["iters"]
    kernel = nki.benchmark(call.function(), warmup=warmup, iters=iters, save_neff_name="file.neff")
    args, kwargs = call.arguments()
    launched = call.launched(kernel)
    launched(*args, **kwargs)
    timed = launched if getattr(launched, "benchmark_result", None) is not None else kernel
    latency = timed.benchmark_result.nc_latency
    shares = (0, 1, 10, 25, 50, 90, 99, 100)
    return {"percentiles_us": {str(p): float(latency.get_latency_percentile(p)) for p in shares}}


def loaded(call: Call) -> dict[str, Any]:
    """Run a NEFF with nrtpy or spike, and time it where iterations are asked for."""
    request = call.request
    package = importlib.import_module(request["runner"])
    prefix = {"nrtpy": "Nrtpy", "spike": "Spike"}[request["runner"]]
    model_of, tensor_of = (getattr(package, prefix + kind) for kind in ("Model", "Tensor"))
    if hasattr(package, "configure"):
        package.configure(visible_cores=request["cores"])
    model = model_of.load_from_neff(request["neff"], request["name"], core_id=0)
    names = list(model.input_tensors_info)
    by_name = dict(zip(request["inputs"], call.arrays, strict=True))
    if set(by_name) != set(names):
        raise RuntimeError(f"the NEFF has the inputs {names}, and the kernel {list(by_name)}")
    inputs = {name: tensor_of.from_numpy(by_name[name], name, core_id=0) for name in names}
    outputs = {
        name: tensor_of.from_numpy(_zeros(info), name, core_id=0)
        for name, info in model.output_tensors_info.items()
    }
    if request["iters"]:
        timed = model.benchmark(
            inputs,
            outputs,
            warmup_iter=request["warmup"],
            benchmark_iter=request["iters"],
            mode="device",
        )
        return {"durations_us": [1000.0 * ms for ms in timed.durations_ms]}
    model(inputs=inputs, outputs=outputs)
    for n, name in enumerate(request["inputs"]):
        value = inputs[name].numpy()
        call.arrays[n] = value if value.shape == call.arrays[n].shape else call.arrays[n]
    ordered = sorted(outputs, key=lambda name: (len(name), name))
    return call.written([outputs[name].numpy() for name in ordered])


def _zeros(info: Any) -> Any:
    import numpy as np

    dtype = getattr(info, "dtype", None) or info["dtype"]
    shape = getattr(info, "shape", None) or info["shape"]
    try:
        kind = dtype_named(dtype if isinstance(dtype, str) else np.dtype(dtype).name)
    except (TypeError, AttributeError):
        kind = np.dtype(dtype)
    return np.zeros(shape, kind)


ACTIONS = {
    "standalone": standalone,
    "baremetal": baremetal,
    "benchmark": benchmark,
    "loaded": loaded,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""The transforms of PyTorch that `check_op` tries, each beside plain calls that give the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from nki_lab.errors import CheckFailed
from nki_lab.frameworks.check import Case, Row, each
from nki_lab.frameworks.torch_operator import TorchOperator

T = torch.func

_BACKENDS = ("eager", "aot_eager", "inductor")

#: Elements up to which every column of the Jacobian is compared with differences; beyond, random directions are.
_ALL_COLUMNS = 200


def rows_of(case: Case) -> list[Row]:
    """Return the transforms, with the arguments of a case."""
    args, wrt = case.tensors, case.wrt
    batch = [torch.stack([t, *_others(t)]) for t in args]
    dims = tuple(-1 if n == 0 else None for n in range(len(args)))
    first = [torch.stack([args[0], *_others(args[0])], dim=-1), *args[1:]]
    count = len(batch[0])

    def elements(function: Any) -> Any:
        return [torch.stack(r) for r in each(count, lambda n: function(*(b[n] for b in batch)))]

    def firsts(function: Any) -> Any:
        one = [lambda n=n: function(first[0].select(-1, n), *args[1:]) for n in range(count)]
        return [torch.stack(r) for r in each(count, lambda n: one[n]())]

    def on_backend(backend: str) -> Row:
        run = compiled(backend)
        return Row(f"compile({backend})", lambda f: run(f)(*args), lambda f: f(*args))

    def backward_on(backend: str) -> Row:
        run, name = compiled(backend), f"compile({backend}), backward"
        return Row(name, lambda f: plain(run(f))(*args), lambda f: plain(f)(*args))

    def compiled(backend: str, make: Callable[[Any], Any] = lambda f: f, **options: Any) -> Any:
        def found(function: Any) -> Any:
            torch._dynamo.reset()
            return torch.compile(make(function), backend=backend, fullgraph=True, **options)

        return found

    grad = lambda f: T.grad(_loss(f), wrt)  # noqa: E731
    plain = lambda f: partial(_gradients, f, wrt=wrt)  # noqa: E731
    with_backward = getattr(case.operator, "backward", True) is not None
    rows = [
        Row("forward", lambda f: f(*args), lambda f: f(*args), required=True),
        Row(
            "other strides", lambda f: f(*map(_transposed, args)), lambda f: f(*args), required=True
        ),
        Row("vmap", lambda f: T.vmap(f)(*batch), elements),
        Row("vmap(in_dims=(-1, None, ...))", lambda f: T.vmap(f, dims)(*first), firsts),
        Row(
            "vmap(vmap)",
            lambda f: T.vmap(T.vmap(f))(*(b[None] for b in batch)),
            lambda f: [r[None] for r in elements(f)],
        ),
        *map(on_backend, _BACKENDS),
        Row(
            "compile(dynamic=True)",
            lambda f: compiled("aot_eager", dynamic=True)(f)(*args),
            lambda f: f(*args),
        ),
        Row("export", lambda f: _exported(f, args)(*args), lambda f: f(*args)),
        Row(
            "meta",
            lambda f: [torch.zeros_like(r, device="cpu") for r in f(*(t.to("meta") for t in args))],
            lambda f: [torch.zeros_like(r) for r in f(*args)],
        ),
    ]
    if not wrt:
        return rows
    gradients = [
        Row(
            "backward", lambda f: plain(f)(*args), lambda f: plain(f)(*args), required=with_backward
        ),
        Row("func.grad", lambda f: grad(f)(*args), lambda f: plain(f)(*args)),
        Row("func.vjp", lambda f: _vjp(f, args, wrt), lambda f: plain(f)(*args)),
        Row("vmap(grad)", lambda f: T.vmap(grad(f))(*batch), lambda f: elements(plain(f))),
        Row(
            "jacrev",
            lambda f: T.jacrev(lambda *a: f(*a)[0], wrt)(*args),
            lambda f: _jacobian(f, args, wrt),
        ),
        *map(backward_on, _BACKENDS),
        Row("compile(grad)", lambda f: compiled("aot_eager", grad)(f)(*args), lambda f: plain(f)(*args)),
        Row(
            "compile(vmap(grad))",
            lambda f: compiled("aot_eager", lambda g: T.vmap(grad(g)))(f)(*batch),
            lambda f: elements(plain(f)),
        ),
        Row(
            "checkpoint",
            lambda f: plain(lambda *a: checkpoint(f, *a, use_reentrant=False))(*args),
            lambda f: plain(f)(*args),
        ),
        Row("threads", lambda f: _in_threads(plain(f), args), lambda f: [plain(f)(*args)] * 4),
        Row(
            "backward, twice",
            lambda f: _second(f, args, wrt),
            lambda f: _second(f, args, wrt),
            needs_reference=True,
        ),
        Row(
            "grad(grad)",
            lambda f: T.grad(_penalty(grad(f)), wrt)(*args),
            lambda f: _second(f, args, wrt),
            needs_reference=True,
        ),
    ]  # fmt: skip
    rows += [row._replace(of=case.gradients) for row in gradients]
    rows.append(
        Row(
            "jvp",
            lambda f: T.jvp(f, args, tuple(map(_direction, args)))[1],
            lambda f: torch.autograd.functional.jvp(f, args, tuple(map(_direction, args)))[1],
            needs_reference=True,
        )
    )
    if with_backward and all(args[n].dtype in (torch.float32, torch.float64) for n in wrt):
        found = lambda f: _gradcheck(f, args, wrt)  # noqa: E731
        rows.append(Row("gradcheck", found, lambda f: None, required=True))
    if isinstance(case.operator, TorchOperator):
        rows.append(Row("opcheck", lambda f: _opcheck(case, wrt), lambda f: None, required=True))
    return rows


def _direction(tensor: Any) -> Any:
    """Return a tensor that is not a multiple of the given one, nor symmetric; zero for integers."""
    if not tensor.dtype.is_floating_point:
        return torch.zeros_like(tensor)
    wave = torch.sin(torch.arange(tensor.numel(), dtype=torch.float64) * 1.7 + 0.3)
    return wave.reshape(tensor.shape).to(tensor)


def _others(tensor: Any) -> list[Any]:
    """Return what else is in a batch with a tensor: integers, such as indices, stay as they are."""
    if not tensor.dtype.is_floating_point:
        return [tensor] * 2
    return [tensor + _direction(tensor), tensor - 0.5 * _direction(tensor)]


def _transposed(tensor: Any) -> Any:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def _loss(function: Any) -> Any:
    """Return a loss whose gradient no symmetry of the function hides: the cubes of all results, weighted."""

    def loss(*args: Any) -> Any:
        total = torch.zeros((), dtype=torch.float64)
        for result in function(*args):
            weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64)
            total = total + (result.double().pow(3) * weights.reshape(result.shape)).sum()
        return total

    return loss


def _leaves(args: Sequence[Any], wrt: Sequence[int]) -> list[Any]:
    return [a.detach().clone().requires_grad_(n in wrt) for n, a in enumerate(args)]


def _gradients(function: Any, *args: Any, wrt: Sequence[int]) -> Any:
    leaves = _leaves(args, wrt)
    return torch.autograd.grad(_loss(function)(*leaves), [leaves[n] for n in wrt])


def _second(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> Any:
    leaves = _leaves(args, wrt)
    of = [leaves[n] for n in wrt]
    first = torch.autograd.grad(_loss(function)(*leaves), of, create_graph=True)
    return torch.autograd.grad(_penalty(lambda: first)(), of)


def _penalty(gradients: Any) -> Any:
    return lambda *args: sum(g.double().pow(2).sum() for g in gradients(*args))


def _vjp(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> Any:
    loss, pullback = T.vjp(_loss(function), *args)
    grads = pullback(torch.ones_like(loss))
    return [grads[n] for n in wrt]


def _jacobian(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> Any:
    def of_some(*some: Any) -> Any:
        full = list(args)
        for n, value in zip(wrt, some, strict=True):
            full[n] = value
        return function(*full)[0]

    return torch.autograd.functional.jacobian(of_some, tuple(args[n] for n in wrt))


def _exported(function: Any, args: Sequence[Any]) -> Any:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    return torch.export.export(Module(), tuple(args)).module()


def _in_threads(function: Any, args: Sequence[Any]) -> Any:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda _: function(*args), range(4)))


def _gradcheck(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> None:
    """Compare gradients with differences of values; float32 needs large steps, and still shows an error of 5 %."""
    leaves = _leaves(args, wrt)
    settings = {"eps": 1e-2, "atol": 1e-2, "rtol": 1e-2}
    if all(leaves[n].dtype == torch.float64 for n in wrt):
        settings = {}
    many = sum(leaves[n].numel() for n in wrt) > _ALL_COLUMNS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inputs that are not of double precision
        torch.autograd.gradcheck(
            lambda *a: _precise(function(*a)), leaves, fast_mode=many, **settings
        )


def _precise(results: Any) -> Any:
    """Return the results that show a small difference; all of them where each has a narrow dtype."""
    results = results if isinstance(results, (list, tuple)) else [results]
    precise = (torch.float32, torch.float64)
    return tuple(r for r in results if r.dtype in precise) or tuple(results)


def _opcheck(case: Case, wrt: Sequence[int]) -> None:
    arguments = list(case.arguments)
    for n in wrt:
        place = case.places[n]
        arguments[place] = arguments[place].detach().clone()
        arguments[place].requires_grad_(case.operator.backward is not None)
    outcomes = torch.library.opcheck(case.operator.op, tuple(arguments), raise_exception=False)
    wrong = {name: text for name, text in outcomes.items() if text != "SUCCESS"}
    if wrong:
        raise CheckFailed(f"torch.library.opcheck: {wrong}", help="see torch.library.opcheck")

"""The transforms of JAX that `check_op` tries, each beside plain calls that give the same."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.test_util import check_grads

from nki_lab.frameworks.check import Case, Row, each

jnp = jax.numpy


def rows_of(case: Case) -> list[Row]:
    """Return the transforms, with the arguments of a case."""
    args, wrt = case.tensors, case.wrt
    batch = [jnp.stack([t, *_others(t)]) for t in args]
    dims = tuple(-1 if n == 0 else None for n in range(len(args)))
    first = [jnp.stack([args[0], *_others(args[0])], axis=-1), *args[1:]]
    count = len(batch[0])

    def elements(function: Any) -> Any:
        return _elements(function, batch, count)

    def firsts(function: Any) -> Any:
        runs = each(count, lambda n: function(first[0][..., n], *args[1:]))
        return [jnp.stack(r) for r in runs]

    grad = lambda f: jax.grad(_loss(f), wrt)  # noqa: E731
    with_backward = getattr(case.operator, "backward", True) is not None
    rows = [
        Row("forward", lambda f: f(*args), lambda f: f(*args), required=True),
        Row("jit", lambda f: jax.jit(f)(*args), lambda f: f(*args)),
        Row("eval_shape", lambda f: _zeros(jax.eval_shape(f, *args)), lambda f: _zeros(f(*args))),
        Row("vmap", lambda f: jax.vmap(f)(*batch), elements),
        Row("vmap(in_axes=(-1, None, ...))", lambda f: jax.vmap(f, dims)(*first), firsts),
        Row(
            "vmap(vmap)",
            lambda f: jax.vmap(jax.vmap(f))(*(b[None] for b in batch)),
            lambda f: [r[None] for r in elements(f)],
        ),
        Row("jit(vmap)", lambda f: jax.jit(jax.vmap(f))(*batch), elements),
        Row(
            "scan",
            lambda f: jax.lax.scan(lambda c, xs: (c, f(*xs)), None, tuple(batch))[1],
            elements,
        ),
        Row("shard_map", lambda f: _sharded(f, args)(*args), lambda f: f(*args)),
        Row(
            "pmap",
            lambda f: jax.pmap(f)(*_for_devices(batch)),
            lambda f: _elements(f, batch, _devices(count)),
        ),
        Row("jit, sharded arrays", lambda f: jax.jit(f)(*_put(args)), lambda f: f(*args)),
    ]
    if not wrt:
        return rows
    gradients = [
        Row(
            "grad", lambda f: grad(f)(*args), lambda f: grad(f)(*args), required=with_backward
        ),
        Row("jit(grad)", lambda f: jax.jit(grad(f))(*args), lambda f: grad(f)(*args)),
        Row("vjp", lambda f: _vjp(f, args, wrt), lambda f: grad(f)(*args)),
        Row("vmap(grad)", lambda f: jax.vmap(grad(f))(*batch), lambda f: elements(grad(f))),
        Row(
            "jit(vmap(grad))",
            lambda f: jax.jit(jax.vmap(grad(f)))(*batch),
            lambda f: elements(grad(f)),
        ),
        Row("jacrev", lambda f: jax.jacrev(f, wrt)(*args), lambda f: _jacobian(f, args, wrt)),
        Row("remat", lambda f: grad(jax.checkpoint(f))(*args), lambda f: grad(f)(*args)),
        Row(
            "grad(scan)",
            lambda f: grad(lambda *b: jax.lax.scan(lambda c, xs: (c, f(*xs)), None, b)[1])(*batch),
            lambda f: grad(lambda *b: _elements(f, b, count))(*batch),
        ),
        Row(
            "jit(grad), sharded arrays",
            lambda f: jax.jit(grad(f))(*_put(args)),
            lambda f: grad(f)(*args),
        ),
        Row(
            "grad(shard_map)",
            lambda f: grad(_sharded(f, args))(*args),
            lambda f: grad(f)(*args),
        ),
        Row("threads", lambda f: _in_threads(grad(f), args), lambda f: [grad(f)(*args)] * 4),
        Row(
            "grad(grad)",
            lambda f: jax.grad(_penalty(grad(f)), wrt)(*args),
            lambda f: jax.grad(_penalty(grad(f)), wrt)(*args),
            needs_reference=True,
        ),
    ]  # fmt: skip
    rows += [row._replace(of=case.gradients) for row in gradients]
    rows.append(
        Row(
            "jvp",
            lambda f: jax.jvp(f, args, tuple(map(_direction, args)))[1],
            lambda f: jax.jvp(f, args, tuple(map(_direction, args)))[1],
            needs_reference=True,
        )
    )
    if with_backward and all(args[n].dtype in (jnp.float32, jnp.float64) for n in wrt):
        found = lambda f: _gradcheck(f, args, wrt)  # noqa: E731
        rows.append(Row("check_grads", found, lambda f: None, required=True))
    return rows


def _elements(function: Any, batch: Sequence[Any], count: int) -> list[Any]:
    """Return the results of a function for each element of a batch, stacked."""
    return [jnp.stack(r) for r in each(count, lambda n: function(*(b[n] for b in batch)))]


def _zeros(results: Any) -> Any:
    return [jnp.zeros(r.shape, r.dtype) for r in results]


def _direction(array: Any) -> Any:
    """Return an array that is not a multiple of the given one, nor symmetric; of no type for integers."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return np.zeros(array.shape, jax.dtypes.float0)
    return jnp.sin(jnp.arange(array.size) * 1.7 + 0.3).reshape(array.shape).astype(array.dtype)


def _others(array: Any) -> list[Any]:
    """Return what else is in a batch with an array: integers, such as indices, stay as they are."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return [array] * 2
    return [array + _direction(array), array - _direction(array) / 2]


def _loss(function: Any) -> Any:
    """Return a loss whose gradient no symmetry of the function hides: the cubes of all results, weighted."""

    def loss(*args: Any) -> Any:
        total = jnp.zeros((), jnp.float32)
        for result in function(*args):
            weights = jnp.linspace(0.5, 1.5, result.size).reshape(result.shape)
            total = total + (result.astype(jnp.float32) ** 3 * weights).sum()
        return total

    return loss


def _penalty(gradients: Any) -> Any:
    return lambda *args: sum((g.astype(jnp.float32) ** 2).sum() for g in gradients(*args))


def _vjp(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> Any:
    grads = jax.vjp(_loss(function), *args)[1](jnp.ones((), jnp.float32))
    return [grads[n] for n in wrt]


def _jacobian(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> Any:
    """Return the derivatives of every element of every result, one after the other."""
    jacobians = []
    for k, result in enumerate(function(*args)):
        rows = [
            jax.grad(lambda *a, k=k, at=at: function(*a)[k].reshape(-1)[at], wrt)(*args)
            for at in range(result.size)
        ]
        columns = zip(*rows, strict=True)
        jacobians.append([jnp.stack(c).reshape(*result.shape, *c[0].shape) for c in columns])
    return jacobians


def _devices(rows: int) -> int:
    """Return how many devices can share rows alike."""
    return max(n for n in range(1, len(jax.devices()) + 1) if rows % n == 0)


def _for_devices(batch: Sequence[Any]) -> list[Any]:
    return [b[: _devices(len(b))] for b in batch]


def _specs(args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a mesh of devices that share the rows of the first array, and the place of each array on it."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: _devices(len(args[0]))]), ("i",))
    rows, all_of_it = jax.sharding.PartitionSpec("i"), jax.sharding.PartitionSpec()
    return mesh, [rows, *[all_of_it] * (len(args) - 1)]


def _put(args: Sequence[Any]) -> list[Any]:
    mesh, specs = _specs(args)
    pairs = zip(args, specs, strict=True)
    return [jax.device_put(a, jax.sharding.NamedSharding(mesh, spec)) for a, spec in pairs]


def _sharded(function: Any, args: Sequence[Any]) -> Any:
    mesh, specs = _specs(args)
    return jax.shard_map(function, mesh=mesh, in_specs=tuple(specs), out_specs=specs[0])


def _in_threads(function: Any, args: Sequence[Any]) -> Any:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda _: function(*args), range(4)))


def _gradcheck(function: Any, args: Sequence[Any], wrt: Sequence[int]) -> None:
    """Compare gradients with differences of values; float32 needs large steps, and still shows an error of 5 %."""

    def of_some(*some: Any) -> Any:
        full = list(args)
        for n, value in zip(wrt, some, strict=True):
            full[n] = value
        results = function(*full)
        return [r for r in results if r.dtype in (jnp.float32, jnp.float64)] or results

    some = tuple(args[n] for n in wrt)
    check_grads(of_some, some, order=1, modes=["rev"], eps=1e-2, atol=1e-2, rtol=1e-2)

"""Kernels as operators of PyTorch, against its own operators, by value."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from benchmarks.operator_speed import ALONE, python_calls, torch_calls
from nki_lab import kernels
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.api.beta1 import language as nl1
from nki_lab.api.beta1 import nki as beta1
from nki_lab.autodiff import backward
from nki_lab.errors import KernelArgument, NotModelled, RuleBroken
from tests.frameworks.kernels import (
    Halves,
    halves,
    halves_backward,
    interrupted_once,
    rmsnorm,
    rmsnorm_backward,
    several,
    several_backward,
)

torch = pytest.importorskip("torch")
T = torch.func

# -- an operator with a backward, and the same in PyTorch ------------------------------------------------------------

normed = nki_lab.torch.custom_op("lab::rmsnorm", rmsnorm, backward=rmsnorm_backward)


def op(x: Any, gamma: Any) -> Any:
    return normed(x, gamma, 1e-5)[0]


def reference(x: Any, gamma: Any) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gamma


def cubic(function: Any) -> Any:
    """Return a loss that no scale of the rows hides."""
    return lambda x, gamma: (function(x, gamma).pow(3) * torch.arange(1.0, 7)).sum()


@pytest.fixture
def x() -> Any:
    return torch.from_numpy(np.random.default_rng(3).standard_normal((5, 6)).astype(np.float32))


@pytest.fixture
def gamma() -> Any:
    return torch.linspace(-0.5, 1.5, 6)


def same(transform: Any, *args: Any) -> None:
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)
    close(transform(op)(*args), transform(reference)(*args))


def test_values_and_gradients(x, gamma):
    same(lambda f: f, x, gamma)
    same(lambda f: f, x.T.contiguous().T, gamma)  # other strides
    both = [t.requires_grad_() for t in (x, gamma)]
    same(lambda f: lambda *a: torch.autograd.grad(cubic(f)(*a), both), *both)


def test_transforms_of_torch_func(x, gamma):
    batch = torch.stack([x, 2 * x + 1, -x], dim=2)
    both = lambda f: T.grad(cubic(f), (0, 1))  # noqa: E731
    same(both, x, gamma)
    same(lambda f: T.vmap(f, (2, None), out_dims=1), batch, gamma)
    same(lambda f: T.vmap(both(f), (2, None)), batch, gamma)
    same(lambda f: T.vmap(f, (None, 0)), x, torch.stack([gamma, gamma - 1]))


def test_compiled_transforms(x, gamma):
    torch._dynamo.reset()
    both = lambda f: T.vmap(T.grad(cubic(f), (0, 1)), (0, None))  # noqa: E731
    batch = torch.stack([x, 2 * x + 1])
    compiled = torch.compile(both(op), backend="aot_eager", fullgraph=True)
    for found, wanted in zip(compiled(batch, gamma), both(reference)(batch, gamma), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_derivatives_that_there_are_not_are_errors(x, gamma):
    y = op(x.requires_grad_(), gamma)
    (gx,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    x = x.detach()
    for second in (
        (y.sum() + gx.pow(2).sum()).backward,
        lambda: T.grad(lambda a: T.grad(cubic(op))(a, gamma).pow(2).sum())(x),
    ):
        with pytest.raises(NotModelled, match="lab::rmsnorm_backward has no second derivative"):
            second()
    with pytest.raises(NotModelled, match="lab::rmsnorm has no forward-mode derivative"):
        T.jvp(lambda a: op(a, gamma), (x,), (x,))


def test_tensors_without_values_have_shapes(x, gamma):
    out, rstd = normed(x.to("meta"), gamma.to("meta"))
    assert (out.shape, rstd.shape, rstd.dtype) == (x.shape, (5, 1), torch.float32)
    with pytest.raises(KernelArgument, match="`x` on meta, `gamma` on cpu"):
        normed(x.to("meta"), gamma)


def test_a_call_costs_little_above_the_compiled_kernel():
    counts = {name: python_calls(call) for name, call in torch_calls().items()}
    assert counts["torch"] < counts[ALONE]
    assert counts["torch, recorded for the backward"] < 1.15 * counts[ALONE]


def test_operators_and_backward_kernels_go_to_other_processes():
    assert pickle.loads(pickle.dumps(normed)) is normed
    x, gamma, rstd = (np.full(s, 0.5, np.float32) for s in ((5, 6), (6,), (5, 1)))
    x[1] = -2.0
    made = backward(rmsnorm, x, gamma, wrt=["gamma"])
    again = pickle.loads(pickle.dumps(made))
    assert again.gradients_of == ("gamma",) and len(pickle.dumps(made)) < 10_000
    np.testing.assert_array_equal(again(x, gamma, x, rstd), made(x, gamma, x, rstd))
    assert repr(normed) == "<operator lab::rmsnorm of the NKI kernel rmsnorm>"


# -- without a name that PyTorch does not document -------------------------------------------------------------------


def test_the_documented_way_is_right_or_loud(x, gamma, monkeypatch):
    monkeypatch.setattr("nki_lab.frameworks.torch_gradients.HAS_LEVELS", False)
    made = nki_lab.torch.custom_op(
        "lab::plain", rmsnorm, backward=rmsnorm_backward, no_grad=("rstd",)
    )

    def plain(x, gamma):
        return made(x, gamma, 1e-5)[0]

    both = [t.requires_grad_() for t in (x, gamma)]
    found = torch.autograd.grad(cubic(plain)(*both), both)
    wanted = torch.autograd.grad(cubic(reference)(*both), both)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError):
        T.grad(cubic(plain))(x.detach(), gamma.detach())
    with pytest.raises(NotModelled, match="forward-mode"):
        T.jvp(lambda a: plain(a, gamma.detach()), (x.detach(),), (x.detach(),))


# -- other forms of kernels ------------------------------------------------------------------------------------------


@nki.jit
def scaled(x, *, factor=2.0, bias=None, negate=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.multiply(nl.load(x), -factor if negate else factor)
    nl.store(out, tile if bias is None else nl.add(tile, nl.load(bias)))
    return out


def test_constants_keywords_and_optional_tensors(x):
    double = nki_lab.torch.custom_op("lab::scaled", scaled)
    torch.testing.assert_close(double(x), 2 * x)
    torch.testing.assert_close(double(x, factor=0.5, negate=True), -0.5 * x)
    torch.testing.assert_close(double(x, bias=x), 3 * x)
    with pytest.raises(NotModelled, match="lab::scaled has no backward") as raised:
        double(x.requires_grad_()).sum().backward()
    assert "nki_lab.torch.custom_op(name, backward=...)" in raised.value.help


def test_a_backward_may_be_a_function_and_is_differentiated_again(x):
    double = nki_lab.torch.custom_op(
        "lab::double", scaled, backward=lambda dout: 2 * dout, wrt=("x",)
    )
    again = nki_lab.torch.custom_op(
        "lab::again", scaled, backward=lambda dout: double(dout), wrt=("x",)
    )

    def loss(f):
        return lambda a: T.grad(lambda b: f(b).pow(3).sum())(a).pow(2).sum()

    torch.testing.assert_close(T.grad(loss(again))(x), T.grad(loss(lambda a: 2 * a))(x))
    with pytest.raises(KernelArgument, match="argument `bias` requires gradients"):
        double(x, bias=x.clone().requires_grad_())


def test_a_backward_that_is_made_from_the_instructions(x, gamma):
    made = nki_lab.torch.custom_op("lab::made", rmsnorm, backward="auto")
    both = [t.requires_grad_() for t in (x, gamma)]
    out, rstd = made(x, gamma, 1e-5)
    found = torch.autograd.grad(out.pow(3).sum() + 2 * rstd.sum(), both)
    wanted = reference(x, gamma).pow(3).sum() + 2 * torch.rsqrt((x * x).mean(-1) + 1e-5).sum()
    torch.testing.assert_close(found, torch.autograd.grad(wanted, both), rtol=1e-4, atol=1e-4)
    some = nki_lab.torch.custom_op("lab::some", rmsnorm, backward="auto", no_grad=("rstd",))
    with pytest.raises(KernelArgument, match="the results of floats are out, rstd"):
        some(x, gamma)[0].sum().backward()


def test_lists_of_tensors_and_named_results(x):
    split = nki_lab.torch.custom_op(
        "lab::halves", halves, types={"parts": list[torch.Tensor], "count": int},
        backward=halves_backward, wrt=("parts",),
    )  # fmt: skip
    parts = [(n * x).requires_grad_() for n in range(1, 4)]
    found = split(parts, 2)
    assert isinstance(found, Halves)
    torch.testing.assert_close(found.low, parts[0] + parts[1])
    torch.testing.assert_close(found.high, parts[2])
    grads = torch.autograd.grad((found.low.pow(2) + 3 * found.high).sum(), parts)
    torch.testing.assert_close(list(grads), [6 * x, 6 * x, torch.full_like(x, 3)])


def test_results_that_are_no_tensors(x):
    options = {"backward": several_backward, "no_grad": ("rows",)}
    op = nki_lab.torch.custom_op("lab::several", several, **options)
    assert op.no_grad == ("rows", "flag", "none")
    compiled = torch.compile(lambda a: (op(a), op(a[:2], times=3)), fullgraph=True, backend="eager")
    for found, part, times in zip((op(x), *compiled(x)), (x, x, x[:2]), (2, 2, 3), strict=True):
        torch.testing.assert_close(found["scaled"], times * part)
        rows, square = found["more"]
        torch.testing.assert_close(square, part * part)
        assert type(rows) is int and rows == times * len(part)
        assert found["flag"] is True and found["none"] is None

    def loss(a: Any) -> Any:
        found = op(a)
        return (found["scaled"].pow(3) * found["more"][0] + found["more"][1]).sum()

    torch.testing.assert_close(T.grad(loss)(x), 240 * x**2 + 2 * x)
    wrong = nki_lab.torch.custom_op(
        "lab::several", several, backward=lambda da, dn, db, x: da, no_grad=()
    )
    with pytest.raises(
        KernelArgument, match="result `rows` is 10, which has no gradient"
    ) as raised:
        wrong(x.requires_grad_())
    assert raised.value.help == "say so: no_grad=('rows',)"


@nki.jit
def hidden(x):
    results = several(x)
    return results


def test_a_dict_that_the_return_statement_does_not_show(x):
    with pytest.raises(KernelArgument, match="returns 5 results, and the operator was made for 1"):
        nki_lab.torch.custom_op("lab::hidden", hidden)(x)
    with pytest.raises(KernelArgument, match="returns a dict that its return") as raised:
        nki_lab.torch.custom_op("lab::hidden", hidden, results=5)(x)
    shown = raised.value.help.partition("results=")[2]
    assert shown == "{'scaled': 'scaled', 'more': ('out0', 'out1'), 'flag': 'out2', 'none': 'out3'}"


@beta1.jit
def product(a, b, out):
    row = nl1.program_id(0) * 2 + nl1.arange(2)[:, None]
    column = nl1.arange(6)[None, :]
    nl1.store(out[row, column], nl1.load(a[row, column]) * nl1.load(b[row, column]))


def test_kernels_of_the_older_dialect_with_a_grid(x):
    multiply = nki_lab.torch.custom_op("lab::product", product[2], mutates="out")
    torch._dynamo.reset()

    def function(a: Any, b: Any) -> Any:
        out = torch.zeros(4, 6)
        multiply(a, b, out)
        return out + 1

    a, b = x[:4], x[1:]
    torch.testing.assert_close(function(a, b), a * b + 1)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(a, b), a * b + 1)


def test_prebuilt_kernels(x):
    softmax = nki_lab.torch.custom_op("lab::softmax", kernels.get("softmax"), backward="auto")
    x.requires_grad_()
    (found,) = torch.autograd.grad(softmax(x).pow(3).sum(), x)
    (wanted,) = torch.autograd.grad(torch.softmax(x, 1).pow(3).sum(), x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@nki.jit
def accumulate(total, x):
    nl.store(total, nl.add(nl.load(total), nl.load(x)))


def test_kernels_that_write_an_argument(x):
    add_to = nki_lab.torch.custom_op("lab::accumulate", accumulate, mutates="total")
    total = torch.ones_like(x)
    assert add_to(total, x) is None
    torch.testing.assert_close(total, x + 1)
    totals = torch.zeros(2, 5, 6)
    T.vmap(add_to, out_dims=None)(totals, torch.stack([x, -x]))
    torch.testing.assert_close(totals, torch.stack([x, -x]))
    with pytest.raises(KernelArgument, match="the same `total`"):
        T.vmap(add_to, (None, 0), out_dims=None)(total, torch.stack([x, -x]))
    with pytest.raises(NotModelled, match="no gradient, since it writes its arguments") as refused:
        add_to(total, x.clone().requires_grad_())
    assert refused.value.help.startswith("pass tensors that require no gradient")
    with pytest.raises(KernelArgument, match="several elements of which are one place in memory"):
        add_to(torch.zeros(1, 6).expand(5, 6), x)
    add_to(across := torch.zeros(6, 5).T, x)
    torch.testing.assert_close(across, x)
    pure = nki_lab.torch.custom_op("lab::accumulate", accumulate)
    with pytest.raises(KernelArgument, match="writes its argument `total`") as raised:
        pure(total, x)
    assert raised.value.help.startswith("say so, mutates='total'")


def test_a_backward_refuses_what_it_kept_and_a_kernel_has_written(x):
    add_to = nki_lab.torch.custom_op("lab::accumulate", accumulate, mutates="total")
    kept, weight = torch.ones_like(x), x.clone().requires_grad_()
    product = (kept * weight).sum()
    add_to(kept, x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        add_to(total := torch.zeros_like(x), x)
        torch.testing.assert_close(total, x)


def test_a_name_that_is_taken_gets_a_version(x):
    first = nki_lab.torch.custom_op("lab::twice", scaled)

    @nki.jit
    def tripled(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 3.0))
        return out

    second = nki_lab.torch.custom_op("lab::twice", tripled)
    assert (first.name, second.name) == ("lab::twice", "lab::twice__v2")
    torch.testing.assert_close(first(x), 2 * x)
    torch.testing.assert_close(second(x), 3 * x)


def test_two_cores_shapes_and_narrow_dtypes(x):
    @nki.jit
    def rows(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        half = x.shape[0] // nl.num_programs(0)
        part = nl.ds(nl.program_id(0) * half, half)
        tile = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[part])
        nisa.dma_copy(dst=out[part], src=tile)
        return out

    copy = nki_lab.torch.custom_op("lab::rows", rows[2], shapes=lambda x: x)
    for dtype in (torch.bfloat16, torch.float8_e5m2):
        torch.testing.assert_close(copy(x[:4].to(dtype)), x[:4].to(dtype))
    wrong = nki_lab.torch.custom_op("lab::rows", rows, shapes=lambda x: (x.shape, torch.bfloat16))
    with pytest.raises(KernelArgument, match=r"shapes says that result 0 is \[5, 6\] bfloat16"):
        wrong(x)


class Normed(torch.utils.data.Dataset):
    """Rows that a worker of a DataLoader normalises."""

    def __init__(self, operator: Any, x: Any, gamma: Any) -> None:
        self.operator, self.x, self.gamma = operator, x, gamma

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self.operator(self.x, self.gamma, 1e-5)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_of_a_data_loader(way, x, gamma):
    loader = torch.utils.data.DataLoader(
        Normed(normed, x, gamma), num_workers=1, multiprocessing_context=way
    )
    (found,) = loader
    torch.testing.assert_close(found[0], reference(x, gamma), rtol=1e-4, atol=1e-4)


def test_mixed_precision(x, gamma):
    cast = nki_lab.torch.custom_op(
        "lab::cast", rmsnorm, backward=rmsnorm_backward, autocast=torch.bfloat16
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert op(x, gamma).dtype == torch.float32
        (grad,) = torch.autograd.grad(cast(x.requires_grad_(), gamma)[0].float().pow(3).sum(), x)
    (wanted,) = torch.autograd.grad(reference(x, gamma).pow(3).sum(), x)
    assert grad.dtype == torch.float32
    assert not torch.equal(grad, wanted)
    torch.testing.assert_close(grad, wanted, rtol=5e-2, atol=5e-2 * float(wanted.abs().max()))


def test_dynamic_sizes_need_shapes(x, gamma):
    torch._dynamo.reset()
    dynamic = nki_lab.torch.custom_op(
        "lab::dynamic", rmsnorm, shapes=lambda x, gamma, eps: (x, ((x.shape[0], 1), nl.float32))
    )

    class Module(torch.nn.Module):
        def forward(self, x, gamma):
            return dynamic(x, gamma, 1e-5)[0]

    sizes = {"x": {0: torch.export.Dim("rows", min=2)}, "gamma": None}
    exported = torch.export.export(Module(), (x, gamma), dynamic_shapes=sizes).module()
    torch.testing.assert_close(
        exported(x[:3], gamma), reference(x[:3], gamma), rtol=1e-4, atol=1e-4
    )


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message", "help"),
    [
        ({"backward": rmsnorm_backward, "no_grad": ()}, "would be given the gradient of result `rstd`", "no_grad"),
        ({"backward": rmsnorm_backward, "save": ("x",)}, "would be given 2 gradients", "no_grad"),
        ({"backward": "autom"}, "backward='autom' is not a kernel", "write backward='auto'"),
        ({"no_grad": ("rst",)}, "no_grad names `rst`", "rstd"),
        ({"mutates": "y"}, "mutates='y' is no parameter", "parameters: x, gamma, eps"),
        ({"backward": rmsnorm_backward, "no_grad": ("rstd",), "wrt": ("eps",)}, "wrt names `eps`", "x, gamma"),
        ({"backward": lambda dy, size: dy, "no_grad": ("rstd",)}, "save names `size`", "x, gamma"),
    ],
)  # fmt: skip
def test_mistakes_of_the_declaration(options, message, help):
    with pytest.raises(KernelArgument) as raised:
        nki_lab.torch.custom_op("lab::mistake", rmsnorm, **options)
    assert message in raised.value.message and help in raised.value.help


def test_mistakes_of_a_call(x, gamma):
    with pytest.raises(KernelArgument, match="`x` has dtype float64"):
        normed(x.double(), gamma)
    with pytest.raises(RuleBroken, match=r"cannot be repeated to \[5, 6\]"):
        normed(x, gamma[:5])
    with pytest.raises(KernelArgument, match="is a tensor without axes"):
        normed(x, gamma[0])
    with pytest.raises(KernelArgument, match="returns 2 results, and the operator was made for 1"):
        nki_lab.torch.custom_op("lab::one", rmsnorm, results=1)(x, gamma)
    for name in ("rmsnorm", "lab::class", "lab::norme_é"):
        with pytest.raises(KernelArgument, match=f"'{name}' does not name an operator"):
            nki_lab.torch.custom_op(name, rmsnorm)
    wrong = nki_lab.torch.custom_op(
        "lab::wrong", scaled, backward=lambda dout: dout[:2], wrt=("x",)
    )
    with pytest.raises(
        KernelArgument, match=r"returns a gradient \[2, 6\] for `x`, which is \[5, 6\]"
    ):
        wrong(x.requires_grad_()).sum().backward()


def test_a_mistake_of_a_kernel_in_what_is_compiled_shows_its_line(x, gamma):
    torch._dynamo.reset()
    plain = torch.compile(normed, backend="eager")
    with pytest.raises(RuleBroken, match=r"cannot be repeated to \[5, 6\]"):
        plain(x, gamma[:5])
    torch._dynamo.reset()
    whole = torch.compile(normed, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"kernels\.py, line") as raised:
        whole(x, gamma[:5])
    assert "return nl.broadcast_to(" in str(raised.value)


def test_an_interrupt_ends_a_compiled_step(x):
    torch._dynamo.reset()
    double = nki_lab.torch.custom_op("lab::interrupted", scaled)
    step = torch.compile(double, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(step(x), 2 * x)
    with interrupted_once(), pytest.raises(KeyboardInterrupt):
        step(x)
    torch.testing.assert_close(step(x), 2 * x)


def test_a_kernel_that_is_no_operator_is_refused_by_a_compiler(x):
    @nki.jit
    def doubled(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(x)))
        return out

    calls = (doubled, lambda x: nki_lab.run(doubled, x).value)
    for call in calls:
        with pytest.raises(KernelArgument, match=r"torch\.compile"):
            torch.compile(lambda x, call=call: call(x), backend="eager")(x)
    kept_out = torch.compiler.disable(doubled)
    beside = torch.compile(lambda x: kept_out(x) + 1, backend="eager")
    torch.testing.assert_close(beside(x), 2 * x + 1)

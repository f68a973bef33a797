"""Traces of models of PyTorch: each row against a formula, and against the kernel run by itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.dtypes import float8_e4m3fn_x4
from nki_lab.errors import KernelArgument, NkiError, NotModelled, UnknownOption
from nki_lab.frameworks.custom_call import hlo_shape
from nki_lab.runtime import jit
from nki_lab.targets import get_target
from nki_lab.views.registry import Parts
from nki_lab.widgets.packing import UnknownPart, unpack
from tests.frameworks.kernels import rmsnorm, rmsnorm_backward
from tests.views.test_saved import state_of
from tests.widgets.test_picture import decode

torch = pytest.importorskip("torch")

TARGET = get_target("trn2")
#: The chip moves bytes no faster than this; see nki_lab/targets/trn2.py.
BYTES_PER_NS = min(TARGET.hbm_bytes_per_ns, TARGET.dma_bytes_per_ns_all_engines)
#: backend_config of the official example (nki/guides/framework_custom_op.rst).
OFFICIAL = (
    "eyJrZXJuZWxfdmVyc2lvbiI6IDEsICJrbGlyX2JpbmFyeSI6IHsiYmluYXJ5IjogIi90bXAvbmtpX3RlbnNvcl9hZGRncmV6aGF4eS5rbGlyIiwg"
    "ImlucHV0X25hbWVzIjogWyJhX2lucHV0IiwgImJfaW5wdXQiLCAidG1wLjQiXSwgIm91dHB1dF9uYW1lcyI6IFsiY19vdXRwdXQuMzUiXX0sICJm"
    "dW5jX25hbWUiOiAibmtpX3RlbnNvcl9hZGQiLCAiZ3JpZCI6IFtdLCAiaGFzX2NvbGxlY3RpdmVzIjogZmFsc2V9"
)


@jit
def nki_tensor_add(a_input, b_input):
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    for start in range(0, a_input.shape[0], 128):
        rows = slice(start, min(start + 128, a_input.shape[0]))
        nl.store(c_output[rows], nl.add(nl.load(a_input[rows]), nl.load(b_input[rows])))
    return c_output


@jit
def accumulate(total, x):
    nl.store(total, nl.add(nl.load(total), nl.load(x)))


norm = nki_lab.torch.custom_op("traced::rmsnorm", rmsnorm, backward=rmsnorm_backward)
add = nki_lab.torch.custom_op("traced::add", nki_tensor_add, backward=lambda dc: (dc, dc))


class Norm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: Any) -> Any:
        return norm(x, self.gamma)[0]


class Block(torch.nn.Module):
    def __init__(self, width: int, shared: Any) -> None:
        super().__init__()
        self.norm, self.up = shared, torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        return add(x, self.down(torch.nn.functional.silu(self.up(self.norm(x)))))


class Model(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        shared = Norm(width)
        self.embed = torch.nn.Embedding(50, width)
        self.layers = torch.nn.ModuleList(Block(width, shared) for _ in range(2))

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(3)
    return Model()


IDS = torch.tensor([4, 0, 49, 7, 7, 21, 30, 1])


@pytest.fixture(scope="module")
def traced(model: Any) -> Any:
    return nki_lab.torch.trace_model(model, IDS, target="trn2", backward=lambda y: (y**3).sum())


def test_rows_stand_in_order_with_their_modules(traced):
    rows = [(row.name, row.path, row.is_kernel) for row in traced.of("forward")]
    layer = [
        ("traced::rmsnorm", "norm", True), ("aten::addmm", "up", False), ("aten::silu", "", False),
        ("aten::addmm", "down", False), ("traced::add", "", True),
    ]  # fmt: skip
    within = [
        (name, f"layers.{n}.{path}".rstrip("."), k) for n in (0, 1) for name, path, k in layer
    ]
    loss = [("aten::pow", "loss", False), ("aten::sum", "loss", False)]
    assert rows == [("aten::embedding", "embed", False), *within, *loss]
    # The shared module has the path of each of its calls, and so have its rows of the backward.
    paths = [row.path for row in traced.of("backward") if row.is_kernel]
    assert paths == ["layers.1.norm", "layers.0.norm"]
    assert [row.name for row in traced.kernels].count("traced::rmsnorm_backward") == 2


def test_estimates_are_formulas_and_kernels_are_modelled(traced, model):
    embed, kernel, up, silu = traced.rows[:4]
    assert up.flops == 2 * 8 * 16 * 32
    assert up.bytes == 4 * (32 + 8 * 16 + 16 * 32 + 8 * 32)  # bias, x, weight, result
    assert up.total_ns == pytest.approx(up.bytes / BYTES_PER_NS)
    assert (silu.bytes, silu.flops) == (4 * 2 * 8 * 32, 0)
    assert embed.bytes == 8 * 8 + 2 * 4 * 8 * 16  # ids, the rows that they choose, the result
    alone = nki_lab.run(
        rmsnorm, model.embed(IDS).detach().numpy(), np.linspace(0.5, 1.5, 16, dtype=np.float32), target="trn2"
    )  # fmt: skip
    assert kernel.total_ns == alone.profile.total_ns
    assert (kernel.inputs, kernel.outputs) == (
        ("float32[8, 16]", "float32[16]"), ("float32[8, 16]", "float32[8, 1]"),
    )  # fmt: skip
    assert traced.total_ns == pytest.approx(sum(row.total_ns for row in traced.rows))
    assert sum(map(traced.share, traced.rows)) == pytest.approx(1)
    times = traced.by_module()
    assert times[""] == pytest.approx(traced.total_ns)
    assert times["layers"] == pytest.approx(times["layers.0"] + times["layers.1"])


@pytest.mark.parametrize(("dtype", "factor"), [("float32", 4), ("bfloat16", 1), ("float8_e5m2", 0.5)])  # fmt: skip
def test_products_are_bound_by_the_peak_of_their_dtype(dtype, factor):
    # Tensors without values: only shapes count for an estimate.
    a, b = (torch.empty(s, device="meta", dtype=torch.bfloat16) for s in ((4096, 2048), (2048, 6144)))  # fmt: skip
    if dtype != "bfloat16":
        a, b = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
    product = torch.mm if dtype != "float8_e5m2" else lambda a, b: torch.bmm(a[None], b[None])
    (row,) = nki_lab.torch.trace_model(product, a, b, target="trn2").rows
    assert row.flops == 2 * 4096 * 2048 * 6144
    peak = TARGET.tensor_ghz * TARGET.pe_rows * TARGET.pe_columns * 2
    assert row.total_ns == pytest.approx(row.flops * factor / peak)
    assert row.binds.startswith("Tensor engine")


def test_values_and_gradients_are_those_of_the_model(traced, model):
    def plain(ids: Any) -> Any:
        x = model.embed(ids)
        for layer in model.layers:
            h = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * layer.norm.gamma
            x = x + layer.down(torch.nn.functional.silu(layer.up(h)))
        return x

    wanted = plain(IDS)
    torch.testing.assert_close(traced.value, wanted, rtol=1e-4, atol=1e-4)
    grads = torch.autograd.grad((wanted**3).sum(), list(model.parameters()))
    for (name, _), grad in zip(model.named_parameters(), grads, strict=True):
        torch.testing.assert_close(traced.gradients[name], grad, rtol=1e-3, atol=1e-3)
    assert all(p.grad is None for p in model.parameters())


def test_the_graph_follows_values_through_views(traced):
    by_number = {row.number: row for row in traced.rows}
    assert by_number[0].sources == ("ids",)
    assert [by_number[n].sources for n in (1, 2, 3, 4, 5)] == [(0,), (1,), (2,), (3,), (0, 4)]
    assert "* %5 = traced::add(%0, %4): float32[8, 16]  # layers.0" in traced.graph

    def written(x: Any) -> Any:
        y = x.T.contiguous()
        y[1:].mul_(2.0)
        return y.reshape(-1) + 1

    rows = nki_lab.torch.trace_model(written, torch.ones(3, 2), target="trn2").rows
    assert [(row.name, row.sources) for row in rows] == [
        ("aten::clone", ("x",)), ("aten::mul_", (0,)), ("aten::add", (1,)),
    ]  # fmt: skip


def test_the_text_says_what_is_estimated(traced):
    text = str(traced)
    assert "* traced::rmsnorm" in text and "estimated" in text and "backward" in text
    (line,) = [line for line in text.splitlines() if line.startswith("2 ")]
    assert "~" in line and "8,192" in line
    # Of many operators a notebook shows the longest.
    short = repr(traced.show()).splitlines()
    assert len(short) <= 38 and short[4].startswith("#") and "take the most time" in short[3]
    longest = max(traced.rows, key=lambda row: row.total_ns)
    assert short[5].split()[2] == longest.name


def test_a_model_without_kernels_and_kernels_that_are_no_operators():
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh())
    trace = nki_lab.torch.trace_model(model, torch.ones(2, 3), target="trn2")
    assert [(r.name, r.path) for r in trace.rows] == [("aten::addmm", "0"), ("aten::tanh", "1")]
    assert trace.kernels == () and "no NKI kernel" in trace.custom_calls
    called = nki_lab.torch.trace_model(lambda x: model(x), torch.ones(2, 3), backward=True)
    assert "Sequential.0.weight" in called.gradients and called.rows[0].path == "Sequential.0"
    with pytest.raises(KernelArgument, match="no result of the model has a gradient"):
        nki_lab.torch.trace_model(torch.sin, torch.ones(2), backward=True)
    direct = nki_lab.torch.trace_model(
        lambda a: torch.sin(nki_tensor_add(a, a)), torch.ones(128, 4), target="trn2"
    )
    assert [(r.name, r.is_kernel) for r in direct.rows] == [("nki_tensor_add", True), ("aten::sin", False)]  # fmt: skip
    assert direct.rows[1].sources == (0,)


def test_what_checkpointing_computes_again_is_a_row_of_the_backward(model):
    block = model.layers[0]
    again = lambda x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # noqa: E731
    trace = nki_lab.torch.trace_model(again, torch.ones(8, 16), target="trn2", backward=True)
    assert [(r.name.removeprefix("traced::"), r.path, r.part) for r in trace.kernels] == [
        ("rmsnorm", "Block.norm", "forward"), ("add", "Block", "forward"),
        ("rmsnorm", "Block.norm", "backward"), ("rmsnorm_backward", "Block.norm", "backward"),
    ]  # fmt: skip


@pytest.mark.thorough
def test_an_exported_program_says_its_modules_and_its_dynamic_sizes(model):
    exported = torch.export.export(model, (IDS,))
    rows = nki_lab.torch.trace_model(exported, IDS, target="trn2").rows
    paths = [row.path for row in rows if row.name == "traced::rmsnorm"]
    assert paths[0].endswith("norm") and len(paths) == 2
    assert [r.path for r in rows if r.name == "aten::addmm"][:2] == ["layers.0.up", "layers.0.down"]
    net = torch.nn.Linear(3, 5)
    sizes = ({0: torch.export.Dim("rows", min=2)},)
    dynamic = torch.export.export(net, (torch.ones(4, 3),), dynamic_shapes=sizes)
    (finding,) = nki_lab.torch.trace_model(dynamic, torch.ones(6, 3), target="trn2").findings
    assert finding.kind == "dynamic shape" and "EMOD025" in finding.message


def _foreign() -> Any:
    @torch.library.custom_op("traced::host", mutates_args=())
    def host(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sort(x.numpy()))

    return host


LIMITS = {
    "float64": (lambda x: x.double() + 1, "float64"),
    "int64": (lambda x: torch.tensor([3_000_000_000, -1]) * 2, "int64"),
    "float8": (lambda x: x.to(torch.float8_e4m3fnuz), "float8"),
    "float8fn": (lambda x: x.to(torch.float8_e4m3fn), "float8"),
    "complex": (lambda x: x.to(torch.complex64) * 1j, "complex numbers"),
    "size": (lambda x: torch.nonzero(x), "dynamic shape"),
    "foreign": (_foreign(), "operator"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_devices_are_findings_with_a_place(name):
    function, kind = LIMITS[name]
    x = torch.tensor([1.5, -2.0])
    trace = nki_lab.torch.trace_model(function, x, target="trn2")
    assert {finding.kind for finding in trace.findings} == {kind}
    finding = trace.findings[0]
    assert finding.help and ".rst)" in finding.message and finding.is_serious
    assert finding.place is not None and finding.place.line
    with pytest.raises(NotModelled, match=kind):
        nki_lab.torch.trace_model(function, x, target="trn2", device_check=True)
    if name == "float8fn":
        assert nki_lab.torch.trace_model(function, x, target="trn3").findings == ()


def test_kernels_of_a_model_run_on_as_many_cores():
    two = nki_lab.torch.custom_op("traced::two", nki_tensor_add[2])
    x = torch.ones(128, 4)
    trace = nki_lab.torch.trace_model(lambda x: two(add(x, x), x), x, target="trn2")
    (finding,) = trace.findings
    assert finding.kind == "LNC"
    assert "%1 traced::two runs on 2 cores, and %0 traced::add on 1 core" in finding.message
    assert '"grid": [\n    2\n  ]' in trace.rows[1].custom_call


def test_a_result_outside_shared_memory_is_refused_at_its_line():
    @jit
    def private(x):
        return nl.load(x)

    op = nki_lab.torch.custom_op("traced::private", private, results=1)
    with pytest.raises(NkiError, match="shared_hbm") as refused:
        nki_lab.torch.trace_model(op, torch.ones(4, 3), target="trn2")
    assert refused.value.stack and refused.value.help


def test_a_custom_call_is_written_as_in_the_official_example():
    x = torch.ones(256, 1024)
    (row,) = nki_lab.torch.trace_model(add, x, x, target="trn2").rows
    text, _, config = row.custom_call.partition("backend_config = ")
    assert (
        "%custom-call = f32[256,1024]{1,0} custom-call(%a_input, %b_input),"
        ' custom_call_target="AwsNeuronCustomNativeKernel", api_version=API_VERSION_STATUS_RETURNING'
    ) in text
    made, official = json.loads(config), json.loads(base64.b64decode(OFFICIAL))
    assert made.keys() == official.keys() and made["klir_binary"].keys() == official["klir_binary"].keys()  # fmt: skip
    for name in ("kernel_version", "func_name", "grid", "has_collectives"):
        assert made[name] == official[name]
    assert made["klir_binary"]["input_names"] == official["klir_binary"]["input_names"][:2]
    assert "only the official compiler makes" in made["klir_binary"]["binary"]


@pytest.mark.parametrize(
    ("dtype", "shape", "text"),
    [
        ("bfloat16", (3, 4, 5), "bf16[3,4,5]{2,1,0}"), ("bool", (7,), "pred[7]{0}"), ("float32", (), "f32[]"),
        ("float8_e4m3", (2, 1), "f8e4m3[2,1]{1,0}"), (float8_e4m3fn_x4, (2, 6), "u32[2,6]{1,0}"),
    ],
)  # fmt: skip
def test_shapes_are_written_as_in_hlo(dtype, shape, text):
    assert hlo_shape(dtype, shape) == text


def test_a_written_argument_shares_its_memory_with_a_result():
    op = nki_lab.torch.custom_op("traced::accumulate", accumulate, mutates="total")
    total = torch.ones(4, 3)
    (row,) = nki_lab.torch.trace_model(op, total, torch.ones(4, 3), target="trn2").rows
    assert "output_to_operand_aliasing={{}: (0, {})}" in row.custom_call
    assert "operand_output_aliases = {0: 0}" in row.custom_call
    assert "%custom-call = f32[4,3]{1,0} custom-call(%total, %x)" in row.custom_call
    torch.testing.assert_close(total, torch.full((4, 3), 2.0))


# -- what a notebook shows of it ---------------------------------------------------------------------------------------


def test_every_view_has_data_a_text_and_a_picture(traced):
    shown = traced.show()
    assert shown.tabs == ("operators", "graph", "kernels", "calls")
    (operators,) = (unpack(block)[0] for block in shown._parts.make("operators"))
    assert [row["number"] for row in operators["rows"]] == [row.number for row in traced.rows]
    assert sum(row["ns"] for row in operators["rows"]) == pytest.approx(operators["total"])
    (kernels,) = (unpack(block)[0] for block in shown._parts.make("kernels"))
    # Calls of one program share its views: two of each kernel, of which the second is not shown again.
    assert [(run["name"], len(run["rows"])) for run in kernels["runs"]] == [
        ("traced::rmsnorm", 2), ("traced::add", 2), ("traced::rmsnorm_backward", 2),
    ]  # fmt: skip
    backward = traced.kernels[-1].run.view_data
    assert list(shown._parts.make("run/2/report")) == list(Parts(backward).make("report"))
    for name in ("run/3/report", "run/x/report", "nothing"):
        with pytest.raises(UnknownPart):
            next(shown._parts.make(name))
    for view in shown.tabs:
        assert decode(shown.to_image("png", view)).shape[1] == 2 * 800
    held = set(state_of(traced.show("operators", "graph", "calls").page())["parts"])
    assert {"operators", "graph", "graph/all/modules", "calls"} <= held
    with pytest.raises(UnknownOption, match="unknown view `grpah`"):
        traced.show("grpah")


def test_the_graph_has_a_node_for_each_operator_or_for_neighbours_of_a_module(traced):
    (graph,) = (unpack(block)[0] for block in traced.show()._parts.make("graph/forward/operators"))
    names = [node["name"] for node in graph["nodes"]]
    assert names[:3] == ["ids", "embedding", "traced::rmsnorm"]
    assert [node["kernel"] for node in graph["nodes"]].count(True) == 4
    pairs = {(edge["from"], edge["to"]) for edge in graph["edges"]}
    assert {(0, 1), (1, 2), (1, 6), (5, 6)} <= pairs  # both ways into the sum of the first layer
    (graph,) = (unpack(block)[0] for block in traced.show()._parts.make("graph/all/modules"))
    shown = [n for node in graph["nodes"] for n in node["rows"]]
    assert shown == [row.number for row in traced.rows]
    assert len(graph["nodes"]) < len(traced.rows)

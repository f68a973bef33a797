"""A block of Llama whose parts are kernels, as docs/operators.md builds it, against the same block in plain PyTorch."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from tests.thorough import first

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

PAGE = Path(__file__).parents[2] / "docs/operators.md"
SIZES = {"hidden": 96, "inner": 176, "heads": 4, "kv_heads": 2, "d": 24}

#: Of the largest element of a tensor. In bfloat16 twice what the plain block is away from float32 is allowed, too.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    """Return the Python of the section of the page: the operators, and the model of Hugging Face."""
    section = PAGE.read_text().split("## Use it in a model")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def use_kernels(blocks: list[str]) -> Any:
    """Return the function of the page that replaces the parts of a layer."""
    names: dict[str, Any] = {}
    exec(compile(blocks[0], str(PAGE), "exec"), names)
    return names["use_kernels"]


class Norm(nn.Module):
    """RMSNorm, in float32 whatever the dtype of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, SIZES["hidden"]))
        self.variance_epsilon = 1e-5

    def forward(self, x: Any) -> Any:
        wide = x.float()
        normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * normal.to(x.dtype)


class Attention(nn.Module):
    """Causal attention with rotary positions, in which heads share keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.head_dim, self.scaling = SIZES["d"], SIZES["d"] ** -0.5
        widths = [SIZES[name] * SIZES["d"] for name in ("heads", "kv_heads", "kv_heads")]
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(SIZES["hidden"], width, bias=False) for width in widths
        )
        self.o_proj = nn.Linear(widths[0], SIZES["hidden"], bias=False)

    def forward(self, hidden_states: Any, position_embeddings: Any) -> Any:
        cos, sin = (a[:, None] for a in position_embeddings)
        q, k, v = (
            project(hidden_states).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        half = self.head_dim // 2
        q, k = (x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin for x in (q, k))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(2)), None


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        hidden, inner = SIZES["hidden"], SIZES["inner"]
        self.gate_proj, self.up_proj = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """A layer of Llama, with the names that it has in the library of Hugging Face."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(), FeedForward()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()

    def forward(self, x: Any, position_embeddings: Any) -> Any:
        normal = self.input_layernorm(x)
        x = x + self.self_attn(normal, position_embeddings=position_embeddings)[0]
        return x + self.mlp(self.post_attention_layernorm(x))


def angles(tokens: int, dtype: Any) -> tuple[Any, Any]:
    """Return cosines and sines for each token, both halves of a head alike."""
    turns = torch.arange(0, SIZES["d"], 2) / SIZES["d"]
    steps = torch.arange(tokens)[None, :, None] / 10000**turns
    both = torch.cat((steps, steps), -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def ran(layer: Any, x: Any, weights: Any) -> dict[str, Any]:
    """Return the result of a layer, and the gradients of a loss by its input and all of its weights."""
    x = x.clone().requires_grad_()
    out = layer(x, position_embeddings=angles(x.shape[1], x.dtype))
    (out.float() ** 3 * weights).sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters()}
    return {"result": out.detach(), "input": x.grad, **gradients}


def distances(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, float]:
    """Return how far each tensor is from the wanted one, as a part of its largest element."""
    assert found.keys() == wanted.keys()
    return {
        name: float((found[name].float() - w.float()).abs().max() / w.float().abs().max())
        for name, w in wanted.items()
    }


def compare(layer: Any, use_kernels: Any, tokens: int, dtype: Any) -> None:
    """Compare a layer with itself made of kernels, forward and backward."""
    generator = torch.Generator().manual_seed(5)
    x, weights = torch.randn((2, 2, tokens, SIZES["hidden"]), generator=generator)
    exact = ran(layer, x, weights)
    layer.zero_grad()
    layer = layer.to(dtype)
    made = copy.deepcopy(layer)
    use_kernels(made)
    plain, found = (ran(each, x.to(dtype), weights) for each in (layer, made))
    rounding = distances(plain, exact)
    apart = distances(found, plain)
    for name, part in apart.items():
        assert part < max(TOLERANCE[dtype], 2 * rounding[name]), (name, part, rounding[name])


@pytest.mark.parametrize(
    ("tokens", "dtype"),
    first(
        [(37, torch.float32), (130, torch.bfloat16), (128, torch.float32), (37, torch.bfloat16)], 2
    ),
)
def test_a_block_of_kernels_matches_the_block(use_kernels, tokens, dtype):
    torch.manual_seed(3)
    compare(Block(), use_kernels, tokens, dtype)


def hugging_face() -> Any:
    """Return a layer of the library of Hugging Face with random weights."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    config = transformers.LlamaConfig(
        hidden_size=SIZES["hidden"],
        intermediate_size=SIZES["inner"],
        num_attention_heads=SIZES["heads"],
        num_key_value_heads=SIZES["kv_heads"],
        head_dim=SIZES["d"],
    )
    config._attn_implementation = "sdpa"
    torch.manual_seed(3)
    return LlamaDecoderLayer(config, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [37, 128, 200])
def test_a_block_of_hugging_face_matches(use_kernels, tokens, dtype):
    compare(hugging_face(), use_kernels, tokens, dtype)


@pytest.mark.thorough
def test_the_model_of_the_page(blocks, capsys):
    pytest.importorskip("transformers")
    names: dict[str, Any] = {}
    torch.manual_seed(1)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == len(list(names["plain"].parameters()))
    assert max(float(number) for _, number in printed) < 5e-6

"""What published kernels must give, by NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis."""
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return softmax(q.T k) v.T, for inputs whose first axis is that of the head."""
    return softmax(q.T @ k) @ v.T


def square_windows(x: np.ndarray, pool: int) -> np.ndarray:
    """Return windows of pool x pool of images (C, H, W) as (C, H/pool, W/pool, pool, pool)."""
    c, h, w = x.shape
    windows = x.reshape(c, h // pool, pool, w // pool, pool)
    return windows.transpose(0, 1, 3, 2, 4)


def transposed_images(x: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return rows of H * W numbers as rows of W * H numbers."""
    return x.reshape(-1, *shape).transpose(0, 2, 1).reshape(len(x), -1)


def layer_norm(x: np.ndarray, epsilon: float, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Normalize rows, then scale and shift columns."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(x.var(axis=1, keepdims=True) + epsilon) * gamma + beta


def rms_norm(x: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """Divide rows by the root of their mean square, then scale columns."""
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True)) * gamma


def small_head_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, *_: Any) -> np.ndarray:
    """Return softmax(q k.T / 8) v."""
    return softmax(q @ k.T / 8) @ v


def convolution(x: np.ndarray, w: np.ndarray, bias: np.ndarray, pool: int = 1) -> np.ndarray:
    """Convolve images (B, C, H, W) with filters (O, C, K, K), add a bias, and take maxima of pool x pool."""
    size = w.shape[2]
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    made = np.einsum("bchwij,ocij->bohw", windows, w, optimize=True) + bias[:, None, None]
    b, o, h, width = made.shape
    blocks = made[:, :, : h // pool * pool, : width // pool * pool]
    return blocks.reshape(b, o, h // pool, pool, width // pool, pool).max(axis=(3, 5))

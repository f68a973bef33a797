"""Programs for the depthwise convolutions that Autocomp found.

image [batch, channels, 1, width] and weights [channels, 1, 1, 3], float32; each channel is convolved with its own three
weights, one zero on either side of a row; the result has the shape of the image. Channels lie on partitions, 128 at a
time. In all versions each column of a result takes two instructions: multiply three columns of the image by the
weights, and sum the product along the free axis.

- all_at_once: every image, all weights and every result have their own place in SBUF, cleared by a memset; images
  and weights are loaded first, results are stored last. Three published versions differ only in how the author names
  slices: they are this program.
- by_tile: one batch and 128 channels at a time: clear, load, compute, store.

The three versions after these cannot have run as they are written: on trn1 an instruction takes Vector at least 64
cycles of 1.12 GHz, tensor_reduce runs nowhere else, and GpSimd, which could take some of the rest, cannot reach PSUM
(nki/api/nki/isa/__init__.py:399).

Structure: ucb-bar/autocomp dd26a565 examples/trn-advanced/4_conv1d_trace.py, the code above each score; sizes and
padding from harnesses/trn-advanced-nki1/4_conv1d_test.py.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.tiles import output, store, tile
from nki_lab.api import isa as nisa

_WINDOW = 3


def _cleared(held):
    nisa.memset(dst=held, value=0.0)
    return held


def _load_image(image, batch, channels):
    width = image.shape[3]
    held = _cleared(tile(128, width + 2))
    nisa.dma_copy(dst=held[:, 1 : width + 1], src=image[batch, channels, 0, :])
    return held


def _load_weights(weights, channels):
    held = _cleared(tile(128, _WINDOW))
    nisa.dma_copy(dst=held, src=weights[channels, 0, 0, :])
    return held


def _column(dst, held, weights, column):
    product = tile(128, _WINDOW)
    nisa.tensor_tensor(
        dst=product, data1=held[:, column : column + _WINDOW], data2=weights, op=nl.multiply
    )
    nisa.tensor_reduce(dst=dst, op=nl.add, data=product, axis=1)


def _tiles(image):
    return [slice(c, c + 128) for c in range(0, image.shape[1], 128)]


def all_at_once(image, weights):
    """Convolve with everything in SBUF from start to end."""
    width = image.shape[3]
    out = output(image.shape)
    places = [(batch, channels) for batch in range(image.shape[0]) for channels in _tiles(image)]
    images = [_load_image(image, *place) for place in places]
    kept = {channels.start: _load_weights(weights, channels) for channels in _tiles(image)}
    results = [_cleared(tile(128, width)) for _ in places]
    for (_, channels), held, result in zip(places, images, results, strict=True):
        for column in range(width):
            _column(result[:, column : column + 1], held, kept[channels.start], column)
    for (batch, channels), result in zip(places, results, strict=True):
        store(out[batch, channels, 0, :], result)
    return out


def by_tile(image, weights):
    """Convolve one batch and 128 channels at a time."""
    width = image.shape[3]
    out = output(image.shape)
    for batch in range(image.shape[0]):
        for channels in _tiles(image):
            held, kept = _load_image(image, batch, channels), _load_weights(weights, channels)
            result = _cleared(tile(128, width))
            for column in range(width):
                _column(result[:, column : column + 1], held, kept, column)
            store(out[batch, channels, 0, :], result)
    return out


#: (line of the score in the trace, program)
VERSIONS = (
    (116, all_at_once),
    (322, all_at_once),
    (516, all_at_once),
    (740, by_tile),
)

_KERNEL, _SHAPES = "Autocomp conv1d depthwise", "batch 8, channels 512, 1x2048, k 3"
_TENSORS = ((8, 512, 1, 2048), "float32"), ((512, 1, 1, 3), "float32")

REPLAYS = tuple(
    Replay(
        _KERNEL,
        _SHAPES,
        lambda f=function: Program(f, _TENSORS),
        source=f"4_conv1d_trace.py:{line}",
        family=_KERNEL,
    )
    for line, function in VERSIONS
)

_MERGED = (
    "131,072 of its instructions run on Vector alone and take that 7.5 ms at least; the published time is {} ms: "
    "the compiler merged them"
)

NOT_REPLAYED = {
    (_KERNEL, _SHAPES, f"4_conv1d_trace.py:{line}"): _MERGED.format(published)
    for line, published in ((943, "5.6"), (1146, "5.0"), (1418, "0.46"))
}

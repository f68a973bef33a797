"""Tests that a kernel saved to a file computes, fails and reports the same when it is loaded without its source."""

from __future__ import annotations

import json
import linecache
import pickle
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler import program as artifact
from nki_lab.compiler.program import FORMAT_VERSION, CompiledKernel, facts_hash, from_json, to_json
from nki_lab.compiler.stored_source import StoredSource
from nki_lab.errors import AddressOutOfRange, BadFile, KernelArgument, NkiError, NotOnTarget
from nki_lab.ir.text.printer import print_kernel
from nki_lab.profiler.formats.reading import MAX_BYTES
from nki_lab.runtime import jit, load, run
from nki_lab.targets import ALL_TARGETS
from tests.simulator.kernels import EXAMPLES

X = np.random.default_rng(5).standard_normal((4, 6)).astype(np.float32)


@jit
def scaled(x, factor=2.0, shift=None):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    if shift is not None:
        nisa.tensor_tensor(tile, tile, nl.load(shift), nl.add)
    nisa.dma_copy(out, tile)
    return out


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return scaled.compile(X, 3.0).save(tmp_path / "scaled.nkic")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_loaded_kernel_computes_the_same(name, tmp_path):
    example = EXAMPLES[name]
    given, again = (example.arrays(np.random.default_rng(3)) for _ in range(2))
    compiled = jit(example.kernel).compile(*given)
    loaded = load(compiled.save(tmp_path / "kernel.nkic", source=False))
    expected, found = compiled.launch(*given), loaded.launch(*again)
    for a, b in zip([*expected.outputs, *given], [*found.outputs, *again], strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    assert found.profile.total_ns == expected.profile.total_ns
    assert [f.message for f in found.findings] == [f.message for f in expected.findings]


def test_the_text_of_a_loaded_program_is_the_one_saved(tmp_path):
    compiled = scaled.compile(X, shift=X).compiled
    loaded = CompiledKernel.load(compiled.save(tmp_path / "k.nkic"))
    assert print_kernel(loaded.kernel) == print_kernel(compiled.kernel)
    assert to_json(loaded, source=False) == to_json(compiled, source=False)


def test_two_cores_keep_both_programs(tmp_path):
    def swapped(x):
        core = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), x.dtype, nl.shared_hbm, name="out")
        mine, theirs = nl.load(x), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.tensor_scalar(mine, mine, nl.multiply, float(core + 1))
        nisa.sendrecv(mine, theirs, 1 - core, 1 - core, 0)
        nisa.dma_copy(out[core], theirs)
        return out

    loaded = load(jit(swapped)[2].compile(X).save(tmp_path / "k.nkic"))
    np.testing.assert_array_equal(loaded(X), np.stack([2 * X, X]))


def test_device_loops_and_registers_are_kept(tmp_path):
    def counted(x, count):
        tile, times = nl.load(x), nisa.register_alloc()
        nisa.register_load(times, nl.load(count))
        nl.fori_loop(0, times, lambda i: nisa.tensor_scalar(tile, tile, nl.add, 1.0))
        nisa.dma_copy(x, tile)

    loaded = load(jit(counted).compile(X.copy(), np.array([[1]], np.int32)).save(tmp_path / "k"))
    for times in (0, 3):
        given = X.copy()
        loaded(given, np.array([[times]], np.int32))
        np.testing.assert_array_equal(given, sum([1] * times, X).astype(np.float32))


def test_constants_may_be_left_out_or_must_be_the_ones_compiled_for(saved):
    loaded = load(saved)
    for call in (lambda: loaded(X), lambda: loaded(x=X), lambda: loaded(X, 3.0, None)):
        np.testing.assert_array_equal(call(), 3 * X)
    with pytest.raises(KernelArgument, match=r"`factor` is 2\.0, the kernel was compiled for 3\.0"):
        loaded(X, 2.0)
    with pytest.raises(
        KernelArgument, match="`shift` is an array, the kernel was compiled for None"
    ):
        loaded(X, shift=X)
    with pytest.raises(KernelArgument, match=r"`x` is missing: an array \[4, 6\] of float32"):
        loaded()
    with pytest.raises(KernelArgument, match="unexpected keyword argument 'y'"):
        loaded(y=X)
    with pytest.raises(KernelArgument, match="compiled for"):
        loaded(X[:2])


@dataclass
class Options:
    weights: np.ndarray
    scale: float


def test_arrays_in_containers_are_found_by_their_paths(tmp_path):
    def weighted(xs, options, act):
        tile = nl.multiply(nl.load(xs[1]), options.scale)
        tile = act(nl.multiply(tile, nl.load(options.weights)))
        nl.store(xs[0], tile)
        return {"y": xs[0]}

    def negative(t):
        return nl.multiply(t, -1.0)

    xs = (np.zeros_like(X), X)
    options = Options(X[::-1].copy(), 0.5)
    loaded = load(jit(weighted).compile(xs, options, negative).save(tmp_path / "k.nkic"))
    np.testing.assert_allclose(loaded(xs, options)["y"], -0.5 * X * X[::-1], rtol=1e-6)
    with pytest.raises(KernelArgument, match="`act` is <function>, which cannot be compared"):
        loaded(xs, options, negative)
    with pytest.raises(KernelArgument, match=r"`options.scale` is 1\.0, .* compiled for 0\.5"):
        loaded(xs, Options(options.weights, 1.0))
    with pytest.raises(KernelArgument, match=r"`options\.weights` is missing"):
        loaded(xs)


GATHER = """
import nki_lab.language as nl
from nki_lab.api import isa as nisa

def gathered(x, rows):
    out = nl.ndarray((2, 6), x.dtype, nl.shared_hbm)
    index = nl.load(rows)
    tile = nl.ndarray((2, 6), x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x.vector_select(0, index))
    nisa.dma_copy(out, tile)
    return out
"""


@pytest.mark.parametrize("source", [True, False])
def test_errors_show_the_authors_line_without_the_file(source, tmp_path):
    file = tmp_path / "gather.py"
    file.write_text(GATHER)
    scope: dict[str, object] = {}
    exec(compile(GATHER, str(file), "exec"), scope)
    rows = np.array([[0], [1]], np.int32)
    path = jit(scope["gathered"]).compile(X, rows).save(tmp_path / "k.nkic", source)
    file.unlink()
    linecache.clearcache()
    loaded = load(path)
    np.testing.assert_array_equal(loaded(X, rows), X[:2])
    with pytest.raises(AddressOutOfRange) as found:
        loaded(X, np.array([[0], [9]], np.int32))
    text = str(found.value)
    assert "--> gather.py, line 9" in text
    assert ("nisa.dma_copy(tile, x.vector_select(0, index))" in text) is source
    assert ("def gathered" in path.read_text()) is source
    assert ("vector_select" in path.read_text()) is source


# -- files that cannot be trusted --------------------------------------------------------------------------------


def rewritten(path: Path, **changes: object) -> str:
    """Return the document of a saved kernel with fields changed and the hash made to fit."""
    from nki_lab.compiler.program import _digest

    stored = json.loads(path.read_text()) | changes
    stored["sha256"] = _digest(stored)
    return json.dumps(stored, separators=(",", ":"))


def test_any_damage_is_one_sentence(saved):
    text = saved.read_text()
    pick = random.Random(0)
    for _ in range(60):
        at = pick.randrange(len(text))
        other = "0" if text[at] != "0" else "1"
        saved.write_text(text[:at] + other + text[at + 1 :])
        with pytest.raises(BadFile):
            load(saved)
    for cut in (0, 1, 100, len(text) - 1):
        saved.write_text(text[:cut])
        with pytest.raises(BadFile):
            load(saved)


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in inner:
        yield (*path, key)
        yield from _paths(part, (*path, key))


def test_an_intact_file_without_a_part_or_with_one_of_another_kind_is_refused_or_runs(saved):
    """Whoever writes a file can make the hash fit."""
    whole = json.loads(saved.read_text())
    pick = random.Random(1)
    paths = [p for p in _paths(whole) if p[0] not in ("format", "version", "sha256")]
    odd = [None, -1, 1, 10**30, 1.5, "", "x", [], [[]], {}, {"a": 1}, True]
    for n in range(400):
        stored = json.loads(json.dumps(whole))
        *to, last = pick.choice(paths)
        part = stored
        for key in to:
            part = part[key]
        if n % 4:
            part[last] = pick.choice(odd)
        else:
            del part[last]
        saved.write_text(json.dumps(stored, separators=(",", ":")))
        saved.write_text(rewritten(saved))
        with suppress(NkiError):
            loaded = load(saved)
            loaded(X)
            loaded.save(saved)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, pickle.dumps({"format": 1})])
def test_files_of_another_kind_are_refused_unread(data, tmp_path):
    file = tmp_path / "k.nkic"
    file.write_bytes(data)
    with pytest.raises(BadFile, match=r"k\.nkic is not a kernel saved by nki_lab"):
        load(file)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    file = tmp_path / "k.nkic"
    with file.open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)
    with pytest.raises(BadFile, match="larger than 1024 MiB"):
        load(file)


def test_names_and_texts_are_bounded(saved):
    whole = json.loads(saved.read_text())
    program = [
        core | {"program": core["program"].replace("%x", "%x" + "y" * 20_000)}
        for core in whole["cores"]
    ]
    assert program != whole["cores"]
    finding = {"kind": "k", "message": "m" * 200_000, "place": 0, "help": "", "code": "NKI401"}
    for changes, words in (
        ({"name": "n" * 50_000_000}, "a name of 50,000,000 characters, more than 10,000"),
        ({"cores": program}, r"a name of 20,00\d characters"),
        ({"findings": [finding]}, "a text of 200,000 characters"),
        ({"nki_lab": "9" * 50_000_000}, r"was compiled by nki_lab 999\d* *"),
    ):  # fmt: skip
        with pytest.raises(BadFile, match=words) as error:
            from_json(rewritten(saved, **changes))
        assert len(str(error.value)) < 3_000


def test_another_version_or_chip_is_refused_with_what_to_do(saved, monkeypatch):
    with pytest.raises(NotOnTarget, match="was compiled for trn3, not for trn1"):
        load(saved, target="trn1")
    assert load(saved, target="gen4").compiled.target.name == "trn3"
    with pytest.raises(BadFile, match="as another nki_lab knew it"):
        from_json(rewritten(saved, target="trn2"))
    later = saved.read_text().replace(f'"version":{FORMAT_VERSION}', '"version":99', 1)
    with pytest.raises(BadFile, match="version 99 of the format"):
        from_json(later)
    monkeypatch.setattr(artifact, "__version__", "9.9.9")
    with pytest.raises(BadFile, match=r"compiled by nki_lab 0\.\d\.\d, this is 9\.9\.9") as found:
        load(saved)
    assert "compile the kernel again" in str(found.value)


def test_every_chip_has_a_hash_of_its_own():
    assert len({facts_hash(t) for t in ALL_TARGETS}) == len(ALL_TARGETS)


def test_a_program_that_was_made_wrong_does_not_run(saved):
    program = json.loads(saved.read_text())["cores"]
    program[0]["program"] = program[0]["program"].replace("%x)", "%x[0:9, 0:6])")
    with pytest.raises(NkiError, match="slice"):
        from_json(rewritten(saved, cores=program))


def test_file_names_in_it_are_never_opened(saved, tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("password\n" * 9)
    files = [[f"../../..{secret}", False]]
    loaded = from_json(rewritten(saved, files=files, lines=None, source=None))
    assert "password" not in print_kernel(loaded.kernel)
    assert all(not span.text for i in loaded.kernel.instructions for span in i.stack)


def test_the_file_of_the_source_need_not_be_one_of_the_places():
    compiled = scaled.compile(X).compiled
    elsewhere = StoredSource("scaled", (), {}, "<elsewhere>", 7, "def scaled(x): ...")
    again = from_json(to_json(CompiledKernel(compiled.kernel, (), elsewhere)))
    assert print_kernel(again.kernel) == print_kernel(compiled.kernel)
    assert (again.source.first_line, again.source.text) == (7, elsewhere.text)


def test_a_file_that_cannot_be_written_leaves_what_was_there(saved, tmp_path, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
    with pytest.raises(BadFile, match="cannot be written"):
        scaled.compile(X).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["scaled.nkic"]
    with pytest.raises(BadFile, match="cannot be written: No such file"):
        scaled.compile(X).save(tmp_path / "no" / "folder.nkic")


def test_a_run_of_a_loaded_kernel_has_every_view(saved):
    result = load(saved).launch(X)
    assert "scaled on trn3" in repr(result)
    assert "tensor_scalar" in result.ir["loaded"]
    assert result.view_data is not None
    np.testing.assert_array_equal(result.value, run(scaled, X, 3.0).value)

"""Tests that what used to go wrong silently is reported, by every way to run a kernel."""

import signal
import warnings

import ml_dtypes
import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab import NkiWarning
from nki_lab.api import isa as nisa
from nki_lab.errors import KernelArgument, RuleBroken, TooManyTrips, UnknownOption
from nki_lab.runtime import jit, launch, run, simulate, step

RNG = np.random.default_rng(11)
X = RNG.uniform(-3, 3, (32, 6)).astype(np.float32)


def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


def told(kernel, *args, cores=None) -> list[str]:
    """Return what a run tells of hazards, after making sure that each way to run the kernel tells the same."""
    made = jit(kernel) if cores is None else jit(kernel)[cores]
    with nki_lab.use_target("trn2"):
        findings = [f.message for f in run(made, *args).findings if f.kind == "hazard"]
        ways = [made, simulate(made), made.compile(*args)]
        if cores is None:
            ways.append(jit(kernel, debug=True))
            ranks = launch(made, 2, [args, args])
            assert [[f.message for f in r.findings if f.kind == "hazard"] for r in ranks] == [
                findings,
                findings,
            ]
        for way in ways:
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter("always")
                way(*args)
            texts = [str(w.message) for w in shown if w.category is NkiWarning]
            for message in findings:
                assert any(text.startswith(message) for text in texts), (way, texts)
            if not findings:
                assert all("parser" in text for text in texts)
    return findings


# -- numbers that scalars cannot hold ---------------------------------------------------------------------------------


def scalar(x, value):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=value)
    return stored(t)


def language(x, value):
    return stored(nl.multiply(nl.load(x), value))


def filled(x, value):
    t = nl.ndarray(x.shape, x.dtype)
    nisa.memset(dst=t, value=value)
    return stored(t)


def scaled(x, value):
    t = nl.load(x)
    nisa.activation(dst=t, data=t, op=nl.copy, scale=value)
    return stored(t)


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("kernel", [scalar, language, filled, scaled])
@pytest.mark.parametrize(
    "value", [1e300, -1e39, 2.0**128, float(2**128 - 2**103), np.float64(1e200)]
)
def test_a_number_that_float32_cannot_hold_is_a_finding(kernel, value):
    with np.errstate(over="ignore"):
        assert np.isinf(np.float64(value).astype(np.float32))
    (message,) = told(kernel, X, value)
    assert f"={float(value)!r} is infinite as float32" in message


@pytest.mark.parametrize("kernel", [scalar, language, filled, scaled])
@pytest.mark.parametrize("value", [LARGEST, -LARGEST, float("inf"), float("-inf"), 0.0, 1e-300])
def test_a_number_that_float32_holds_or_that_is_infinite_is_none(kernel, value):
    assert told(kernel, X, value) == []


@pytest.mark.parametrize("steps", [33, 40, 100])
def test_an_integer_that_was_computed_and_has_more_than_32_bits_is_a_finding(steps):
    def kernel(x, count):
        value = 1
        for _ in range(count):
            value = value * 2
        return scalar(x, value)

    (message,) = told(kernel, X, steps)
    assert f"operand0={2**steps} is an integer of more than 32 bits" in message


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), 2**32 - 1])
def test_an_integer_of_32_bits_is_none(value):
    def kernel(x):
        return scalar(x, value)

    assert told(kernel, X) == []


NARROW = [
    (nl.float16, ml_dtypes.finfo(np.float16)),
    (nl.bfloat16, ml_dtypes.finfo(ml_dtypes.bfloat16)),
    (nl.float8_e4m3, ml_dtypes.finfo(ml_dtypes.float8_e4m3)),
    (nl.float8_e5m2, ml_dtypes.finfo(ml_dtypes.float8_e5m2)),
]


@pytest.mark.parametrize(("dtype", "info"), NARROW)
def test_a_constant_that_its_tile_cannot_hold_is_a_finding(dtype, info):
    def kernel(x, value):
        t = nl.full(x.shape, value, dtype)
        out = nl.ndarray(x.shape, nl.float32)
        nisa.tensor_copy(dst=out, src=t)
        return stored(out)

    largest = float(info.max)
    assert told(kernel, X, largest) == []
    assert told(kernel, X, -largest) == []
    (message,) = told(kernel, X, min(largest * 1.1, 3.4e38))
    assert "here it becomes infinite or NaN" in message


# -- 8-bit floats -----------------------------------------------------------------------------------------------------

EIGHT = [
    (nl.float8_e4m3, ml_dtypes.float8_e4m3, "infinity", "240"),
    (nl.float8_e5m2, ml_dtypes.float8_e5m2, "infinity", "57344"),
]


@pytest.mark.parametrize(("dtype", "numpy_dtype", "what", "largest"), EIGHT)
def test_values_that_overflow_an_8_bit_float_are_counted(dtype, numpy_dtype, what, largest):
    def kernel(x):
        t = nl.load(x)
        narrow = nl.ndarray(x.shape, dtype)
        nisa.tensor_copy(dst=narrow, src=t)
        nisa.tensor_copy(dst=t, src=narrow)
        return stored(t)

    x = (X * float(largest)).astype(np.float32)
    x[0, 0], x[1, 1], x[2, 2] = np.inf, -np.inf, np.nan  # are no overflow
    with np.errstate(all="ignore"):
        lost = np.isfinite(x) & ~np.isfinite(x.astype(numpy_dtype).astype(np.float32))
    count = int(lost.sum())
    assert 0 < count < x.size
    (message,) = told(kernel, x)
    assert message == (
        f"tensor_copy: {count} of {x.size} values overflow to {what} in {dtype}, whose largest is {largest}"
    )
    assert told(kernel, np.clip(x, -float(largest), float(largest))) == []


def test_e4m3fn_overflows_to_nan():
    def kernel(x):
        t = nl.load(x)
        narrow = nl.ndarray(x.shape, nl.float8_e4m3fn)
        nisa.tensor_copy(dst=narrow, src=t)
        nisa.tensor_copy(dst=t, src=narrow)
        return stored(t)

    x = np.full((32, 6), 448, np.float32)
    x[3, 1:4] = 600, -1e9, np.nan
    result = run(kernel, x, target="trn3")
    (finding,) = [f for f in result.findings if f.kind == "hazard"]
    assert (
        "2 of 192 values overflow to NaN in float8_e4m3fn, whose largest is 448" in finding.message
    )


def test_overflow_of_a_computed_result_and_of_a_dma_cast():
    def kernel(x):
        t = nl.load(x)
        narrow = nl.ndarray(x.shape, nl.float8_e4m3)
        nisa.tensor_scalar(dst=narrow, data=t, op0=nl.multiply, operand0=200.0)
        nisa.dma_copy(dst=narrow, src=x)
        nisa.tensor_copy(dst=t, src=narrow)
        return stored(t)

    x = X.copy()
    x[5, 2] = 1000
    with np.errstate(all="ignore"):
        product = (x * np.float32(200)).astype(ml_dtypes.float8_e4m3).astype(np.float32)
    counts = [int(np.isinf(product).sum()), 1]
    assert [int(m.split()[1]) for m in told(kernel, x)] == counts


def test_overflow_in_a_device_loop_is_counted_over_its_passes():
    def kernel(x):
        t = nl.load(x)
        narrow = nl.ndarray(x.shape, nl.float8_e4m3)

        def body(i):
            nisa.tensor_copy(dst=narrow, src=t)

        nl.fori_loop(0, 3, body)
        nisa.tensor_copy(dst=t, src=narrow)
        return stored(t)

    x = X.copy()
    x[0, :2] = 300
    (message,) = told(kernel, x)
    assert "6 of 576 values overflow" in message


# -- functions and probabilities --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [nl.sin, nl.cos, nl.tan])
def test_functions_of_the_language_bring_angles_into_the_range(function):
    def kernel(x):
        return stored(function(nl.load(x)))

    angles = np.linspace(-50, 50, 192).astype(np.float32).reshape(32, 6)
    angles[0] = [np.pi, -np.pi, np.pi / 2, 0, 3 * np.pi, -3 * np.pi]
    assert [m for m in told(kernel, angles) if "nl.sin" in m] == []


def test_an_angle_of_pi_is_in_the_range():
    def kernel(x):
        t = nl.load(x)
        nisa.activation(dst=t, data=t, op=nl.sin)
        return stored(t)

    x = np.full((32, 6), np.pi, np.float32)
    assert told(kernel, x) == []
    x[0, 0] = np.nextafter(x[0, 0], np.float32(4))
    (message,) = told(kernel, x)
    assert "1 of 192 inputs of nl.sin" in message


@pytest.mark.parametrize("prob", [1.5, -0.1, 2, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("way", [run, lambda k, *a: jit(k)(*a), lambda k, *a: simulate(k)(*a)])
def test_what_is_no_probability_is_an_error(prob, way):
    def kernel(x):
        t = nl.load(x)
        nisa.dropout(dst=t, data=t, prob=prob)
        return stored(t)

    def composite(x):
        return stored(nl.dropout(nl.load(x), prob))

    for function in (kernel, composite):
        with pytest.raises(RuleBroken, match="`prob` must be a probability, from 0 to 1"):
            way(function, X)


def test_probabilities_in_a_tile_are_counted():
    def kernel(x, p):
        t = nl.load(x)
        nisa.dropout(dst=t, data=t, prob=nl.load(p))
        return stored(t)

    p = np.linspace(0, 1, 32).astype(np.float32).reshape(32, 1)
    assert told(kernel, X, p) == []
    p[[3, 4, 9], 0] = 1.01, np.nan, -0.5
    (message,) = told(kernel, X, p)
    assert message == "dropout: 3 of 32 probabilities in `prob` are not from 0 to 1"


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way", [run, step, lambda k, *a: jit(k)(*a), lambda k, *a: simulate(k)(*a)]
)
def test_an_array_that_would_lose_its_mask_is_an_error(way):
    def kernel(x):
        return stored(nl.load(x))

    masked = np.ma.masked_array(X, mask=X > 1)
    with pytest.raises(KernelArgument, match=rf"with {np.count_nonzero(X > 1)} masked of 192") as e:
        way(kernel, masked)
    assert "array.filled(0)" in e.value.help
    way(kernel, masked.filled(0))
    way(kernel, np.ma.masked_array(X))  # with nothing masked


# -- two cores --------------------------------------------------------------------------------------------------------


def barriers(x, same):
    first = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    second = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    both = (first, second)
    core = nl.program_id(0)
    half = nl.ds(core * 16, 16)
    t = nl.load(x[half])
    for out in both:
        nisa.dma_copy(dst=out[half], src=t)
    for at in range(2):
        nisa.core_barrier(data=both[at if same or core == 0 else 1 - at], cores=(0, 1))
    return both


def test_cores_that_name_other_tensors_at_a_barrier_are_told():
    assert told(barriers, X, True, cores=2) == []
    messages = [m for m in told(barriers, X, False, cores=2) if m.startswith("core_barrier")]
    assert messages == [
        "core_barrier: 1 of 1 barriers wait for two tensors, `first` on core 0 and `second` on core 1",
        "core_barrier: 1 of 1 barriers wait for two tensors, `second` on core 0 and `first` on core 1",
    ]


# -- loops without an end ---------------------------------------------------------------------------------------------


def endless(x):
    t = nl.load(x)
    more = nisa.register_alloc(5)

    def body(more):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        return more

    nl.while_loop(more, body)  # the endless one
    return stored(t)


def older_endless(x):
    t = nl.load(x)
    more = nisa.register_alloc(5)
    while more:  # the endless one
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    return stored(t)


def nested(x):
    t = nl.load(x)

    def inner(i):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    def outer(i):
        nl.fori_loop(0, 60, inner)

    nl.fori_loop(0, 40, outer)
    return stored(t)


WAYS = {
    "run": lambda k: run(k, X),
    "call": lambda k: jit(k)(X),
    "simulate": lambda k: simulate(k)(X),
    "compiled": lambda k: jit(k).compile(X)(X),
    "debug": lambda k: jit(k, debug=True)(X),
    "launch": lambda k: launch(k, 2, [(X,), (X,)]),
    "benchmark": lambda k: nki_lab.benchmark(k, X),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("kernel", [endless, older_endless])
def test_a_loop_without_an_end_is_an_error_that_names_it(kernel, way, monkeypatch):
    monkeypatch.setenv("NKI_LAB_MAX_TRIPS", "2000")
    with pytest.raises(
        TooManyTrips, match=r"while loop over register `more\w*` has made 2,000 trips"
    ) as e:
        WAYS[way](kernel)
    assert "more" in e.value.span.text


def without_a_body(x):
    nl.while_loop(nisa.register_alloc(5), lambda more: more)
    return stored(nl.load(x))


def traced_without_an_end(x):
    t = nl.load(x)
    while True:
        nisa.memset(dst=t, value=1.0)


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("kernel", [endless, older_endless, without_a_body, traced_without_an_end])
def test_a_direct_call_without_an_end_can_be_interrupted(kernel, monkeypatch):
    monkeypatch.setenv("NKI_LAB_MAX_TRIPS", str(10**15))
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            jit(kernel)(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def test_trips_of_all_loops_count(monkeypatch):
    made = 40 + 40 * 60
    assert np.array_equal(run(nested, X, max_trips=made).value, run(nested, X).value)
    with pytest.raises(TooManyTrips):
        run(nested, X, max_trips=made - 1)
    compiled = jit(nested).compile(X)
    compiled(X)
    compiled(X)  # each run counts anew


def test_a_later_loop_with_too_many_trips_for_what_remains_ends_before_it_begins():
    def kernel(x):
        t = nl.load(x)
        for trips in (60, 50):
            nl.fori_loop(
                0, trips, lambda i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            )
        return stored(t)

    assert np.array_equal(run(kernel, np.zeros_like(X), max_trips=110).value, np.full_like(X, 110))
    with pytest.raises(TooManyTrips, match="is to make 50 trips"):
        run(kernel, X, max_trips=109)


def test_a_loop_with_too_many_trips_ends_before_it_begins():
    def kernel(x):
        t = nl.load(x)
        nl.fori_loop(
            0, 10**9, lambda i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        )
        return stored(t)

    with pytest.raises(TooManyTrips, match="is to make 1,000,000,000 trips"):
        jit(kernel)(X)


def test_timing_without_values_has_the_limit_too():
    def kernel(x, trips):
        t = nl.load(x)
        nl.fori_loop(
            0, trips, lambda i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        )
        return stored(t)

    with pytest.raises(TooManyTrips, match="is to make 1,000,000,000 trips"):
        nki_lab.vary(kernel, X, 10**9)


@pytest.mark.parametrize("value", [0, -5, "many"])
def test_what_is_no_number_of_trips_is_an_error(value):
    with pytest.raises(UnknownOption, match="max_trips="):
        run(endless, X, max_trips=value)


def test_stepping_back_and_forth_makes_no_trips(monkeypatch):
    monkeypatch.setenv("NKI_LAB_MAX_TRIPS", str(40 + 40 * 60))
    steps = run(nested, X).steps
    last = len(steps.order) - 1
    for at in (last, 0, last, 3, last):
        steps.at(at)

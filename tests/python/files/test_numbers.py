"""Every metric against numpy in float64, for every dtype and every odd value."""

from __future__ import annotations

import math
import os
import signal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import ulpscope
from judges import DTYPES, FLOATS_8

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]

COUNTS = {"nan", "pos_inf", "neg_inf", "zeros", "subnormals", "shape", "dtype"}
# Sums of integers beyond 2^53 and sums in another order than numpy's differ in the last bits.
SUM_RTOL = 1e-12


def raw_tensor(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Random bits: all the NaN, infinities and subnormals that a dtype has."""
    generator = torch.Generator().manual_seed(seed)
    width = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 256, (count * width,), dtype=torch.uint8, generator=generator)
    if dtype == torch.bool:
        return raw > 127
    return raw.view(dtype)


def tame_tensor(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Numbers like a layer's, with zeros among them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, generator=generator, dtype=torch.float64) * 3
    values[::7] = 0
    if dtype in UNSIGNED or dtype == torch.float8_e8m0fnu:
        values = values.abs()
    if dtype.is_complex:
        imaginary = torch.randn(count, generator=generator, dtype=torch.float64)
        return torch.complex(values, imaginary).to(dtype)
    return values.to(dtype)


def same(found: Any, expected: Any, rtol: float = 0.0) -> bool:
    if expected is None or found is None:
        return found is expected
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    return bool(np.isclose(float(found), float(expected), rtol=rtol, atol=0.0, equal_nan=True))


def check_stats(x: torch.Tensor) -> None:
    found, expected = ulpscope.stats(x), reference.stats(x)
    for name, value in expected.items():
        got = getattr(found, name)
        if name in COUNTS:
            assert got == value, f"{name}: {got} is not {value}"
        else:
            rtol = SUM_RTOL if name in ("mean", "norm") or x.is_complex() else 0.0
            # A mean near zero is what is left of large terms: hold it against their size.
            if name == "mean" and value is not None and math.isfinite(value):
                size = reference.modulus(reference.widen(x))
                assert abs(got - value) <= SUM_RTOL * np.abs(size).mean(), f"mean: {got} is not {value}"
            else:
                assert same(got, value, rtol), f"{name}: {got} is not {value}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 4095, 4096, 4097, 10_000])
def test_stats_of_every_dtype(dtype: torch.dtype, count: int) -> None:
    check_stats(raw_tensor(dtype, count, seed=count))
    check_stats(tame_tensor(dtype, count, seed=count))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_diff_of_every_dtype_with_itself_and_with_float32(dtype: torch.dtype) -> None:
    golden = tame_tensor(dtype, 5000, seed=1)
    targets = [golden, tame_tensor(dtype, 5000, seed=2)]
    if dtype not in (torch.float64, torch.complex128):
        # Random bits in 64-bit floats reach 1e308, whose squares overflow: see the test of their own.
        targets.append(raw_tensor(dtype, 5000, seed=3))
    for target in targets:
        if dtype not in (torch.int64, torch.uint64) or target is not targets[-1]:
            check_diff(target, golden)
            check_diff(target, tame_tensor(torch.float32, 5000, seed=4))


def test_squares_that_overflow_float64_are_infinite_and_the_rest_is_not() -> None:
    golden, target = torch.tensor([1e200, 1.0]).double(), torch.tensor([1e200, 3.0]).double()
    golden[0] = target[0] = 1e200
    assert ulpscope.stats(golden).norm == math.inf
    found = ulpscope.diff(target, golden)
    assert (found.max_abs, found.euclid, found.max_rel, found.over_tolerance) == (2.0, 2.0, 2.0, 1)
    assert (found.rel_l2, found.finite) == (0.0, 2)


def raw_bytes(x: torch.Tensor) -> bytes:
    return bytes(x.flatten().contiguous().view(torch.uint8).tolist())


def check_diff(target: torch.Tensor, golden: torch.Tensor, atol: float = 1e-3, rtol: float = 1e-3) -> None:
    found = ulpscope.diff(target, golden, atol=atol, rtol=rtol)
    expected = reference.diff(target, golden, atol, rtol)
    for name, value in expected.items():
        got = getattr(found, name)
        if isinstance(value, int) or value is None:
            assert got == value, f"{name}: {got} is not {value}"
        elif name == "cosine":
            assert abs(got - value) < 1e-14, f"cosine: {got} is not {value}"
        else:
            exact = name in ("max_abs", "max_rel", "under_1e3", "under_5e3")
            # A modulus has its own rounding.
            exact = exact and not (target.is_complex() or golden.is_complex())
            assert same(got, value, 0.0 if exact else SUM_RTOL), f"{name}: {got} is not {value}"
    assert found.agrees == (expected["over_tolerance"] == 0)
    assert found.equal == (target.dtype == golden.dtype and raw_bytes(target) == raw_bytes(golden))


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(0, 9000),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 1e-3, 4.99e-3, 0.1, 3.0]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
    zeros=st.booleans(),
    odd=st.booleans(),
)
def test_diff_against_float64(
    count: int, seed: int, scale: float, dtype: torch.dtype, zeros: bool, odd: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    golden = torch.randn(count, generator=generator, dtype=torch.float64)
    if zeros:
        golden = golden.clamp(min=0)
    target = golden * (1 + scale * torch.randn(count, generator=generator, dtype=torch.float64))
    if zeros and count > 5:
        target[count // 3] += 0.25
    if odd and count > 20:
        golden[3], target[3] = math.nan, math.nan
        golden[7], target[7] = math.inf, math.inf
        golden[11], target[11] = -math.inf, math.inf if seed % 2 else -math.inf
        target[count - 1] = math.nan if seed % 3 else 1.0
    check_diff(target.to(dtype), golden.to(dtype))


def test_shares_are_exact_next_to_their_limits() -> None:
    # Relative errors on and around 1/1000 and 5/1000: float32 estimates alone would get some of these wrong.
    golden = torch.linspace(1, 2, 40_000, dtype=torch.float32)
    for limit in (0.001, 0.005):
        for nudge in (-3e-7, -1e-7, 0.0, 1e-7, 3e-7):
            check_diff((golden.double() * (1 + limit + nudge)).float(), golden)


def test_large_integers_keep_their_difference() -> None:
    golden = torch.tensor([2**62, -(2**62), 5], dtype=torch.int64)
    target = torch.tensor([2**62 + 1, -(2**62), 5], dtype=torch.int64)
    found = ulpscope.diff(target, golden)
    assert (found.max_abs, found.worst_index, found.max_ulp) == (1.0, 0, 1)
    assert ulpscope.stats(target).max == 2**62 + 1
    assert ulpscope.stats(torch.tensor([2**64 - 1], dtype=torch.uint64)).max == 2**64 - 1


def test_the_smallest_integer_is_not_subnormal() -> None:
    found = ulpscope.stats(torch.tensor([-(2**63)]))
    assert (found.min, found.subnormals, found.zeros) == (-(2**63), 0, 0)


def test_an_integer_against_a_float_is_not_rounded_first() -> None:
    golden = torch.tensor([2.0**53, 0.5], dtype=torch.float64)
    target = torch.tensor([2**53 + 1, 1], dtype=torch.int64)
    assert ulpscope.diff(target, golden).exponents == [(-1, 1), (0, 1)]
    assert ulpscope.diff(golden, target).max_abs == 1.0


def test_cosine_of_vectors_whose_squares_leave_float64() -> None:
    for scale in (1e-200, 1e200):
        target, golden = torch.tensor([[scale, 0], [0, scale]], dtype=torch.float64)
        assert ulpscope.diff(target, golden).cosine is None
        assert ulpscope.diff(target, target).cosine == 1.0
        assert ulpscope.diff(target, golden).max_abs == scale


def test_relative_errors_of_a_golden_that_is_zero() -> None:
    check_diff(torch.ones(3, 4), torch.zeros(3, 4))
    found = ulpscope.diff(torch.ones(4), torch.zeros(4))
    assert (found.max_rel, found.mean_rel, found.zero_golden) == (math.inf, math.inf, 4)
    mixed = ulpscope.diff(torch.tensor([1.0, 3.0, 0.0]), torch.tensor([0.0, 2.0, 0.0]))
    assert (mixed.max_rel, mixed.mean_rel, mixed.zero_golden) == (0.5, 0.25, 1)


def test_complex_infinities_in_other_directions() -> None:
    golden = torch.tensor([complex(math.inf, 0), complex(math.inf, 0), complex(1, 1)])
    target = torch.tensor([complex(math.inf, 0), complex(0, math.inf), complex(1, 1)])
    found = ulpscope.diff(target, golden)
    assert (found.non_finite_mismatched, found.worst_index, found.finite) == (1, 1, 1)
    assert [element.index for element in found.worst] == [1]


def test_the_modulus_neither_overflows_nor_underflows() -> None:
    for scale in (1e-300, 1.0, 1e300):
        found = ulpscope.stats(torch.tensor([complex(3 * scale, -4 * scale)], dtype=torch.complex128))
        assert found.max == pytest.approx(5 * scale, rel=1e-15)


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan])
def test_a_tolerance_is_finite_and_not_negative(bad: float) -> None:
    for name in ("atol", "rtol"):
        with pytest.raises(ValueError, match=f"{name} is .*; expected a finite number that is not negative"):
            ulpscope.diff(torch.ones(2), torch.ones(2), **{name: bad})


def test_more_elements_may_be_asked_for_than_there_are() -> None:
    found = ulpscope.diff(torch.arange(5.0), torch.zeros(5), elements=10**15)
    assert [element.index for element in found.worst] == [4, 3, 2, 1]


def test_a_forked_child_measures_too() -> None:
    # The child has no threads but its own: waiting for the parent's pool would be for ever.
    x = torch.ones(3_000_000)
    expected = ulpscope.stats(x).norm
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if ulpscope.stats(x).norm == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float8_e4m3fn, torch.float8_e5m2, torch.int32], ids=str)
def test_ulp_distances(dtype: torch.dtype) -> None:
    golden, target = tame_tensor(dtype, 3000, seed=8), tame_tensor(dtype, 3000, seed=9)
    keys = reference.ulp_keys if dtype.is_floating_point else torch.Tensor.tolist
    distances = [abs(a - b) for a, b in zip(keys(target), keys(golden), strict=True)]
    found = ulpscope.diff(target, golden)
    assert found.max_ulp == max(distances)
    assert found.mean_ulp == pytest.approx(sum(distances) / 3000, rel=1e-12)
    assert ulpscope.diff(target.double(), golden.float()).max_ulp is None


@pytest.mark.parametrize(("atol", "rtol"), [(1e-3, 1e-3), (0.0, 1e-3), (1e-3, 0.0), (0.0, 0.0)])
def test_the_needed_tolerance_passes_and_a_little_less_does_not(atol: float, rtol: float) -> None:
    generator = torch.Generator().manual_seed(5)
    golden = torch.randn(20_000, generator=generator)
    target = golden + 0.1 * torch.randn(20_000, generator=generator)
    found = ulpscope.diff(target, golden, atol=atol, rtol=rtol)
    assert ulpscope.diff(target, golden, atol=found.needed_atol, rtol=rtol).agrees
    assert not ulpscope.diff(target, golden, atol=found.needed_atol * (1 - 1e-12), rtol=rtol).agrees
    assert ulpscope.diff(target, golden, atol=atol, rtol=found.needed_rtol).agrees
    assert not ulpscope.diff(target, golden, atol=atol, rtol=found.needed_rtol * (1 - 1e-12)).agrees


def test_no_tolerance_passes_a_non_finite_mismatch() -> None:
    found = ulpscope.diff(torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0]))
    assert (found.needed_atol, found.needed_rtol, found.worst_index) == (math.inf, math.inf, 1)
    assert not found.agrees


def test_the_sign_of_an_infinity_counts() -> None:
    found = ulpscope.diff(torch.tensor([math.inf, 1.0]), torch.tensor([-math.inf, 1.0]))
    assert (found.non_finite_mismatched, found.agrees) == (1, False)


def test_error_exponents() -> None:
    golden = torch.zeros(6, dtype=torch.float64)
    target = torch.tensor([0.0, 1.0, 1.5, -2.0, 2.0**-40, 0.0], dtype=torch.float64)
    assert ulpscope.diff(target, golden).exponents == [(-40, 1), (0, 2), (1, 1)]


def test_kl_divergence_as_msaccucmp_defines_it() -> None:
    generator = np.random.default_rng(3)
    target, golden = generator.normal(size=5000), generator.normal(size=5000)

    def shares(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        scaled = np.maximum((values - values.min()) / (values.max() - values.min()), np.finfo(np.float32).eps)
        return scaled / scaled.sum()

    p, q = shares(target), shares(golden)
    assert ulpscope.diff(target, golden).kl == pytest.approx(float(np.sum(p * np.log(p / q))), rel=1e-12)
    assert ulpscope.diff(target, target).kl == 0
    assert ulpscope.diff(np.array([1.0, np.nan]), np.array([1.0, 2.0])).kl is None


def test_the_worst_elements_and_the_first_failing_ones() -> None:
    golden = torch.zeros(4, 5000)
    target = golden.clone()
    target[1, 7], target[3, 4999], target[0, 2], target[2, 2] = 3.0, -9.0, math.nan, 3.0
    found = ulpscope.diff(target, golden, elements=3)
    assert [element.coordinates for element in found.worst] == [(0, 2), (3, 4999), (1, 7)]
    assert [element.coordinates for element in found.first_failing] == [(0, 2), (1, 7), (2, 2)]
    assert found.worst[1].target == -9.0
    assert found.worst_index == 2


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"target has \[3\], golden has \[1, 3\]"):
        ulpscope.diff(torch.zeros(3), torch.zeros(1, 3))


def test_scalars_and_empty_tensors() -> None:
    check_stats(torch.tensor(2.5))
    check_stats(torch.zeros(3, 0, 2))
    check_diff(torch.tensor(2.5), torch.tensor(2.0))
    check_diff(torch.zeros(3, 0), torch.zeros(3, 0))
    assert ulpscope.stats(torch.zeros(0)).max is None


def test_strided_tensors_are_measured_in_place() -> None:
    base = torch.randn(40, 50, 60)
    for view in [base.permute(2, 0, 1), base[::3, 5:, ::2], base[0].expand(40, 50, 60)]:
        check_stats(view)
        check_diff(view, view * 1.0001)


def test_numpy_views_with_negative_strides_and_other_byte_orders() -> None:
    array = np.arange(1000.0).reshape(10, 100)
    flipped = array[::-1, ::-2]
    assert ulpscope.stats(flipped).norm == pytest.approx(np.linalg.norm(flipped), rel=1e-13)
    assert ulpscope.diff(flipped, flipped.copy()).equal
    big = array.astype(">f4")
    assert ulpscope.stats(big).max == 999.0


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="masked"):
        ulpscope.stats(np.ma.masked_array([1.0, 2.0], mask=[False, True]))


def test_flushing_denormals_does_not_change_what_is_measured() -> None:
    tiny = torch.full((100,), 2.0**-140)
    torch.set_flush_denormal(True)
    try:
        found = ulpscope.stats(tiny)
        still_flushing = (torch.tensor(2.0**-140) * 1.0).item() == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert (found.subnormals, found.zeros, found.max) == (100, 0, 2.0**-140)
    assert still_flushing


@pytest.mark.parametrize("dtype", FLOATS_8, ids=str)
def test_all_codes_of_an_8_bit_float(dtype: torch.dtype) -> None:
    for code in range(256):
        x = torch.tensor([code], dtype=torch.uint8).view(dtype)
        assert same(ulpscope.stats(x).max, x.double().item())


def mix64(data: bytes) -> str:
    """The digest by its definition: words of 8 bytes, mixed with their positions (splitmix64), and added."""

    def mixed(word: int, position: int) -> int:
        z = (word + 0x9E3779B97F4A7C15 * (position + 1)) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    words = [int.from_bytes(data[start : start + 8], "little") for start in range(0, len(data), 8)]
    total = sum(mixed(word, position) for position, word in enumerate(words)) % 2**64
    return f"{mixed(total, len(data)):016x}"


def test_digests() -> None:
    import hashlib
    import zlib

    x = torch.randn(33, 7)
    packed = x.numpy().tobytes()
    assert ulpscope.digest(x, "crc32") == f"{zlib.crc32(packed):08x}"
    assert ulpscope.digest(x, "md5") == hashlib.md5(packed).hexdigest()
    assert ulpscope.digest(x.T, "crc32") == f"{zlib.crc32(x.T.contiguous().numpy().tobytes()):08x}"
    assert ulpscope.digest(x.T, "xxh3") == ulpscope.digest(x.T.contiguous(), "xxh3")
    for data in (b"", b"\0", b"\0\0", packed, packed[:-3], packed[4:8] + packed[:4] + packed[8:]):
        bytes_ = (
            torch.frombuffer(bytearray(data), dtype=torch.uint8)
            if data
            else torch.empty(0, dtype=torch.uint8)
        )
        assert ulpscope.digest(bytes_, "mix64") == mix64(data)
    assert ulpscope.digest(x.T, "mix64") == mix64(x.T.contiguous().numpy().tobytes())
    with pytest.raises(ValueError, match="expected crc32, md5, xxh3 or mix64"):
        ulpscope.digest(x, "sha")

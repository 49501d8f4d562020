"""Values of random programs: arrays of every dtype, their JSON, and the comparison with what NumPy computes."""
import base64, json

import ml_dtypes
import numpy as np

from random_requests import ALL, COMPLEX, FLOATS, INDEX, INTS, TEXTS, from_raw, name_of, nested, np_dtype, raw

NUMBERS = [*INTS, *FLOATS, *COMPLEX]
REALS = [*INTS, *FLOATS]
HALVES = ("float16", "bfloat16")
INT32, UINT64 = np.iinfo("int32"), np.iinfo("uint64")


# ---------------------------------------------------------------- random arrays
def random_reals(rng, n):
    """float64: small integers, numbers of very different sizes, or numbers with special values among them"""
    kind = rng.random()
    if kind < 0.4:
        return rng.integers(-4, 5, n).astype("float64")
    values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    if kind > 0.85:
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, 1e-40, 6e-8, 65504, 3e38, -3e38, 1e300, 0.5, -2.5])
        values = np.where(rng.random(n) < 0.3, rng.choice(special, n), values)
    return values


def random_array(rng, dtype, shape):
    """rng: a generator of NumPy"""
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == "string":
        out = np.empty(n, object)
        out[:] = [(TEXTS + [b"$x", b"$"])[i] for i in rng.integers(0, len(TEXTS) + 2, n)]
    elif dtype == "bool":
        out = rng.random(n) < 0.5
    elif dtype in INTS:
        small = rng.integers(0 if dtype[0] == "u" else -4, 6, n)
        out = small.astype(dtype) if rng.random() < 0.7 else np.frombuffer(rng.bytes(n * np_dtype(dtype).itemsize), dtype)
    elif dtype in COMPLEX:
        out = (rng.integers(-4, 5, n) / 2 + 0.5j * rng.integers(-4, 5, n)).astype(dtype)
    else:
        with np.errstate(all="ignore"):
            out = random_reals(rng, n).astype(np_dtype(dtype))
    return out.reshape(shape)


# ---------------------------------------------------------------- JSON
def typed(a):
    """the tensor with its bytes in base64"""
    return {"dtype": name_of(a), "shape": list(a.shape), "base64": base64.b64encode(raw(a)).decode()}


def lists(a):
    """nested lists, with words in place of NaN and the infinities"""
    if a.dtype == object:
        return nested("string", a)
    data = (a.astype("float32") if name_of(a) in HALVES else a).tolist()
    return data if name_of(a) not in FLOATS or np.isfinite(a).all() else with_words(data)


def with_words(data):
    if isinstance(data, list):
        return [with_words(part) for part in data]
    return data if np.isfinite(data) else "NaN" if np.isnan(data) else "Infinity" if data > 0 else "-Infinity"


def constant(rng, a):
    """a tensor of the request, in any form"""
    form = rng.random()
    if form < 0.6 or name_of(a) in COMPLEX:
        return typed(a)
    return {"dtype": name_of(a), "shape": list(a.shape), "data": lists(a if form < 0.8 else a.reshape(-1))}


def inferred_dtype(a):
    """the dtype of the plain JSON of an array, if no other tensor says it; None if it has no such JSON"""
    if 0 in a.shape or name_of(a) in COMPLEX:
        return None
    if name_of(a) in FLOATS:
        return "float32" if np.isfinite(a.astype("float64")).all() else None
    if name_of(a) not in INTS:
        return name_of(a) if name_of(a) == "bool" or not any(text[:1] == b"$" for text in a.reshape(-1)) else None
    low, high = int(a.min()), int(a.max())
    return "int32" if INT32.min <= low and high <= INT32.max else "int64" if high < 2 ** 63 else "uint64" if low >= 0 else None


def from_json(document):
    return from_raw(document["dtype"], document["shape"], base64.b64decode(document["base64"]))


# ---------------------------------------------------------------- comparison
def precision(dtype):
    """(distance from 1 to the next number, smallest positive number, largest number) of a float or of the parts of a complex dtype"""
    info = ml_dtypes.finfo(np_dtype(dtype))
    return float(info.eps), float(info.smallest_subnormal), np.longdouble(info.max)


def wide(a):
    """the numbers in a more precise dtype"""
    kind = name_of(a)
    if kind == "complex128":
        return a.astype(np.clongdouble)
    if kind == "complex64":
        return a.astype("complex128")
    return a.astype(np.longdouble if kind in ("float64", "int64", "uint64") else "float64")


def rounding(dtype, want):
    """the error of rounding a result to a dtype once"""
    eps, least, _ = precision(dtype)
    return 0.501 * eps * abs(want) + 0.501 * least


def units(dtype, want, n):
    """n units in the last place of a result, which for float16 and bfloat16 was computed as float32, and rounded"""
    if dtype in HALVES:
        return rounding(dtype, want) + n * precision("float32")[0] * abs(want)
    eps, least, _ = precision(dtype)
    return n * (eps * abs(want) + least)


def computed(dtype):
    """the dtype in which results of this dtype are computed"""
    return "float32" if dtype in HALVES else dtype


class Want:
    """An expected result: exact, or within `tolerance`. An infinite tolerance accepts anything. Without an array, only the dtype
    and the shape are known. any_zero: 0 is as good as -0."""

    def __init__(self, array=None, tolerance=None, dtype=None, shape=None, any_zero=False):
        self.array, self.tolerance, self.any_zero = array, tolerance, any_zero
        self.dtype = dtype or name_of(array)
        self.shape = tuple(array.shape if shape is None else shape)

    def differences(self, got):
        """the positions of elements that differ, or text"""
        if name_of(got) != self.dtype or got.shape != self.shape:
            return f"{name_of(got)}{list(got.shape)} instead of {self.dtype}{list(self.shape)}"
        if self.array is None:
            return []
        if self.tolerance is None:
            return np.argwhere(~is_equal(got, self.array, self.any_zero))
        with np.errstate(all="ignore"):
            return np.argwhere(~is_near(wide(got), self.array, self.tolerance, precision(self.dtype)[2]))


def is_equal(a, b, any_zero):
    if a.dtype == object:
        return np.array(a == b, bool).reshape(a.shape)
    same = a == b
    if name_of(a) in FLOATS and not any_zero:
        same &= np.signbit(a) == np.signbit(b)
    return same | ((a != a) & (b != b))


def is_near(got, want, tolerance, largest):
    both_nan = np.isnan(got) & np.isnan(want)
    overflows = np.isinf(got) & (abs(want) + tolerance > largest) & (np.sign(got.real) == np.sign(want.real))
    return (got == want) | both_nan | (abs(got - want) <= tolerance) | overflows | np.isposinf(tolerance)


def same_bits(a, b):
    return name_of(a) == name_of(b) and a.shape == b.shape and raw(a) == raw(b)


def compact(document):
    return json.dumps(document, separators=(",", ":")).encode()

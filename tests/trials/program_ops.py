"""The ops of random programs: each function adds a random step of its ops to a program, with the results that NumPy computes."""
import math, warnings

from program_build import *
from random_requests import gather_reference, pick, zero_of

KEYS = ["int32", "int64", "uint32", "uint64", "string"]
erf, erfc = (np.vectorize(f, otypes=["float64"]) for f in (math.erf, math.erfc))


def in_float32(a):
    """float16 and bfloat16 as float32"""
    return a.astype("float32") if name_of(a) in HALVES else a


def exact(function, *arrays, any_zero=False):
    """the result of a function that rounds once"""
    out = np.asarray(function(*(in_float32(a) for a in arrays)))
    return Want(out if out.dtype == bool else out.astype(arrays[-1].dtype), any_zero=any_zero)


def rounded(values, dtype):
    """more precise values, rounded to float16 or bfloat16 once, ties to even"""
    eps, least, _ = precision(dtype)
    values = values.astype(np.longdouble)
    _, exponent = np.frexp(values)
    unit = np.maximum(np.ldexp(np.longdouble(eps), exponent - 1), np.longdouble(least))
    return (np.rint(values / unit) * unit).astype("float64").astype("float32").astype(np_dtype(dtype))


# ---------------------------------------------------------------- elementwise
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * erfc(-x / math.sqrt(2))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def truth(a):
    return np.asarray(a).astype(bool)


def clip(x, least, most):
    return np.minimum(np.maximum(x, least), most)


# op: (dtypes, function)
EXACT_UNARY = {
    "negative": (NUMBERS, np.negative), "abs": (REALS, np.abs), "sign": (REALS, np.sign), "square": (REALS, np.square),
    "sqrt": (FLOATS, np.sqrt), "reciprocal": (FLOATS, lambda x: 1 / x), "relu": (FLOATS, lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "floor": (FLOATS, np.floor), "ceil": (FLOATS, np.ceil), "round": (FLOATS, np.rint), "is_nan": (FLOATS, np.isnan),
    "is_finite": (FLOATS, np.isfinite), "logical_not": (["bool"], np.logical_not)}
EXACT_BINARY = {
    "add": (NUMBERS, np.add), "subtract": (NUMBERS, np.subtract), "multiply": (REALS, np.multiply), "divide": (FLOATS, np.divide),
    "floor_divide": (REALS, np.floor_divide), "floor_mod": (REALS, np.remainder), "power": (INTS, np.power),
    "maximum": (REALS, np.maximum), "minimum": (REALS, np.minimum),
    "equal": (ALL, lambda x, y: truth(x == y)), "not_equal": (ALL, lambda x, y: truth(x != y)),
    "less": (REALS, np.less), "less_equal": (REALS, np.less_equal), "greater": (REALS, np.greater),
    "greater_equal": (REALS, np.greater_equal), "logical_and": (["bool"], np.logical_and), "logical_or": (["bool"], np.logical_or),
    "logical_xor": (["bool"], np.logical_xor)}
# op: (function, units in the last place, units of the last place of x)
NEAR_UNARY = {"exp": (np.exp, 1, 0), "log": (np.log, 1, 0), "rsqrt": (lambda x: 1 / np.sqrt(x), 2, 0), "tanh": (np.tanh, 2, 0),
              "sigmoid": (sigmoid, 3, 0), "erf": (erf, 2, 0), "gelu": (gelu, 3, 2)}


def partner(program, x, shapes=None):
    """a tensor of the dtype of x that broadcasts with it"""
    def fits(a):
        try:
            return name_of(a) == x.dtype and np.prod(np.broadcast_shapes(a.shape, x.shape), dtype="int64") <= LIMIT
        except ValueError:
            return False
    shape = list(x.shape)[program.random.randint(0, len(x.shape)):] if program.chance(0.5) else list(x.shape)
    shape = [1 if program.chance(0.2) else d for d in shape]
    if len(shape) == len(x.shape) < 4 and program.chance(0.1):
        shape = [program.choice((1, 2))] + shape
    return program.array(program.some_array(x.dtype, shape), fits, x.dtype)


def unary(program, op=None):
    op = op or program.choice([*EXACT_UNARY, *NEAR_UNARY])
    if op in EXACT_UNARY:
        dtypes, function = EXACT_UNARY[op]
        x = program.value(dtypes)
        return program.step(op, {"x": x}, {}, [exact(function, x.array, any_zero=op == "relu")])
    function, ulps, of_x = NEAR_UNARY[op]
    x, attrs = program.value(FLOATS), {}
    if op == "gelu" and program.chance(0.5):
        function, attrs = gelu_tanh, {"approximate": True}
    numbers = wide(x.array)
    want = np.asarray(function(numbers)).astype(numbers.dtype)
    if op in ("erf", "gelu") and x.dtype == "float64":
        ulps += 2  # of the function that is compared with
    tolerance = units(x.dtype, want, ulps) + of_x * precision(computed(x.dtype))[0] * abs(numbers)
    return program.step(op, {"x": x}, attrs, [Want(want, tolerance, x.dtype)])


def binary(program, op=None):
    op = op or program.choice(list(EXACT_BINARY))
    dtypes, function = EXACT_BINARY[op]
    x = program.value(dtypes)
    y = partner(program, x)
    if program.chance(0.5) and isinstance(y.text, (dict, type(None))):
        x, y = y, x
    is_refused = x.dtype in INTS and ((op in ("floor_divide", "floor_mod") and (y.array == 0).any()) or (op == "power" and (y.array < 0).any()))
    if is_refused and program.chance(0.9):
        return None
    if is_refused and np.broadcast_shapes(x.shape, y.shape) and 0 in np.broadcast_shapes(x.shape, y.shape):
        return None
    return program.step(op, {"x": x, "y": y}, {}, None if is_refused else [exact(function, x.array, y.array, any_zero=op in ("maximum", "minimum"))])


def float_power(program):
    x = program.value(FLOATS)
    y = partner(program, x)
    a, b = np.broadcast_arrays(wide(x.array), wide(y.array))
    # with another exponent at the end, because NumPy takes the square root for a single exponent of 0.5, also of -infinity
    want = np.power(np.append(a, 1), np.append(b, 1))[:-1].reshape(a.shape)
    return program.step("power", {"x": x, "y": y}, {}, [Want(want, units(x.dtype, want, 2), x.dtype)])


def complex_numbers(program):
    """ops of complex numbers that round more than once"""
    x, op = program.value(COMPLEX), program.choice(("multiply", "divide", "power", "square", "abs", "sign"))
    inputs = {"x": x} if op in ("square", "abs", "sign") else {"x": x, "y": partner(program, x)}
    a = [wide(operand.array) for operand in inputs.values()]
    function = {"multiply": np.multiply, "divide": np.divide, "power": np.power, "square": np.square, "abs": np.abs,
                "sign": lambda x: np.where(x == 0, 0, x / abs(x))}[op]
    want = np.asarray(function(*a))
    eps = precision(x.dtype)[0]
    accuracy = {"power": 1e4 if x.dtype == "complex128" else 64}.get(op, 8) * eps
    is_plain = np.all([np.isfinite(v) & ((v == 0) | (abs(v) > 1e-12)) & (abs(v) < 1e12) for v in np.broadcast_arrays(*a, want)], axis=0)
    part = {"complex64": "float32", "complex128": "float64"}[x.dtype]
    is_plain &= (op != "divide") | (a[-1] != 0)
    return program.step(op, inputs, {}, [Want(want, np.where(is_plain, accuracy * abs(want), np.inf), part if op == "abs" else x.dtype)])


def choose(program):
    """where and clip"""
    if program.chance(0.4):
        x = program.value(REALS)
        least, most = partner(program, x), partner(program, x)
        shape = broadcast(x, least, most)
        return shape and program.step("clip", {"x": x, "min": least, "max": most}, {}, [exact(clip, x.array, least.array, most.array, any_zero=True)])
    x = program.value(ALL)
    y = partner(program, x)
    shape = np.broadcast_shapes(x.shape, y.shape)
    condition = program.array(program.some_array("bool", shape), lambda a: a.dtype == bool and can_broadcast(a.shape, shape))
    return program.step("where", {"condition": condition, "x": x, "y": y}, {}, [Want(np.where(condition.array, x.array, y.array))])


def can_broadcast(*shapes):
    try:
        return np.prod(np.broadcast_shapes(*shapes), dtype="int64") <= LIMIT
    except ValueError:
        return False


def broadcast(*operands):
    return can_broadcast(*(operand.shape for operand in operands))


def elementwise(program):
    return program.choice((unary, unary, binary, binary, binary, float_power, complex_numbers, choose))(program)


# ---------------------------------------------------------------- reductions
def some_axes(program, rank):
    """axes, and how the step writes them"""
    axes = sorted(program.random.sample(range(rank), program.random.randint(0, rank)))
    if program.chance(0.2):
        return tuple(range(rank)), {}
    return tuple(axes), {"axes": [axis - rank if program.chance(0.3) else axis for axis in axes]}


def total_want(x, sums, sizes, n, dtype):
    """the sum or mean of n numbers of these sizes; unknown if the sum can overflow on the way"""
    eps, _, largest = precision(computed(dtype))
    tolerance = rounding(dtype, sums) + 12 * eps * sizes / n
    return Want(sums, np.where(sizes > largest / 4, np.inf, tolerance), dtype)


def divided(sums, n):
    """the sums, divided by n; NumPy divides an infinite complex number into NaNs"""
    if not np.iscomplexobj(sums):
        return np.divide(sums, n)
    out = np.empty_like(sums)
    out.real, out.imag = np.divide(sums.real, n), np.divide(sums.imag, n)
    return out


def reduce_total(program, op):
    x = program.value(NUMBERS if op == "reduce_sum" else FLOATS + COMPLEX)
    axes, attrs = some_axes(program, len(x.shape))
    keep = {"keepdims": True} if program.chance(0.3) else {}
    if x.dtype in INTS:
        want = Want(np.sum(x.array, axes, dtype=x.dtype, keepdims=bool(keep)))
    else:
        numbers = wide(x.array)
        n = math.prod(x.shape[axis] for axis in axes) if op == "reduce_mean" else 1
        sums = np.asarray(np.sum(numbers, axes, keepdims=bool(keep)))
        sizes = np.asarray(np.sum(np.where(np.isfinite(numbers), abs(numbers), 0), axes, keepdims=bool(keep)))
        want = total_want(x, divided(sums, n), sizes, max(n, 1), x.dtype)
    return program.step(op, {"x": x}, {**attrs, **keep}, [want])


def reduce_product(program):
    x = program.value(NUMBERS)
    axes, attrs = some_axes(program, len(x.shape))
    if x.dtype in INTS:
        return program.step("reduce_prod", {"x": x}, attrs, [Want(np.prod(x.array, axes, dtype=x.dtype))])
    numbers, n = wide(x.array), math.prod(x.shape[axis] for axis in axes)
    want = np.asarray(np.prod(numbers, axes))
    logs = np.log2(np.where(np.isfinite(numbers) & (numbers != 0), abs(numbers), 1))
    is_safe = (np.sum(np.maximum(logs, 0), axes) < 60) & (np.sum(np.minimum(logs, 0), axes) > -60) if x.dtype not in COMPLEX else \
        (np.sum(abs(logs), axes) < 60) & np.all(np.isfinite(numbers), axes)
    tolerance = np.where(is_safe, 4 * n * precision(computed(x.dtype))[0] * abs(want) + rounding(x.dtype, want), np.inf)
    return program.step("reduce_prod", {"x": x}, attrs, [Want(want, tolerance, x.dtype)])


def reduce_extreme(program, op, function):
    x = program.value(REALS)
    axes, attrs = some_axes(program, len(x.shape))
    if 0 in [x.shape[axis] for axis in axes]:
        return program.step(op, {"x": x}, attrs, None) if program.chance(0.05) else None
    keep = {"keepdims": True} if program.chance(0.3) else {}

    def extreme(a):
        """0 is larger than -0"""
        out = function(a, axes, keepdims=bool(keep))
        if a.dtype.kind != "f":
            return out
        signs = np.where(a == 0, np.copysign(1, a), -2 if function is np.max else 2)
        return np.where(out == 0, np.copysign(0, function(signs, axes, keepdims=bool(keep))), out)
    return program.step(op, {"x": x}, {**attrs, **keep}, [exact(extreme, x.array)])


def arg(program):
    x, (op, function) = program.value(REALS, 1), program.choice((("argmax", np.argmax), ("argmin", np.argmin)))
    axis, written = program.axis(len(x.shape))
    if x.shape[axis] == 0:
        return None
    return program.step(op, {"x": x}, {"axis": written}, [Want(np.asarray(function(in_float32(x.array), axis)).astype("int64"))])


def cumsum(program):
    x = program.value(NUMBERS, 1)
    axis, written = program.axis(len(x.shape))
    attrs = {"axis": written, "exclusive": program.chance(0.5), "reverse": program.chance(0.5)}

    def sums(a, dtype):
        a = np.flip(a, axis) if attrs["reverse"] else a
        out = np.cumsum(a, axis, dtype=dtype)
        if attrs["exclusive"]:
            out = np.concatenate([np.zeros_like(np.take(out, [0] if out.shape[axis] else [], axis)), np.take(out, range(out.shape[axis] - 1), axis)], axis)
        return np.flip(out, axis) if attrs["reverse"] else out
    if x.dtype in INTS:
        return program.step("cumsum", {"x": x}, attrs, [Want(sums(x.array, x.dtype))])
    numbers = wide(x.array)
    sizes = sums(np.where(np.isfinite(numbers), abs(numbers), 0), None)
    return program.step("cumsum", {"x": x}, attrs, [total_want(x, sums(numbers, None), sizes, 1, x.dtype)])


def reductions(program):
    which = program.random.randrange(8)
    if which < 2:
        return reduce_total(program, ("reduce_sum", "reduce_mean")[which])
    if which == 2:
        return reduce_product(program)
    if which == 3:
        return reduce_extreme(program, *program.choice((("reduce_max", np.max), ("reduce_min", np.min))))
    if which == 4:
        x, (op, function) = program.value(["bool"]), program.choice((("reduce_any", np.any), ("reduce_all", np.all)))
        axes, attrs = some_axes(program, len(x.shape))
        return program.step(op, {"x": x}, attrs, [Want(np.asarray(function(x.array, axes)))])
    return arg(program) if which == 5 else cumsum(program)


# ---------------------------------------------------------------- normalisation
def softmax(program):
    op, x = program.choice(("softmax", "log_softmax")), program.value(FLOATS, 1)
    axis, written = program.axis(len(x.shape))
    if x.shape[axis] == 0:
        return program.step(op, {"x": x}, {"axis": written}, [Want(x.array)])
    numbers, eps = wide(x.array), precision(computed(x.dtype))[0]
    below = numbers - np.max(numbers, axis, keepdims=True)
    is_bad = ~np.isfinite(np.max(numbers, axis, keepdims=True))
    sums = np.sum(np.exp(below), axis, keepdims=True)
    if op == "softmax":
        want = np.exp(below) / sums
        tolerance = eps * (16 + np.where(np.isfinite(below), abs(below), 0)) * want + (1e-37 if computed(x.dtype) == "float32" else 1e-300)
    else:
        want = below - np.log(sums)
        tolerance = 16 * eps * (np.where(np.isfinite(below), abs(below), 0) + abs(np.log(sums)) + 1)
    want = np.where(is_bad, np.nan, want)
    return program.step(op, {"x": x}, {"axis": written}, [Want(want, np.nan_to_num(tolerance) + rounding(x.dtype, want), x.dtype)])


def layer_norm(program):
    x = program.value(FLOATS, 1)
    axis, written = program.axis(len(x.shape))
    rest = list(x.shape[axis:])
    inputs, attrs = {"x": x}, {"axis": written}
    for name in ("scale", "bias")[:program.random.randint(1, 2)]:
        shape = [1 if program.chance(0.2) else d for d in rest][program.random.randint(0, len(rest)) if program.chance(0.3) else 0:]
        inputs[name] = program.array(program.some_array(x.dtype, shape), lambda a: name_of(a) == x.dtype and a.shape == tuple(rest), x.dtype)
    if program.chance(0.5):
        attrs["epsilon"] = program.choice((0.001, 0, 1))
    groups, numbers, eps = tuple(range(axis, len(x.shape))), wide(x.array), precision(computed(x.dtype))[0]
    scale = wide(inputs["scale"].array)
    bias = wide(inputs["bias"].array) if "bias" in inputs else 0
    from_mean = numbers - np.mean(numbers, groups, keepdims=True)
    deviation = np.sqrt(np.mean(from_mean ** 2, groups, keepdims=True) + attrs.get("epsilon", 1e-5))
    want = from_mean / deviation * scale + bias
    size = np.max(abs(numbers), groups, keepdims=True, initial=0)
    is_safe = (size < (1e15 if computed(x.dtype) == "float32" else 1e140)) & (deviation > 1e-12 * size) & (deviation > 1e-15) | np.isnan(size)
    most = np.max(abs(from_mean / deviation), groups, keepdims=True, initial=0)
    is_safe = is_safe & ~(most * abs(scale) + abs(bias) > precision(computed(x.dtype))[2] / 4)
    tolerance = np.nan_to_num(eps * ((16 * (most + 1) + 4 * size / deviation) * abs(scale) + 8 * abs(bias))) + rounding(x.dtype, want)
    return program.step("layer_norm", inputs, attrs, [Want(want, np.where(is_safe, tolerance, np.inf), x.dtype)])


def l2_normalize(program):
    x = program.value(FLOATS, 1)
    axis, written = program.axis(len(x.shape))
    attrs = {"axis": written, **({"epsilon": program.choice((0.001, 1))} if program.chance(0.3) else {})}
    numbers = wide(x.array)
    squares = np.sum(numbers * numbers, axis, keepdims=True)
    want = numbers / np.sqrt(np.maximum(squares, attrs.get("epsilon", 1e-12)))
    is_safe = (squares < 1e300) | np.isnan(squares) if x.dtype == "float64" else True
    return program.step("l2_normalize", {"x": x}, attrs, [Want(want, np.where(is_safe, units(x.dtype, want, 8), np.inf), x.dtype)])


def normalisation(program):
    return program.choice((softmax, layer_norm, l2_normalize))(program)


# ---------------------------------------------------------------- shapes
def reshape(program):
    x = program.value(ALL)
    n, shape = x.array.size, []
    while n > 1 and len(shape) < 4 and program.chance(0.8):
        factor = program.choice([d for d in range(1, n + 1) if n % d == 0])
        shape, n = shape + [factor], n // factor
    shape = shape + [n] if n != 1 or program.chance(0.3) else shape
    wanted = list(shape)
    if shape and 0 not in shape and program.chance(0.3):
        shape[program.random.randrange(len(shape))] = -1
    return program.step("reshape", {"x": x}, {"shape": shape}, [Want(x.array.reshape(wanted))])


def expand_dims(program):
    x = program.value(ALL)
    axis, written = program.axis(len(x.shape) + 1)
    return program.step("expand_dims", {"x": x}, {"axis": written}, [Want(np.expand_dims(x.array, axis))])


def squeeze(program):
    x = program.value(ALL, 1)
    ones = [axis for axis, d in enumerate(x.shape) if d == 1]
    axes = program.random.sample(ones, program.random.randint(0, len(ones)))
    if program.chance(0.4):
        return program.step("squeeze", {"x": x}, {}, [Want(np.squeeze(x.array))])
    return program.step("squeeze", {"x": x}, {"axes": axes}, [Want(np.squeeze(x.array, tuple(axes)))])


def transpose(program):
    x = program.value(ALL)
    perm = program.random.sample(range(len(x.shape)), len(x.shape))
    if program.chance(0.3):
        return program.step("transpose", {"x": x}, {}, [Want(np.transpose(x.array))])
    return program.step("transpose", {"x": x}, {"perm": [p - len(perm) if program.chance(0.2) else p for p in perm]}, [Want(np.transpose(x.array, perm))])


def slice_(program):
    x = program.value(ALL, 1)
    rank = len(x.shape)
    axes = program.random.sample(range(rank), program.random.randint(1, rank)) if program.chance(0.5) else list(range(program.random.randint(0, rank)))
    parts, attrs = [slice(None)] * rank, {"starts": [], "stops": [], "steps": []}
    for axis in axes:
        n = x.shape[axis]
        start, stop, step = program.random.randint(-n - 2, n + 2), program.random.randint(-n - 2, n + 2), program.choice((1, 1, 2, -1, -2, 5))
        if step > 0 and program.chance(0.6):
            start, stop = min(0, start), max(n, stop)
        parts[axis] = slice(start, stop, step)
        for name, value in zip(attrs, (start, stop, step)):
            attrs[name].append(value)
    if axes != list(range(len(axes))) or program.chance(0.2):
        attrs["axes"] = [axis - rank if program.chance(0.3) else axis for axis in axes]
    if all(step == 1 for step in attrs["steps"]):
        del attrs["steps"]
    return program.step("slice", {"x": x}, attrs, [Want(np.ascontiguousarray(x.array[tuple(parts)]))])


def joined(program):
    """concat and stack"""
    first = program.value(ALL, 0, 3)
    rank, is_stack = len(first.shape), program.chance(0.4)
    if rank == 0 and not is_stack:
        return None
    axis, written = program.axis(rank + is_stack)
    parts = [first]
    for _ in range(program.random.randint(0, 3)):
        shape = list(first.shape)
        if not is_stack:
            shape[axis] = program.random.randint(0, 3)
        others = [d for i, d in enumerate(shape) if is_stack or i != axis]
        parts.append(program.array(program.some_array(first.dtype, shape), lambda a: name_of(a) == first.dtype and a.ndim == rank and
                                   [d for i, d in enumerate(a.shape) if is_stack or i != axis] == others and a.size <= LIMIT // 4, first.dtype))
    program.random.shuffle(parts)
    if sum(part.array.size for part in parts) > LIMIT or all(isinstance(part.text, list) or part.text is not None and not isinstance(part.text, dict) for part in parts):
        return None
    arrays = [part.array for part in parts]
    return program.step("stack" if is_stack else "concat", {"inputs": parts}, {"axis": written} if written or program.chance(0.5) else {},
                        [Want((np.stack if is_stack else np.concatenate)(arrays, axis))])


def one_hot(program):
    depth = program.random.randint(0, 5)
    indices, dtype = program.value(INDEX, 0, 3, lambda a: a.size <= LIMIT // 8), program.choice([*NUMBERS, "bool"])
    want = (indices.array[..., None] == np.arange(depth)).astype(np_dtype(dtype))
    attrs = {"depth": depth, **({"dtype": dtype} if dtype != "float32" or program.chance(0.5) else {})}
    return program.step("one_hot", {"indices": indices}, attrs, [Want(want)])


def shapes(program):
    return program.choice((reshape, reshape, expand_dims, squeeze, transpose, slice_, slice_, joined, joined, one_hot))(program)


# ---------------------------------------------------------------- segments
def combined(kind, into, row):
    if kind in ("sum", "mean"):
        return into + row
    return into * row if kind == "prod" else np.maximum(into, row) if kind == "max" else np.minimum(into, row)


def empty_segment(kind, is_sorted, dtype):
    if kind in ("sum", "mean") or kind != "prod" and is_sorted:
        return 0
    if kind == "prod":
        return 1
    info = np.iinfo(dtype) if dtype in INTS else ml_dtypes.finfo(np_dtype(dtype))
    return info.min if kind == "max" else info.max


def segment_want(kind, is_sorted, data, ids, n):
    """the rows, combined in their order"""
    rest = data.shape[ids.ndim:]
    rows, dtype = in_float32(data.reshape((ids.size, *rest))), name_of(data)
    out = np.full((n, *rest), empty_segment(kind, is_sorted, dtype), rows.dtype)
    counts = np.zeros(n, "int64")
    for s, row in zip(ids.reshape(-1), rows):
        if s >= 0:
            is_first = kind in ("max", "min") and counts[s] == 0
            out[s] = row if is_first else combined(kind, out[s], row)
            counts[s] += 1
    if kind == "mean":
        divisors = np.maximum(counts, 1).reshape((n,) + (1,) * len(rest))
        out = out / divisors.astype(np.abs(out).dtype)
    out = out.astype(data.dtype)
    if dtype in COMPLEX and kind in ("prod", "mean"):
        part = np.where(np.isfinite(out) & (abs(out) < 1e12), 64 * precision(dtype)[0] * abs(out), np.inf)
        return Want(wide(out), part, dtype)
    return Want(out, any_zero=kind in ("max", "min"))


def segments(program):
    kind, is_sorted = program.choice(("sum", "mean", "max", "min", "prod")), program.chance(0.5)
    dtypes = {"mean": FLOATS + COMPLEX, "max": REALS, "min": REALS}.get(kind, NUMBERS)
    data = program.value(dtypes, int(is_sorted), 4)
    rank = 1 if is_sorted else program.random.randint(0, min(2, len(data.shape)))
    shape, n = data.shape[:rank], program.random.randint(1, 5)
    if math.prod(data.shape[rank:]) * n > LIMIT or math.prod(shape) > 400:
        return None
    ids = program.numbers.integers(0 if is_sorted else -2, n, shape).astype(program.choice(INDEX))
    ids = np.sort(ids) if is_sorted else ids

    def fits(a):
        return name_of(a) in INDEX and a.shape == shape and (not a.size or a.max() < n) and (not is_sorted or (np.diff(a) >= 0).all() and (not a.size or a[0] >= 0))
    ids = program.array(ids, fits)
    attrs = {} if is_sorted and program.chance(0.5) else {"num_segments": n}
    if not attrs:
        n = int(ids.array[-1]) + 1 if ids.array.size else 0
    return program.step(("segment_" if is_sorted else "unsorted_segment_") + kind, {"data": data, "segment_ids": ids}, attrs,
                        [segment_want(kind, is_sorted, data.array, ids.array, n)])


# ---------------------------------------------------------------- rows
def gather(program):
    params = program.value(ALL, 1)
    batch_dims = program.random.randint(0, min(1, len(params.shape) - 1))
    axis = program.random.randint(batch_dims, len(params.shape) - 1)
    policy, bound = program.choice(("error", "error", "zero", "clip", "wrap")), params.shape[axis]
    shape = list(params.shape[:batch_dims]) + program.shape(0, 2)
    if bound == 0 and policy != "zero" or params.array.size * math.prod(shape) > LIMIT * 20 or math.prod(shape) > LIMIT:
        return None
    is_refused = policy == "error" and program.chance(0.02)
    indices = program.indices(bound, shape, policy == "error" and not is_refused)
    want = gather_reference(params.array, indices.array, axis, batch_dims, policy)
    attrs = {"axis": program.choice((axis, axis - len(params.shape))), "batch_dims": batch_dims, **({"bounds": policy} if policy != "error" else {})}
    if want is not None and want.size > LIMIT:
        return None
    return program.step("gather", {"params": params, "indices": indices}, attrs, None if want is None else [Want(want)])


def batch_gather(program):
    params = program.value(ALL, 1, 3)
    rank = program.random.randint(1, len(params.shape))
    bound, shape = params.shape[rank - 1], [*params.shape[:rank - 1], program.random.randint(0, 4)]
    if bound == 0 or math.prod(shape) * math.prod(params.shape[rank:]) > LIMIT:
        return None
    indices = program.indices(bound, shape)
    want = gather_reference(params.array, indices.array, rank - 1, rank - 1, "error")
    return program.step("batch_gather", {"params": params, "indices": indices}, {}, [Want(want)])


def gather_nd(program):
    params = program.value(ALL, 1)
    depth, shape = program.random.randint(0, len(params.shape)), program.shape(0, 2)
    if 0 in params.shape[:depth] or math.prod(shape) * math.prod(params.shape[depth:]) > LIMIT:
        return None
    columns = [program.numbers.integers(0, d, shape) for d in params.shape[:depth]]
    indices = np.stack(columns, -1) if columns else np.zeros(shape + [0])
    indices = program.fresh(indices.astype(program.choice(INDEX)))
    out = np.empty((*shape, *params.shape[depth:]), params.array.dtype)
    out[...] = params.array[tuple(columns)] if columns else params.array
    return program.step("gather_nd", {"params": params, "indices": indices}, {}, [Want(out)])


def dynamic_partition(program):
    data, count = program.value(ALL), program.random.randint(1, 4)
    rank = program.random.randint(0, min(2, len(data.shape)))
    partitions = program.indices(count, data.shape[:rank])
    want = [Want(np.ascontiguousarray(data.array[partitions.array == i])) for i in range(count)]
    return program.step("dynamic_partition", {"data": data, "partitions": partitions}, {"num_partitions": count}, want, as_list=True)


def dynamic_stitch(program):
    first = program.value(ALL, 1, 4, lambda a: a.size <= LIMIT // 8)
    rest, data = first.shape[1:], [first]
    for _ in range(program.random.randint(0, 2)):
        data.append(program.array(program.some_array(first.dtype, (program.random.randint(0, 3), *rest)),
                                  lambda a: name_of(a) == first.dtype and a.ndim and a.shape[1:] == rest and len(a) < 50, first.dtype))
    total = sum(len(part.array) for part in data)
    is_parallel = program.chance(0.3)
    rows = program.numbers.permutation(total + 2)[:total] if is_parallel else program.numbers.integers(0, total + 1, total)
    parts = np.split(rows, np.cumsum([len(part.array) for part in data])[:-1])
    if math.prod(rest) * (total + 2) > LIMIT:
        return None
    indices = [program.fresh(part.astype(program.choice(INDEX))) for part in parts]
    if len({i.dtype for i in indices}) > 1:
        return None
    out = np.empty((int(rows.max()) + 1 if total else 0, *rest), first.array.dtype)
    out[...] = zero_of(out)
    for part, operand in zip(parts, data):
        for i, row in zip(part, operand.array):
            out[i] = row
    return program.step("parallel_dynamic_stitch" if is_parallel else "dynamic_stitch", {"indices": indices, "data": data}, {}, [Want(out)])


def top_k(program):
    x, largest = program.value(REALS, 1), program.chance(0.5)
    axis, written = program.axis(len(x.shape))
    n = x.shape[axis]
    k, numbers = program.random.randint(0, min(n, 6)), in_float32(x.array)
    if largest:  # stable, from the largest
        order = n - 1 - np.flip(np.argsort(np.flip(numbers, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(numbers, axis, kind="stable")
    order = np.take(order, range(k), axis)
    return program.step("top_k", {"x": x}, {"k": k, "largest": largest, **({"axis": written} if written != -1 else {})},
                        [Want(np.take_along_axis(x.array, order, axis)), Want(order.astype("int32"))], names=["values", "indices"])


def keys_of(program, n, dtype):
    """n distinct keys"""
    if dtype == "string":
        keys = np.empty(n, object)
        keys[:] = [b"key %d" % i for i in range(n)]
    else:
        keys = np.arange(n).astype(dtype) * 3
    return keys if program.chance(0.3) else program.numbers.permutation(keys)


def queries_of(program, keys):
    """queries, and the row of each, or -1"""
    shape = program.shape(0, 2)
    chosen = program.numbers.integers(-1, len(keys), shape)
    other = b"no" if keys.dtype == object else 1
    queries = np.empty(shape, keys.dtype)
    queries[...] = np.where(chosen < 0, other, keys[chosen]) if len(keys) else other
    operand = program.array(queries, lambda a: a.dtype == keys.dtype, name_of(keys))
    rows = {key: row for row, key in enumerate(keys.tolist())}
    return operand, np.array([rows.get(query, -1) for query in operand.array.reshape(-1).tolist()], "int64").reshape(operand.shape)


def find(program):
    keys = keys_of(program, program.random.randint(0, 6), program.choice(KEYS))
    queries, rows = queries_of(program, keys)
    operand = Operand(keys, text=typed(keys)) if program.chance(0.7) else program.input(keys)
    return program.step("find", {"keys": operand, "queries": queries}, {}, [Want(rows)])


def lookup(program):
    params = program.value(ALL, 1, 3, lambda a: len(a) <= 40)
    keys = keys_of(program, len(params.array), program.choice(KEYS))
    queries, rows = queries_of(program, keys)
    if rows.size * math.prod(params.shape[1:]) > LIMIT:
        return None
    inputs = {"params": params, "keys": Operand(keys, text=typed(keys)), "queries": queries}
    missing, row = program.choice(("zero", "error", "default")), zero_of(params.array)
    if missing == "default":
        default = program.some_array(params.dtype, program.choice(([], list(params.shape[1:]))))
        inputs["default"] = program.fresh(default, params.dtype)
        row = default[()] if default.ndim == 0 else default
    is_refused = missing == "error" and (rows < 0).any()
    if is_refused and program.chance(0.9):
        return None
    want = None if is_refused else [Want(pick(params.array, rows, row)), Want(rows >= 0)]
    return program.step("lookup", inputs, {"missing": missing}, want, names=["output", "found"])


# ---------------------------------------------------------------- others
def cast_want(x, dtype):
    """the rules of kernels/cast/README.md"""
    source = name_of(x)
    if dtype == "bool":
        return x != 0
    if source in COMPLEX and dtype not in COMPLEX:
        return cast_want(x.real, dtype)
    if source in ("bool", *INTS) or dtype in COMPLEX:
        return rounded(x.astype(np.longdouble), dtype) if dtype in HALVES else x.astype(dtype)
    if dtype in INTS:
        info, whole = np.iinfo(dtype), np.trunc(np.nan_to_num(wide(x), nan=0))
        return np.array([min(max(int(v) if np.isfinite(v) else int(np.sign(v)) << 70, int(info.min)), int(info.max)) for v in wide(x_or_zero(whole, x)).reshape(-1)],
                        dtype).reshape(x.shape)
    return rounded(x, dtype) if dtype in HALVES and source == "float64" else x.astype(np_dtype(dtype))


def x_or_zero(whole, x):
    """the infinities, which nan_to_num replaces, come from x"""
    return np.where(np.isinf(wide(x)), wide(x), whole)


def cast(program):
    x, dtype = program.value([t for t in ALL if t != "string"]), program.choice([t for t in ALL if t != "string"])
    return program.step("cast", {"x": x}, {"dtype": dtype}, [Want(np.asarray(cast_want(x.array, dtype)))])


def sum_of_products(equation, arrays, labels, dtype):
    """numpy.einsum, which writes out of bounds if a tensor is empty"""
    if 0 in labels.values():
        return np.zeros([labels[label] for label in equation.split("->")[1]], dtype)
    return np.asarray(np.einsum(equation, *arrays, dtype=dtype), dtype)


def einsum(program):
    """up to three tensors; labels are chosen so that their sizes agree"""
    first = program.value(NUMBERS, 0, 3, lambda a: a.size <= LIMIT // 4)
    parts = [first]
    for _ in range(program.random.randint(0, 2)):
        def fits(a):
            return name_of(a) == first.dtype and a.ndim <= 3 and a.size <= LIMIT // 4
        parts.append(program.array(program.some_array(first.dtype, program.shape(0, 3)), fits))
    if any(part.dtype != first.dtype or part.text is not None and not isinstance(part.text, dict) for part in parts):
        return None
    labels, terms = {}, []  # label: size
    for part in parts:
        term = ""
        for size in part.shape:
            known = [label for label, other in labels.items() if other == size and (label not in term or program.chance(0.3))]
            label = program.choice(known) if known and program.chance(0.6) else "abcdefghijkl"[len(labels)]
            labels[label] = size
            term += label
        terms.append(term)
    output = "".join(program.random.sample(sorted(labels), program.random.randint(0, len(labels))))
    if math.prod(labels.values()) > 20 * LIMIT or math.prod(labels[label] for label in output) > LIMIT:
        return None
    equation = ",".join(terms) + "->" + output
    arrays = [part.array for part in parts]
    if first.dtype in INTS:
        want = Want(sum_of_products(equation, arrays, labels, first.dtype))
    else:
        numbers = [wide(a) for a in arrays]
        eps, least, largest = precision(computed(first.dtype))
        product, sizes = (sum_of_products(equation, a, labels, a[0].dtype) for a in (numbers, [abs(n) for n in numbers]))
        biggest = math.prod(float(np.max(np.where(np.isfinite(n), abs(n), 0), initial=1)) for n in numbers) * max(1, math.prod(labels.values()))
        is_safe = np.all([np.isfinite(n).all() for n in numbers]) and biggest < min(largest / 4, 1e300)
        n = math.prod(labels.values()) / max(1, math.prod(labels[label] for label in output))
        tolerance = rounding(first.dtype, product) + eps * (n + 8) * sizes + n * least * biggest
        if first.dtype == "bfloat16":
            tolerance = tolerance + 2.0 ** -100  # the processor's instructions treat denormals as 0
        want = Want(product, tolerance if is_safe else np.inf, first.dtype)
    return program.step("einsum", {"inputs": parts}, {"equation": equation}, [want])


def quantised(program, inputs, params, n):
    """adds scale, and an offset or a zero point; the numbers that params represent"""
    def per_row(a):
        return a.reshape([-1] + [1] * (len(params.shape) - 1)) if a.ndim else a

    def small(dtype):
        a = program.numbers.integers(0 if dtype[0] == "u" else -4, 5, program.choice(([], [n]))).astype(dtype)
        return a / np.float32(4) if dtype == "float32" else a
    inputs["scale"] = program.fresh(np.asarray(small("float32")))
    rows = params.array.astype("float32")
    which = program.random.randrange(3)
    if which == 1:
        inputs["offset"] = program.fresh(np.asarray(small("float32")))
        return rows * per_row(inputs["scale"].array) + per_row(inputs["offset"].array)
    if which == 2:
        zero = np.asarray(small(program.choice(("int8", "uint8", "int32", "int64"))))
        inputs["zero_point"] = Operand(zero, text=typed(zero))
        rows = rows - per_row(zero).astype("float32")
    return rows * per_row(inputs["scale"].array)


def dequantize(program):
    params, inputs = program.value(["int8", "uint8"], 1), {}
    numbers = quantised(program, inputs, params, len(params.array))
    dtype = program.choice(FLOATS)
    attrs = {"dtype": dtype} if dtype != "float32" or program.chance(0.5) else {}
    return program.step("dequantize", {"params": params, **inputs}, attrs, [Want(numbers.astype(np_dtype(dtype)))])


def embedding_bag(program):
    params = program.value(FLOATS + ["int8", "uint8"], 1, 3, lambda a: 0 < len(a) <= 100 and a.size <= LIMIT // 4)
    inputs, n = {"params": params}, len(params.array)
    numbers = quantised(program, inputs, params, n) if params.dtype in ("int8", "uint8") else params.array
    dtype = params.dtype if params.dtype in FLOATS else "float32"
    mode, bags = program.choice(("sum", "mean", "max")), program.random.randint(0, 4)
    lengths = [program.random.randint(0, 4) for _ in range(bags)]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
    inputs["indices"] = program.indices(n, [sum(lengths)])
    attrs = {"mode": mode} if mode != "sum" or program.chance(0.5) else {}
    kind = program.choice(INDEX)
    if program.chance(0.5):
        inputs["offsets"] = program.fresh(starts[:-1].astype(kind))
        counted = sum(lengths) if bags else 0
    else:
        inputs["segment_ids"] = program.fresh(np.repeat(np.arange(bags), lengths).astype(kind))
        attrs["num_segments"], counted = bags, sum(lengths)
    weights = np.ones(sum(lengths))
    if mode != "max" and program.chance(0.4):
        small = program.numbers.integers(1, 5, sum(lengths)) / 2
        inputs["weights"] = program.fresh(small.astype(np_dtype(dtype)))
        weights = small
    rows = wide(numbers)[inputs["indices"].array.astype("int64")]
    out = np.zeros((bags, *params.shape[1:]), rows.dtype)
    sizes = np.zeros_like(out)
    for bag in range(bags if counted else 0):
        chosen = slice(starts[bag], starts[bag + 1])
        if starts[bag] == starts[bag + 1]:
            continue
        part = rows[chosen] * weights[chosen].reshape([-1] + [1] * (rows.ndim - 1)).astype(rows.dtype)
        by = weights[chosen].sum() if mode == "mean" else 1
        out[bag] = part.max(0) if mode == "max" else part.sum(0) / by
        sizes[bag] = np.where(np.isfinite(part), abs(part), 0).sum(0) / by
    eps, least, largest = precision(computed(dtype))
    tolerance = np.where(sizes > largest / 32, np.inf, rounding(dtype, out) + 8 * eps * sizes + least * 8)
    return program.step("embedding_bag", inputs, attrs, [Want(out, tolerance, dtype)])


def search(program):
    """the scores of rows that are not huge; equal scores can come in any order of NumPy's sums, so indices are not compared"""
    def fits(a):
        numbers = a.astype("float64")
        return bool(a.size) and np.isfinite(numbers).all() and abs(numbers).max() < 1e4
    params = program.value(FLOATS, 2, 2, fits)
    width = params.shape[1]
    shape = [width] if program.chance(0.5) else [program.random.randint(1, 3), width]
    queries = program.array(program.numbers.integers(-3, 4, shape).astype("float32"), lambda a: name_of(a) in FLOATS and a.ndim in (1, 2) and a.shape[-1] == width and fits(a))
    k = program.random.randint(1, 5)
    dtype = "float64" if "float64" in (params.dtype, queries.dtype) else "float32"
    products = queries.array.astype("float64") @ params.array.astype("float64").T
    sizes = abs(queries.array.astype("float64")) @ abs(params.array.astype("float64").T)
    want = -np.sort(-products, -1)[..., :k]
    tolerance = np.max(sizes, -1, keepdims=True) * (width + 4) * precision(dtype)[0] + 1e-30 + 0 * want
    return program.step("search", {"params": params, "queries": queries}, {"k": k}, [Want(want, tolerance, dtype), Want(dtype="int64", shape=want.shape)],
                        names=["scores", "indices"])


FAMILIES = [elementwise] * 8 + [reductions] * 3 + [normalisation] * 2 + [shapes] * 5 + [segments] * 2 + \
    [gather, gather, batch_gather, gather_nd, dynamic_partition, dynamic_partition, dynamic_stitch, top_k, find, lookup, cast, cast, einsum, einsum, dequantize, embedding_bag, search]


def random_program(seed, server):
    """a program of 1 to 12 steps, plus the steps that compute their operands"""
    program = Program(seed, server)
    wanted, last = program.random.randint(1, 12), None
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        while (len(program.steps) < wanted or not program.results) and not program.problem:
            family = last if last is elementwise and program.chance(0.6) else program.choice(FAMILIES)
            last = family if family(program) else None
    program.end()
    return program

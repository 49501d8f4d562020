"""Encodes rows for writing: unchanged, in a float dtype, or quantised row by row. Measures the error.

Rowwise quantisation has the form that embedding_bag and dequantize accept: params * scale + offset,
where scale and offset are float32 [n]. uint8 is asymmetric: the minimum of a row becomes 0 and the
maximum becomes 255. int8 is symmetric: the maximum magnitude becomes 127, and offset is 0.
"""

import dataclasses
import decimal
import math

import numpy

from table import DTYPES, Array, Dtype, Refused, Table, locate

KEEP = "keep"
FLOATS = ("float16", "bfloat16", "float32", "float64")
ROWWISE = ("uint8", "int8")
FINITE = "--dtype float32 or bfloat16 keeps such numbers"
LOST = 0.1  # minimum relative error of a column for a note
FLOAT32_MAX = float(numpy.finfo("f4").max)


@dataclasses.dataclass
class ErrorMade:
    """The maximum difference from the input, and the root mean square of the differences relative to the
    root mean square of the input.
    """

    greatest: float = 0.0
    squares: float = 0.0
    input_squares: float = 0.0
    count: int = 0
    columns: "ColumnErrors | None" = None  # errors by column, for rows of several elements

    def add(self, given: Array, made: Array) -> None:
        """Adds a batch. Values that are not finite are kept exactly and are not compared."""
        finite = numpy.isfinite(given)
        kept = finite.all()
        values = (given if kept else numpy.where(finite, given, 0)).astype("<f8")
        difference = (made if kept else numpy.where(finite, made, 0)) - values
        self.count += given.size
        self.greatest = max(
            self.greatest, float(difference.max(initial=0)), -float(difference.min(initial=0))
        )
        if self.columns:
            self.columns.add(difference, values)
            self.squares = float(self.columns.squares.sum())
            self.input_squares = float(self.columns.input_squares.sum())
        else:
            self.squares += float(numpy.vdot(difference, difference))
            self.input_squares += float(numpy.vdot(values, values))

    def __str__(self) -> str:
        relative = (
            math.sqrt(self.squares / self.input_squares)
            if 0 < self.input_squares < math.inf
            else 0.0
        )
        return (
            f"maximum error {rounded_up(self.greatest)}; its root mean square is {100 * relative:.2g} % of"
            " the root mean square of the values" + (str(self.columns) if self.columns else "")
        )


class ColumnErrors:
    """The errors of each column, relative to the values of the column. A column of small values can lose
    everything although the error over all values is small.
    """

    def __init__(self, width: int, names: tuple[str, ...], integers: tuple[bool, ...]) -> None:
        self.names, self.integers = names, numpy.array(integers or [False] * width, "?")
        self.greatest = numpy.zeros(width)
        self.squares = numpy.zeros(width)
        self.input_squares = numpy.zeros(width)
        self.rounded_integers = 0

    def add(self, difference: Array, values: Array) -> None:
        width = len(self.greatest)
        if not width:
            return
        difference, values = difference.reshape(-1, width), values.reshape(-1, width)
        numpy.maximum(self.greatest, difference.max(axis=0, initial=0), out=self.greatest)
        numpy.maximum(self.greatest, -difference.min(axis=0, initial=0), out=self.greatest)
        self.squares += numpy.einsum("ij,ij->j", difference, difference)
        self.input_squares += numpy.einsum("ij,ij->j", values, values)
        self.rounded_integers += int(numpy.count_nonzero(difference[:, self.integers]))

    def relative(self) -> Array:
        """Returns, for each column, the root mean square of the error divided by the root mean square of
        the values, or 0 for a column of zeros.
        """
        known = (self.input_squares > 0) & numpy.isfinite(self.input_squares)
        ratios = numpy.divide(self.squares, self.input_squares, out=0 * self.squares, where=known)
        return numpy.sqrt(ratios)

    def name(self, at: int) -> str:
        return f"column {self.names[at]}" if self.names else f"element {at} of the rows"

    def worst(self) -> tuple[str, float]:
        """Returns the column with the largest relative error, and the error."""
        relative = self.relative()
        at = int(numpy.argmax(relative))
        return self.name(at), float(relative[at])

    def __str__(self) -> str:
        if not self.greatest.any():
            return ""
        largest = self.name(int(numpy.argmax(self.greatest)))
        worst, relative = self.worst()
        own = f"{100 * relative:.3g} % of its own root mean square"
        if len(self.greatest) == 1 or not (self.names or relative >= LOST):
            text = ""
        elif largest == worst:
            text = f"; the error is largest in {largest}, {own}"
        else:
            text = (
                f"; the error is largest in {largest}, and relative to its own values in {worst},"
                f" {own}"
            )
        if self.rounded_integers:
            plural = "s" if self.rounded_integers > 1 else ""
            text += f"; {self.rounded_integers} integer{plural} rounded"
        return text


def rounded_up(value: float) -> str:
    """Formats a value with three digits, rounded up."""
    digits = decimal.Context(prec=3, rounding=decimal.ROUND_UP)
    return f"{float(digits.create_decimal_from_float(value)):.3g}"


def wide_enough(value: float) -> str:
    return "float64" if abs(value) > FLOAT32_MAX else "float32 or float64"


def column_errors(table: Table, are_quantised: bool) -> ColumnErrors | None:
    width = math.prod(table.shape[1:])
    if not any(table.integers) and (len(table.shape) != 2 or width < 2):
        return None
    return ColumnErrors(width, table.columns, () if are_quantised else table.integers)


# ---------------------------------------------------------------- floats
def as_floats(rows: Array, dtype: Dtype) -> Array:
    """Returns the values of float rows. bfloat16, which NumPy lacks, becomes float32."""
    return (rows.astype("<u4") << 16).view("<f4") if dtype.name == "bfloat16" else rows


def to_bfloat16(values: Array) -> Array:
    """Converts to bfloat16, rounding to nearest, ties to even. NaN stays NaN."""
    bits = numpy.ascontiguousarray(values, "<f4").view("<u4")
    rounded = (bits + numpy.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return numpy.where(numpy.isnan(values), (bits >> 16) | 0x40, rounded).astype("<u2")


def to_floats(values: Array, dtype: Dtype) -> Array:
    with numpy.errstate(over="ignore", invalid="ignore"):
        return (
            to_bfloat16(values.astype("<f4"))
            if dtype.name == "bfloat16"
            else values.astype(dtype.storage)
        )


# ---------------------------------------------------------------- rowwise
def quantise(values: Array, dtype: str) -> tuple[Array, Array, Array]:
    """Quantises rows [n, d] of finite floats. Returns params, scale and offset. The params are computed with
    the rounded scale and offset that are written, so the rounding of scale and offset adds no error.
    """
    exact = values.astype("<f8")
    if dtype == "uint8":
        low, high = exact.min(axis=1, initial=math.inf), exact.max(axis=1, initial=-math.inf)
        low, high = numpy.where(numpy.isinf(low), 0, low), numpy.where(numpy.isinf(high), 0, high)
        first, last, steps = 0, 255, high - low
    else:
        low, steps, first, last = (
            numpy.zeros(len(exact)),
            numpy.abs(exact).max(axis=1, initial=0),
            -127,
            127,
        )
    with numpy.errstate(over="ignore"):
        scale, offset = (steps / last).astype("<f4"), low.astype("<f4")
    divisor = numpy.where(scale > 0, scale, 1).astype("<f8")
    with numpy.errstate(invalid="ignore"):
        exact -= offset[:, None]
        exact /= divisor[:, None]
    with numpy.errstate(invalid="ignore"):  # Rows that do not fit float32 give warnings here, and are refused later.
        params = numpy.rint(exact, out=exact).clip(first, last, out=exact).astype(dtype)
    return params, scale, offset


@dataclasses.dataclass
class Encoder:
    """Encodes the rows of a table into the tensors that parts() describes."""

    table: Table
    target: str
    error: ErrorMade = dataclasses.field(default_factory=ErrorMade)

    def __post_init__(self) -> None:
        if self.target != KEEP and not self.table.dtype.is_float:
            raise Refused(
                f"{self.table.place}: the dtype is {self.table.dtype.name}; --dtype converts only floats."
                f" To keep {self.table.dtype.name}, omit --dtype, or choose tensors with --tensor. To convert an array x"
                " to floats, use numpy.save('FILE.npy', x.astype('float32'))"
            )
        if self.target in ROWWISE and len(self.table.shape) != 2:
            raise Refused(
                f"{self.table.place}: the shape is {list(self.table.shape)}; only tables with two"
                " dimensions can be quantised. Reshape it with numpy.save('FILE.npy', x.reshape(len(x), -1)), or"
                " choose other tensors with --tensor"
            )
        self.error.columns = column_errors(self.table, self.target in ROWWISE)

    def note(self) -> str | None:
        """Returns a note if the error of a column is large, or None."""
        if not self.changes or not self.error.columns:
            return None
        worst, relative = self.error.columns.worst()
        if relative < LOST:
            return None
        why = (
            f"other values of a row are larger, and {self.target} has one scale per row"
            if self.target in ROWWISE
            else f"{self.target} cannot hold such small values"
        )
        narrow = self.target in (*ROWWISE, "float16")
        kept = "float32 or float64" if narrow else "float64"
        other = ", or choose columns of similar size with --rows" if self.table.columns else ""
        return (
            f"{self.table.place}: {worst} has an error of {100 * relative:.3g} % of its own root mean"
            f" square, because {why}; use --dtype {kept}{other}"
        )

    @property
    def dtype(self) -> Dtype:
        return self.table.dtype if self.target == KEEP else DTYPES[self.target]

    @property
    def changes(self) -> bool:
        return self.dtype != self.table.dtype

    def parts(self) -> dict[str, tuple[Dtype, tuple[int, ...]]]:
        """Returns the dtype and shape of each tensor to write, by the suffix of its name."""
        made = {"": (self.dtype, self.table.shape)}
        if self.target in ROWWISE:
            made |= {
                suffix: (DTYPES["float32"], self.table.shape[:1])
                for suffix in (".scale", ".offset")
            }
        return made

    def encode(self, rows: Array, first: int) -> dict[str, Array]:
        """Encodes a batch. `first` is the number of its first row."""
        if not self.changes:
            return {"": rows}
        values = as_floats(rows, self.table.dtype)
        if self.target in ROWWISE:
            self.check_rows(numpy.isfinite(values), values, first, "is not finite", FINITE)
            params, scale, offset = quantise(values, self.target)
            with numpy.errstate(over="ignore", invalid="ignore"):  # The checks below find overflows.
                made = params.astype("<f4") * scale[:, None] + offset[:, None]
            fits = numpy.isfinite(made) | (numpy.abs(values) <= FLOAT32_MAX)
            self.check_rows(fits, values, first, "is too large for float32")
            self.check_range(made, values, first)
            self.error.add(values, made)
            return {"": params, ".scale": scale, ".offset": offset}
        encoded = to_floats(values, self.dtype)
        made = as_floats(encoded, self.dtype)
        self.check_rows(
            numpy.isfinite(made) | ~numpy.isfinite(values),
            values,
            first,
            f"is too large for {self.target}",
        )
        self.error.add(values, made)
        return {"": encoded}

    def check_rows(self, right: Array, values: Array, first: int, why: str, way_out: str | None = None) -> None:
        if not right.all():
            at = numpy.unravel_index(int(numpy.argmin(right)), right.shape)
            place, row = locate(first + int(at[0]), self.table.place, self.table.files)
            inner = [int(i) for i in at[1:]]
            element = f"element {inner[0] if len(inner) == 1 else inner} of " if inner else ""
            value = float(values[at])
            raise Refused(
                f"{place}: {element}row {row} {why}: {value};"
                f" {way_out or f'--dtype {wide_enough(value)} can hold such numbers'}"
            )

    def check_range(self, made: Array, values: Array, first: int) -> None:
        """Refuses rows whose values fit float32, but whose dequantised values do not."""
        fits = numpy.isfinite(made).all(axis=1)
        if not fits.all():
            at = int(numpy.argmin(fits))
            low, high = float(values[at].min()), float(values[at].max())
            place, row = locate(first + at, self.table.place, self.table.files)
            what = (
                f"their difference, {high - low:.6g},"
                if self.target == "uint8"
                else "127 * scale, rounded,"
            )
            raise Refused(
                f"{place}: row {row} has values from {low:.6g} to {high:.6g}; {what} does not fit"
                f" float32, in which {self.target} is dequantised; --dtype float32 or bfloat16"
                " keeps such rows"
            )

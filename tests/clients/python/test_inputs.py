"""What may stand for a tensor, whether it is copied, and what is refused since something of it would be lost."""
import array
import collections
import datetime
import decimal
import re
import sys
import types

import numpy as np
import pytest
import tensord
from tensord import arrays, inputs

try:
    import torch
except ImportError:
    torch = None
NO_TORCH = "torch is not installed: its wheels with the libraries that they load are gigabytes; a stub stands for it in the other tests"


def address(data):
    return np.frombuffer(data, "u1").ctypes.data


class StubTensor:
    """what the package uses of torch.Tensor, over an array"""
    __module__ = "torch"

    def __init__(self, values, dtype=None):
        self.values, self.shape, self.dtype = values, values.shape, dtype
        self.requires_grad, self.layout, self.is_quantized = False, "strided", False

    def detach(self):
        return self

    cpu = resolve_conj = resolve_neg = detach

    def contiguous(self):
        return StubTensor(np.ascontiguousarray(self.values), self.dtype)

    def view(self, dtype):
        return StubTensor(self.values.view(dtype))

    def numpy(self):
        if self.dtype in ("torch.float8_e4m3fn", "torch.complex32"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")  # as torch does
        return self.values


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(bfloat16="torch.bfloat16", int16="i2", strided="strided"))
    return StubTensor


def test_a_resident_tensor_may_be_written_as_in_json():
    assert inputs.as_input({"ref": "words.scale"}, "scale") == arrays.Ref("words.scale")


def test_a_contiguous_array_is_sent_from_its_own_memory():
    values = np.arange(6, dtype="f4").reshape(2, 3)
    assert address(inputs.as_input(values, "x").data) == values.ctypes.data


def test_a_tensor_of_torch_is_sent_from_its_own_memory(stub):
    values = np.arange(6, dtype="f4").reshape(2, 3)
    made = inputs.as_input(stub(values), "x")
    assert (made.dtype, made.shape, address(made.data)) == ("float32", (2, 3), values.ctypes.data)
    assert bytes(inputs.as_input(stub(values.T), "x").data) == values.T.tobytes()


def test_bfloat16_of_torch_is_sent_from_its_own_memory(stub):
    values = np.array([1, 2, 3], "i2")
    made = inputs.as_input(stub(values, "torch.bfloat16"), "x")
    assert (made.dtype, made.shape, address(made.data)) == ("bfloat16", (3,), values.ctypes.data)


@pytest.mark.parametrize("dtype, way_out", [("torch.float8_e4m3fn", r"x\.float\(\)"), ("torch.complex32", r"x\.to\(torch\.complex64\)")])
def test_dtypes_of_torch_that_numpy_does_not_have(stub, dtype, way_out):
    with pytest.raises(TypeError, match=f"^x: a tensor of {dtype}, a dtype that tensord does not have; call {way_out} first"):
        inputs.as_input(stub(np.zeros(2), dtype), "x")


@pytest.mark.skipif(torch is None, reason=NO_TORCH)
def test_torch_itself():
    values = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert address(inputs.as_input(values, "x").data) == values.data_ptr()
    half = torch.ones(3, dtype=torch.bfloat16)
    assert inputs.as_input(half, "x").dtype == "bfloat16" and address(inputs.as_input(half, "x").data) == half.data_ptr()
    assert bytes(inputs.as_input(torch.tensor([1j]).conj(), "x").data) == np.array([1j], "c8").conj().tobytes()
    assert inputs.dtype_name(torch.float16) == "float16"
    made = torch.from_numpy(arrays.to_array("float32", [2], memoryview(np.zeros(8, "u1"))))
    made += 1  # memory that may be written
    assert made.tolist() == [1, 1]


class Dlpack:
    """an object that has this protocol alone, as tensors of several libraries"""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Arraylike:
    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize("kind", [Dlpack, Arraylike, lambda values: memoryview(values), lambda values: types.SimpleNamespace(
    __array_interface__=values.__array_interface__)], ids=["DLPack", "__array__", "memoryview", "__array_interface__"])
def test_objects_of_other_libraries_are_sent_from_their_memory(kind):
    values = np.arange(6, dtype="i4").reshape(2, 3)
    made = inputs.as_input(kind(values), "x")
    assert (made.dtype, made.shape, address(made.data)) == ("int32", (2, 3), values.ctypes.data)


def test_arrays_of_the_standard_library():
    assert inputs.as_input(array.array("d", [1, 2]), "x").dtype == "float64"
    assert inputs.as_input(bytearray(b"ab"), "x")[:2] == ("uint8", (2,))


def test_numbers_of_numpy_in_lists(client):
    assert client.cast([np.float32(1.5), 2], dtype="int32").tolist() == [1, 2]
    assert client.cast([0.1, 3000000000.5], "float64").tolist() == [0.1, 3000000000.5] and client.cast(0.1, "complex128") == 0.1
    assert client.cast([0.1], "float32").tolist() == [float(np.float32(0.1))]
    with pytest.raises(TypeError, match="set"):
        client.cast([{1}], dtype="int32")


USES = {
    "input": ("params", lambda client, given: client.gather(given, [0])),
    "index": ("indices", lambda client, given: client.gather("t", given)),
    "list": ("inputs[1]", lambda client, given: client.einsum([np.zeros(2), given], equation="i,i->")),
    "keys in place of indices": ("indices", lambda client, given: client.gather("t", tensord.Keys(given))),
    "upload": ("value", lambda client, given: client.tables["t"].put(given)),
    "keys of an upload": ("keys", lambda client, given: client.tables["t"].put(np.zeros(2), keys=given)),
    "keys": ("keys", lambda client, given: client.tables["t"].by_key(given)),
    "update": ("updates", lambda client, given: client.tables["t"].scatter([[0]], given)),
}
# What to do about a missing value, in an argument with keys or row numbers and in others.
MASKED = (r"x\.compressed\(\)", r"x\.filled\(VALUE\)")
MISSING = r"leave it out, or pass a key or a row number", r"float\('nan'\)"
masked = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, True])
fields = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])


def of_library(name, **members):
    """an object of a class of that library, which NumPy can convert"""
    ways = ("to_numpy", "toarray", "todense", "magnitude")
    made = type("Thing", (), {"__module__": name, "__array__": lambda *_, **__: np.zeros(2, "i8"), **dict.fromkeys(ways), **members})
    return made()


def without_elements(library, name):
    """an object of a class of that library that has no method for its elements"""
    return type(name, (), {"__module__": library})()


@pytest.mark.parametrize("given, what, way_out", [
    (masked, "2 of 3 elements are masked", MASKED),
    (np.ma.masked, "1 of 1 elements are masked", MASKED),
    (of_library("netcdf", __array__=lambda *_, **__: masked), "2 of 3 elements are masked", MASKED),
    ([masked], "2 of 3 elements are masked", MASKED),
    ([1, np.ma.masked], "1 of 1 elements are masked", MASKED),
    (np.array(["a", b"b"], object), "bytes and str", "all str or all bytes"),
    (np.array(["a", None], object), "strings, 1 of them missing", "(fill them first|leave it out)"),
    (np.array([1, 2], object), "int", r"x\.astype"),
    (np.array(["\ud800"]), "surrogate", "bytes"),
    (["\ud800"], "surrogate", "bytes"),
    (np.zeros(2, np.longdouble), np.dtype(np.longdouble).name, r"x\.astype\('float64'\)"),
    (np.longdouble(1), np.dtype(np.longdouble).name, r"x\.astype\('float64'\)"),
    (np.zeros(2, np.clongdouble), np.dtype(np.clongdouble).name, r"x\.astype\('complex128'\)"),
    ([np.longdouble(1)], np.dtype(np.longdouble).name, r"x\.astype\('float64'\)"),
    (np.array(["2026-01-01"], "datetime64[D]"), r"datetime64\[D\]", r"x\.astype\('int64'\)"),
    ([np.timedelta64(1, "s")], r"timedelta64\[s\]", r"x\.astype\('int64'\)"),
    (fields, "void", r"x\['a'\]"),
    (fields[0], "void", r"x\['a'\]"),
    (np.zeros(2, "V3"), "void24", r"x\.view\('uint8'\)"),
    (of_library("pandas"), "pandas", r"x\.to_numpy\(\)"),
    (of_library("xarray"), "xarray", r"x\.to_numpy\(\)"),
    (of_library("polars"), "polars", r"x\.to_numpy\(\)"),
    (of_library("pyarrow"), "pyarrow", r"x\.to_numpy\(zero_copy_only=False\)"),
    (of_library("scipy"), "scipy", r"x\.toarray\(\)"),
    (of_library("pint"), "pint", r"x\.magnitude"),
    (np.zeros(2).view(type("Quantity", (np.ndarray,), {"__module__": "astropy", "value": 0})), "astropy", r"x\.value"),
    ([of_library("pandas")], "pandas", r"x\.to_numpy\(\)"),
    (without_elements("pandas", "NAType"), "NAType", MISSING),
    ([1.0, without_elements("pandas", "NAType")], "NAType", MISSING),
    ([True, without_elements("pandas", "NAType")], "NAType", "(fill it, for example with False|leave it out)"),
    (["a", None], "a list with a NoneType", "(fill it, for example with ''|leave it out)"),
    (without_elements("scipy", "Rotation"), "Rotation of scipy", "NumPy array"),
    ({"a": 1}, "a dict", r"list\(x\.values\(\)\)"),
    ({"dtype": "float32", "data": [1]}, "a dict", r"numpy\.array\(x\['data'\], x\.get\('dtype'\)\)"),
    ({"a": 1}.values(), "a dict_values", r"list\(x\)"),
    ({1, 2}, "a set", r"list\(x\)"),
    ((one for one in [1]), "a generator", r"list\(x\)"),
    (collections.deque([1]), "a deque", r"list\(x\)"),
    (datetime.datetime(2026, 1, 1), "a datetime", r"numpy\.datetime64\(x, 'us'\)\.astype\('int64'\)"),
    ([datetime.date(2026, 1, 1)], "a list with a date", r"x\.toordinal\(\) for each"),
    (datetime.timedelta(1), "a timedelta", r"x // datetime\.timedelta\(microseconds=1\)"),
    (object(), "an object", "NumPy array"),
    (int, "a type", "NumPy array"),
    ([{"a": 1}], "a list with a dict", r"list\(x\.values\(\)\) for each"),
    ([decimal.Decimal(1)], "a list with a Decimal", r"float\(x\) for each"),
    ([1, None], "a list with a NoneType", MISSING),
    ([Arraylike(np.zeros(2))], "a list with an Arraylike", r"numpy\.array\(x\)"),
    (Arraylike([1, 2]), "an Arraylike, which NumPy cannot convert", "NumPy array"),
    (types.SimpleNamespace(__array_interface__={}), "SimpleNamespace, which NumPy cannot convert", "NumPy array"),
    (tensord.Found(np.zeros(2), np.zeros(2, bool)), "Found", r"x\.output"),
    (2 ** 64, "18446744073709551616", "int64.*uint64"),
    ([0, -2 ** 63 - 1], "-9223372036854775809", "int64.*uint64"),
    ([2 ** 63, -1], "9223372036854775808", "int64.*uint64"),
    ([np.uint64(1), np.int64(-1)], "float64", "int64.*uint64"),
    ([2 ** 53 + 1, 0.5], "9007199254740993", r"2\*\*53"),
    ([np.int64(2 ** 53 + 1), 0.5], "9007199254740993", r"2\*\*53"),
    ([np.array([-2 ** 53 - 1]), np.array([0.5])], "-9007199254740993", r"2\*\*53"),
    ([True, 2], "bool and int", "the same kind"),
    ([1, [np.bool_(True)]], "bool and int", "the same kind"),
    ([True, 0.5], "bool and float", "the same kind"),
    ([1, "a"], "int and str", "the same kind"),
    (["a", 1], "int and str", "the same kind"),
    (["a", b"b"], "bytes and str", "the same kind"),
    ([[np.int32(1)], [np.int32(1), np.int32(2)]], "different lengths", "the same length"),
    ([["a"], ["b", "c"]], "different lengths", "the same length"),
    (np.ma.array(fields, mask=[(True, False)]), "void", r"x\['a'\]"),
], ids=str)
@pytest.mark.parametrize("name, use", USES.values(), ids=list(USES))
def test_what_would_be_lost_is_refused_before_anything_is_sent(name, use, given, what, way_out):
    with tensord.Client("http://127.0.0.1:1") as nowhere, pytest.raises((TypeError, ValueError)) as caught:
        use(nowhere, given)
    said = str(caught.value)
    if name == "keys" and "values" in str(way_out):
        way_out = r"pass its keys in the order of the rows: list\(x\), or sorted\(x, key=x.get\)"
    if way_out in (MISSING, MASKED):
        way_out = way_out[0 if name in ("indices", "keys") else 1]
    assert said.startswith(f"{name}: ") and re.search(what, said) and re.search(way_out, said.partition("; ")[2]), said


@pytest.mark.parametrize("given, expected", [
    (np.ma.array([1.0, 2.0]), [1, 2]),
    (np.ma.array([1.0, 2.0], mask=[False, False]), [1, 2]),
    (np.array([[1.0], [2.0]]).view(np.matrix), [[1], [2]]),
    (range(3), [0, 1, 2]),
    ([np.arange(2, dtype="f8"), np.arange(2, dtype="f8") + 0.1], [[0, 1], [0.1, 1.1]]),
    ([np.float64(0.1), 2], [0.1, 2]),
    ([2 ** 24, 0.5], [2 ** 24, 0.5]),
    ([2 ** 53, np.float32(0.5)], [2 ** 53, 0.5]),
    ([np.int64(2 ** 53 + 1)], [2 ** 53 + 1]),
    ([2 ** 63, 1], [2 ** 63, 1]),
    ([1j, 2.5], [1j, 2.5]),
    ([True, np.bool_(False)], [True, False]),
    ([], []),
], ids=str)
def test_what_loses_nothing_is_sent(client, given, expected):
    assert client.concat([given]).tolist() == expected


@pytest.mark.parametrize("given, what", [
    ([2 ** 24 + 1, 0.5], r"the integer 16777217 in a list with floats, .*float32 is exact only up to 2\*\*24"),
    ([[1700000001, 0.5], [1700000002, 0.25]], "the integer 1700000002.*float32"), ([-2 ** 24 - 1, float("nan")], "the integer -16777217.*float32"),
    ([float("nan"), 1e300], r"1e\+300 does not fit float32")], ids=str)
def test_what_would_be_lost_as_float32_is_refused_where_no_other_input_is_float64(client, given, what):
    def loses(use):
        with pytest.raises(TypeError, match=rf"^\w+(\[1\])?: {what}.*; pass numpy\.array\(x, 'float64'\)"):
            use()
    with tensord.Client("http://127.0.0.1:1") as nowhere:
        loses(lambda: nowhere.gather(given, [0]))
        loses(lambda: nowhere.concat([[1.0], given]))
        loses(lambda: nowhere.concat([np.zeros(1, "f4"), given]))
        loses(lambda: nowhere.tables["t"].put(given))
    loses(lambda: client.concat(["planets", given]))
    same = client.concat([np.zeros(np.shape(given)), given])
    assert same.dtype == np.float64
    np.testing.assert_array_equal(same[len(given):], given)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_list_with_nan_has_the_dtype_that_it_has_without(client, using, daemon, dtype):
    """a list of floats takes the dtype of the array or of the table that it is used with"""
    table = client.tables["of_dtype"]
    client.store(table).cast(np.zeros((2, 2)), dtype)
    plain, rows = [[0.1, 1.5]], [[0.1, float("nan")], [float("-inf"), float("inf")]]
    expected = client.cast(np.array(rows), dtype)

    def same(found):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    same(using(daemon.url, lambda client: client.concat(["of_dtype", rows]))[2:])
    same(using(daemon.url, lambda client: client.concat([rows, "of_dtype"]))[:2])
    assert using(daemon.url, lambda client: client.store("both").concat([table, rows]))["dtype"] == dtype
    assert using(daemon.url, lambda client: client.store("both").concat([table, plain]))["dtype"] == dtype
    if dtype != "bfloat16":
        same(using(daemon.url, lambda client: client.concat([np.zeros((0, 2), dtype), rows])))
    using(daemon.url, lambda client: client.tables["of_dtype"].scatter([[0], [1]], rows))
    same(table.get())
    table.set_keys(["a", "b"])
    using(daemon.url, lambda client: client.tables["of_dtype"].upsert(["b", "a"], rows))
    same(table.get()[::-1])
    same(using(daemon.url, lambda client: client.tables["of_dtype"].lookup(["x", "y"], missing="default", default=rows)).output)
    table.delete()
    client.tables["both"].delete()


def test_a_list_with_nan_beside_floats_of_several_dtypes_says_how_to_tell_its_own():
    with tensord.Client("http://127.0.0.1:1") as nowhere, pytest.raises(
            TypeError, match=r"^inputs\[2\]: .*float32 and float64.*; pass numpy\.array\(x, 'float64'\)"):
        nowhere.einsum("i,i,i->", np.zeros(1), np.zeros(1, "f4"), [float("nan")])


def test_integers_have_the_dtype_that_holds_them(client):
    for given, dtype in (([2 ** 31 - 1], "int32"), ([2 ** 31], "int64"), ([-2 ** 31 - 1, 1], "int64"), ([2 ** 63], "uint64")):
        assert client.concat([given]).dtype == dtype and client.concat([given]).tolist() == given
    assert client.einsum("i->", [2 ** 31 - 1, 1]) == -2 ** 31
    assert client.einsum("i->", np.asarray([2 ** 31 - 1, 1], dtype="int64")) == 2 ** 31


def test_booleans_among_row_numbers_are_no_row_numbers(client):
    with pytest.raises(tensord.UnsupportedDtype):
        client.gather("planets", [True, False])


@pytest.mark.parametrize("tensor, what, way_out", [
    ({"requires_grad": True}, "requires grad", r"x\.detach\(\)"), ({"layout": "sparse_coo"}, "sparse_coo", r"x\.to_dense\(\)"),
    ({"is_quantized": True}, "quantized", r"x\.dequantize\(\)")])
def test_tensors_of_torch_that_are_more_than_their_elements(stub, tensor, what, way_out):
    made = stub(np.zeros(2))
    vars(made).update(tensor)
    with pytest.raises(TypeError, match=f"^params: .*{what}.*; .*{way_out}"):
        inputs.as_input(made, "params")
    with pytest.raises(TypeError, match=r"^params: .*StubTensor.*; .*torch\.stack\(x\)"):
        inputs.as_input([made, made], "params")


def test_none_is_no_tensor(client):
    """it stands for an input that is absent only where one may be"""
    for name, use in (("params", lambda: client.gather(None, [0])), ("inputs[1]", lambda: client.concat([[1], None])),
                      ("inputs", lambda: client.concat(None)), ("value", lambda: client.tables["t"].put(None)),
                      ("keys", lambda: client.tables["t"].set_keys(None)), ("rows", lambda: client.tables["t"].upsert(["a"], None))):
        with pytest.raises(TypeError) as caught:
            use()
        assert str(caught.value).startswith(f"{name}: None; ")


@pytest.mark.parametrize("given", [{"a": [1]}, {"planets"}, "planets"], ids=["dict", "set", "str"])
def test_a_list_of_tensors_has_an_order(client, given):
    with pytest.raises(TypeError, match="^inputs: .*; pass a list"):
        client.concat(given)


def test_a_shape_has_whole_numbers(client):
    with pytest.raises(TypeError, match=r"^shapes: .*2\.5.*; "):
        client.einsum_plan([[2.5, 3]], equation="ij->")


def test_an_attribute_is_a_number_or_a_text(client):
    with pytest.raises(TypeError, match="^axis: a set; "):
        client.concat([[1]], axis={0})
    assert client.concat([[1]], axis=np.int64(0)).tolist() == [1]


@pytest.mark.parametrize("which, expected", [
    (None, "table[None]: expected a row number, a key, a list of row numbers or keys, or a slice"),
    (slice("b", None), "a slice takes row numbers, not 'b'; use loc[...] with a list of keys"),
    (slice(None, "b"), "a slice takes row numbers, not 'b'; use loc[...] with a list of keys"),
    (slice(1.5, None), "a slice takes row numbers, not 1.5; use loc[...] with a list of keys"),
], ids=str)
def test_an_index_that_names_no_rows(which, expected):
    with tensord.Client("http://127.0.0.1:1") as nowhere:
        table = nowhere.tables["t"]
        for use in table, table.iloc:
            with pytest.raises(TypeError) as caught:
                use[which]
            assert str(caught.value) == expected
        with pytest.raises(TypeError, match=r"^loc\[(None|\.\.\.)\].* takes a key or a list of keys"):
            table.loc[which]


def test_bytes_of_a_file_of_numpy_may_be_bfloat16():
    with pytest.raises(TypeError, match=r"^x: an array of void16.*; call x\.view\('uint8'\) first, or x\.view\(ml_dtypes\.bfloat16\) if numpy\.save"):
        inputs.as_input(np.zeros(2, "V2"), "x")


@pytest.mark.parametrize("rows, message", [
    ([[1.0, 2.0], [3.0, 4.0]], r"an array of objects that are lists or arrays; pass numpy\.stack\(x\)"),
    ([np.ones(2), np.zeros(2)], r"an array of objects that are lists or arrays; pass numpy\.stack\(x\)"),
    ([[1.0], [2.0, 3.0]], "lists of different lengths; make all"), ([np.ones(1), np.ones(2)], "lists of different lengths; make all"),
    ([[1.0], "a"], "lists beside other objects; make all"),
    *([[*rest, without_elements("pandas", "NAType")], rf"{what}, 1 of them missing; fill them first, with x\.fillna\({fill}\) in pandas"]
      for rest, what, fill in ((["a"], "strings", "''"), ([True], "bools", "False"), ([1, 2.5], "numbers", "0"), ([], "numbers", "0"))),
    ([True, False], r"an array of objects of the types bool; call x\.astype\('bool'\)"), ([1, 2], r"an array of objects of the types int; call x\.astype\('int64'\)"),
    ([True, None], r"bools, 1 of them missing; fill them first, with x\.fillna\(False\)"), ([True, float("nan")], "bools, 1 of them missing"),
    (["a", None, float("nan")], r"strings, 2 of them missing; fill them first, with x\.fillna\(''\)")], ids=str)
def test_columns_of_pandas_as_arrays_of_objects(client, rows, message):
    column = np.empty(len(rows), object)
    column[:] = rows
    with pytest.raises(TypeError, match="^x: " + message):
        client.cast(x=column, dtype="int8")
    if "stack" in message:
        assert client.cast(np.stack(column), "int8").shape == (2, 2)


BFLOAT16_VALUES = np.array([[1.00390625, 1.01171875, -0.0, 1e-40, 3.4e38], [np.nan, np.inf, -np.inf, 1 / 3, -65504.5]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_arrays_in_bfloat16_are_those_of_the_op_cast(client, dtype):
    given = BFLOAT16_VALUES if dtype.startswith("float") else np.nan_to_num(BFLOAT16_VALUES, posinf=257, neginf=-259) % 70000
    with np.errstate(over="ignore"):
        x = given.astype(dtype).T
    client.tables["sent"].put(tensord.bfloat16(x))
    client.store("cast").cast(x, "bfloat16")
    assert client.tables["sent"].dtype == "bfloat16"
    np.testing.assert_array_equal(client.tables["sent"].get().view("u4"), client.tables["cast"].get().view("u4"))
    assert client.gather(tensord.bfloat16([1, 2.5]), [1]).tolist() == [2.5] and client.cast(tensord.bfloat16(3), "int8") == 3


def test_the_advice_to_cast_to_bfloat16_can_be_followed(client, using, daemon):
    table = client.tables["halves"]
    table.put(tensord.bfloat16(np.ones((2, 2))), keys=["a", "b"])
    x = np.array([[1.5, 2.0], [3.0, 4.0]], "f4")
    uses = {
        "upsert": lambda client, x: client.tables["halves"].upsert(["a", "b"], x),
        "scatter": lambda client, x: client.tables["halves"].scatter([[0], [1]], x),
        "lookup": lambda client, x: client.tables["halves"].lookup(["y", "z"], missing="default", default=x),
        "weights": lambda client, x: client.embedding_bag("halves", [[0, 1], [1, 0]], weights=x),
        "concat": lambda client, x: client.concat(["halves", x])}
    for name in ("upsert", "scatter", "lookup", "weights"):
        with pytest.raises(tensord.ProblemError, match=r"cast with dtype = bfloat16.*\. Pass tensord\.bfloat16\(x\), or a table stored with"
                                                       r" client\.store\(NAME\)\.cast\(x, 'bfloat16'\)") as caught:
            using(daemon.url, lambda client: uses[name](client, x))
        assert "tensord" not in caught.value.detail
    client.store("converted").cast(x, "bfloat16")
    for use in uses.values():
        using(daemon.url, lambda client: use(client, tensord.bfloat16(x)))
        use(client, client.tables["converted"])
    np.testing.assert_array_equal(table.get(), x)


@pytest.mark.parametrize("given, message", [
    ("halves", r"x: a resident tensor; client\.store\(NAME\)\.cast\(x, 'bfloat16'\) stores it in bfloat16 as the table NAME"),
    (np.zeros(1, "c8"), "x: an array of complex64; pass real numbers"), (["a"], "x: an array of string; pass real numbers"),
    (None, "x: None")], ids=str)
def test_what_has_no_numbers_is_not_made_bfloat16(given, message):
    with pytest.raises(TypeError, match="^" + message):
        tensord.bfloat16(given)

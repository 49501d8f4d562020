"""What may stand for a tensor, and whether it is copied."""
import array
import sys
import types

import numpy as np
import pytest
from tensord import arrays

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

    def detach(self):
        return self

    cpu = resolve_conj = resolve_neg = detach

    def contiguous(self):
        return StubTensor(np.ascontiguousarray(self.values), self.dtype)

    def view(self, dtype):
        return StubTensor(self.values.view(dtype))

    def numpy(self):
        return self.values


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(bfloat16="torch.bfloat16", int16="i2"))
    return StubTensor


def test_a_contiguous_array_is_sent_from_its_own_memory():
    values = np.arange(6, dtype="f4").reshape(2, 3)
    assert address(arrays.as_input(values).data) == values.ctypes.data


def test_a_tensor_of_torch_is_sent_from_its_own_memory(stub):
    values = np.arange(6, dtype="f4").reshape(2, 3)
    made = arrays.as_input(stub(values))
    assert (made.dtype, made.shape, address(made.data)) == ("float32", (2, 3), values.ctypes.data)
    assert bytes(arrays.as_input(stub(values.T)).data) == values.T.tobytes()


def test_bfloat16_of_torch_is_sent_from_its_own_memory(stub):
    values = np.array([1, 2, 3], "i2")
    made = arrays.as_input(stub(values, "torch.bfloat16"))
    assert (made.dtype, made.shape, address(made.data)) == ("bfloat16", (3,), values.ctypes.data)


@pytest.mark.skipif(torch is None, reason=NO_TORCH)
def test_torch_itself():
    values = torch.arange(6, dtype=torch.float32, requires_grad=True).reshape(2, 3)
    assert address(arrays.as_input(values).data) == values.data_ptr()
    half = torch.ones(3, dtype=torch.bfloat16)
    assert arrays.as_input(half).dtype == "bfloat16" and address(arrays.as_input(half).data) == half.data_ptr()
    assert bytes(arrays.as_input(torch.tensor([1j]).conj()).data) == np.array([1j], "c8").conj().tobytes()
    assert arrays.dtype_name(torch.float16) == "float16"
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
    made = arrays.as_input(kind(values))
    assert (made.dtype, made.shape, address(made.data)) == ("int32", (2, 3), values.ctypes.data)


def test_arrays_of_the_standard_library():
    assert arrays.as_input(array.array("d", [1, 2])).dtype == "float64"
    assert arrays.as_input(bytearray(b"ab"))[:2] == ("uint8", (2,))


def test_numbers_of_numpy_in_lists(client):
    assert client.cast([np.float32(1.5), 2], dtype="int32").tolist() == [1, 2]
    with pytest.raises(TypeError, match="set"):
        client.cast([{1}], dtype="int32")

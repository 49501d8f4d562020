"""Writes files as torch.save does, without PyTorch: a pickle that names its classes, and the data of each storage."""
import collections, contextlib, io, pickle, sys, types, zipfile


class Storage:
    """a storage of the pickle: the name of its class in torch, its key and its number of elements"""

    def __init__(self, kind, key, numel):
        self.kind, self.key, self.numel = kind, key, numel


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = storage, offset, shape, strides, False, collections.OrderedDict()

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        return "storage", getattr(sys.modules["torch"], obj.kind), obj.key, "cpu", obj.numel


@contextlib.contextmanager
def torch_names(*kinds):
    """modules that have the names which a pickle of PyTorch refers to"""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for kind in kinds:
        setattr(torch, kind, type(kind, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2():
        pass
    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2, torch._utils = _rebuild_tensor_v2, utils
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        yield
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]


def save(path, state, storages, kinds=("FloatStorage",), protocol=2):
    """torch.save(state, path), with {key: bytes} as the data of the storages"""
    out = io.BytesIO()
    with torch_names(*kinds):
        Pickler(out, protocol).dump(state)
    save_pickle(path, out.getvalue(), storages)


def save_pickle(path, pickled, storages):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", "3\n")

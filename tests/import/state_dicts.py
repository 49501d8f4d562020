"""Writes files as torch.save does, without PyTorch: a pickle that names its classes, and the data of each storage."""
import collections, contextlib, io, pickle, struct, sys, types, zipfile

LEGACY_MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # as torch.serialization names them


class Storage:
    """a storage of the pickle: the name of its class in torch, its key and its number of elements"""

    def __init__(self, kind, key, numel, view=None):
        self.kind, self.key, self.numel, self.view = kind, key, numel, view


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = storage, offset, shape, strides, False, collections.OrderedDict()

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class Named:
    """A call of a function that the pickle names: MODULE and NAME, and its arguments."""

    def __init__(self, module, name, *arguments):
        self.module, self.name, self.arguments = module, name, arguments

    def __reduce__(self):
        return getattr(sys.modules[self.module], self.name), self.arguments


class Global:
    """An object that the pickle names, such as the dtype torch.uint16."""

    def __init__(self, module, name):
        self.__module__, self.name = module, name

    def __reduce__(self):
        return self.name

    def __call__(self):
        pass


class Pickler(pickle.Pickler):
    legacy = False

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        view = (obj.view,) if self.legacy else ()
        return "storage", getattr(sys.modules["torch"], obj.kind), obj.key, "cpu", obj.numel, *view


class LegacyPickler(Pickler):
    legacy = True


def named(module, name):
    """a class that a pickle names so"""
    return type(name, (), {"__module__": module})


@contextlib.contextmanager
def torch_names(*kinds, others=()):
    """modules that have the names which a pickle of PyTorch refers to; others are "MODULE.NAME", or Global"""
    names = ["torch._utils._rebuild_tensor_v2", *(f"torch.{kind}" for kind in kinds), *others]
    modules = {}
    for item in names:
        module, name = (item.__module__, item.name) if isinstance(item, Global) else item.rsplit(".", 1)
        setattr(modules.setdefault(module, types.ModuleType(module)), name,
                item if isinstance(item, Global) else named(module, name))
    before = {module: sys.modules.get(module) for module in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for module, old in before.items():
            del sys.modules[module]
            if old:
                sys.modules[module] = old


def save(path, state, storages, kinds=("FloatStorage",), protocol=2, others=()):
    """torch.save(state, path), with {key: bytes} as the data of the storages"""
    out = io.BytesIO()
    with torch_names(*kinds, others=others):
        Pickler(out, protocol).dump(state)
    save_pickle(path, out.getvalue(), storages)


def save_legacy(path, state, storages, kinds=("FloatStorage",), itemsize=4):
    """torch.save of PyTorch before 1.6, or with _use_new_zipfile_serialization=False"""
    system = {"protocol_version": LEGACY_PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    with open(path, "wb") as out:
        for document in LEGACY_MAGIC, LEGACY_PROTOCOL, system:
            pickle.dump(document, out, 2)
        with torch_names(*kinds):
            LegacyPickler(out, 2).dump(state)
        pickle.dump(sorted(storages), out, 2)
        for key in sorted(storages):
            out.write(struct.pack("<Q", len(storages[key]) // itemsize) + storages[key])


def save_pickle(path, pickled, storages):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", "3\n")

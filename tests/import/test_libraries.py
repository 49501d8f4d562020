"""Files of safetensors and .npy, judged by the formats' own libraries, by tensord and by the import.

Each row says what the library does (safetensors 0.8, NumPy 2.4) and, if that differs, what tensord does and why.  The tests ask
all of them, so a new version of a library that judges otherwise fails here.
"""
import io, struct, warnings

import numpy as np
import safetensors

from daemon import Client, Daemon
from importing import ImportTest, run

ONE = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
DIMENSIONS = ",".join(17 * ["1"])


def entry(dtype="U8", shape="[1]", offsets="[0,1]", more=""):
    return '{"a":{"dtype":"%s","shape":%s,"data_offsets":%s%s}}' % (dtype, shape, offsets, more)


# The text of the header, the data, whether the library reads the file, and whether tensord does if it is one tensor in a body.
SAFETENSORS = (
    ("as the library writes it", entry() + "     ", b"1", True, True),
    ("a scalar", entry(shape="[]"), b"1", True, True),
    ("metadata", '{"__metadata__":{"format":"pt"},"a":%s}' % ONE, b"1", True, True),
    ("metadata that is null", '{"__metadata__":null,"a":%s}' % ONE, b"1", True, True),
    ("empty metadata at the end", '{"a":%s,"__metadata__":{}}' % ONE, b"1", True, True),
    ("metadata of a number", '{"__metadata__":{"a":1},"a":%s}' % ONE, b"1", False, False),
    ("metadata of null", '{"__metadata__":{"a":null},"a":%s}' % ONE, b"1", False, False),
    ("metadata twice", '{"__metadata__":{},"__metadata__":{},"a":%s}' % ONE, b"1", False, False),
    ("white space before the header", "\n\t {\"a\":%s}" % ONE, b"1", True, True),
    ("white space after it", '{"a":%s}\r\n\t ' % ONE, b"1", True, True),
    ("NULs after it", '{"a":%s}\0\0' % ONE, b"1", False, False),
    ("escapes in names", '{"a":{"\\u0064type":"U\\u0038","shape":[1],"data_offsets":[0,1]}}', b"1", True, True),
    ("a member that is not known", entry(more=',"x":{"y":[1,{}]}'), b"1", True, True),
    ("a member twice", entry(more=',"dtype":"U8"'), b"1", False, False),
    ("no name", '{"":%s}' % ONE, b"1", True, True),
    ("no tensor", "{}", b"", True, False),  # a body is one tensor
    ("an empty tensor", entry(shape="[0]", offsets="[0,0]"), b"", True, True),
    ("large extents, and one of 0", entry(shape="[0,9223372036854775807,9]", offsets="[0,0]"), b"", True, True),
    ("data that no tensor has", entry(), b"12", False, False),
    ("a hole", entry(offsets="[1,2]"), b"12", False, False),
    ("too few bytes", entry(shape="[2]"), b"1", False, False),
    ("a fraction as an extent", entry(shape="[1.0]"), b"1", False, False),
    ("three offsets", entry(offsets="[0,1,1]"), b"1", False, False),
    ("a list", "[]", b"", False, False),
    ("a comma at the end", '{"a":%s,}' % ONE, b"1", False, False),
    ("a byte order mark", "\ufeff" + entry(), b"1", False, False),
    ("complex64", entry("C64", offsets="[0,8]"), bytes(8), True, True),
    # What tensord has no equivalent for. A file of several tensors is served without it.
    ("a dtype of 8 bits", entry("F8_E4M3"), b"1", True, False),
    ("a dtype of 4 bits", entry("F4", "[2]"), b"1", True, False),
    ("half a byte", entry("F4"), b"1", False, False),
    ("17 dimensions", entry(shape=f"[{DIMENSIONS}]"), b"1", True, False),
    ("a bool that is neither 0 nor 1", entry("BOOL"), b"\3", True, False),
    ("an extent of 2^63", entry(shape="[9223372036854775808,0]", offsets="[0,0]"), b"", True, False),
    # What is ambiguous: the library takes the last.
    ("a name twice", '{"a":%s,"a":%s}' % (ONE, ONE), b"1", True, False),
    # What the format's description does not have.
    ("an entry that is a list", '{"a":["U8",[1],[0,1]]}', b"1", True, False),
    # Names of tensors are texts of C.
    ("a name with a NUL", '{"a\\u0000":%s}' % ONE, b"1", True, False),
)
# Whether the import takes those that it judges otherwise: it ignores metadata, and a tensor needs a name there.
IMPORT_DIFFERS = {
    "no tensor": False, "metadata of a number": True, "metadata of null": True, "no name": False,
}


def npy(descr="'<f4'", shape="(2, 3)", order="False", data=bytes(24), version=1, around=("", "\n"), more=""):
    header = f"{around[0]}{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}{around[1]}".encode("latin1")
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


# The file, whether NumPy reads it, and whether tensord does.
NPY = (
    ("as NumPy writes it", npy(), True, True),
    ("version 2", npy(version=2), True, True),
    ("version 3", npy(version=3), True, True),
    ("version 4", npy(version=4), False, False),
    ("in Fortran order", npy(order="True"), True, True),
    ("big-endian", npy("'>f4'"), True, True),
    ("the byte order of the machine", npy("'=f4'"), True, True),
    ("no byte order", npy("'|f4'"), True, True),
    ("none at all", npy("'f4'"), True, True),
    ("the name of a dtype", npy("'float32'"), True, True),
    ("the short name of bool", npy("'?'", "(24,)"), True, True),
    ("text of Python 2", npy("u'<f4'"), True, True),
    ("longs of Python 2", npy(shape="(2L, 3L)"), True, True),
    ("bytes as the type", npy("b'<f4'"), False, False),
    ("other white space", npy(shape="(2,\t3)", around=("\t", "\t\r\n")), True, True),
    ("no end of line", npy(around=("", "")), True, True),
    ("NULs as padding", npy(around=("", "\0\0")), False, False),
    ("a scalar", npy(shape="()", data=bytes(4)), True, True),
    ("no elements", npy(shape="(0, 3)", data=b""), True, True),
    ("a list as the shape", npy(shape="[2, 3]"), False, False),
    ("a number as the shape", npy(shape="(6)"), False, False),
    ("a negative extent", npy(shape="(-1,)"), False, False),
    ("another key", npy(more="'x': 1"), False, False),
    ("too few bytes", npy(data=bytes(23)), False, False),
    ("1 as the order", npy(order="1"), False, False),
    ("long double", npy("'<f16'", "(1,)", data=bytes(16)), True, False),
    ("text of fixed width", npy("'<U1'", "(6,)"), True, False),
    ("raw records", npy("'|V2'", "(12,)"), True, False),
    ("dates", npy("'<M8[s]'", "(3,)"), True, False),
    ("fields", npy("[('a', '<f4')]", "(6,)"), True, False),
    ("objects", npy("'|O'", "(3,)"), False, False),
    ("17 dimensions", npy(shape="(" + 16 * "1, " + "6)"), True, False),
    ("a bool that is neither 0 nor 1", npy("'|b1'", "(1,)", data=b"\3"), True, False),
    # What is ambiguous: NumPy takes the last key, and leaves out what follows the array.
    ("a key twice", npy(more="'shape': (6,)"), True, False),
    ("two arrays", npy() + npy(), True, False),
    # Types whose width depends on the machine that wrote them, or that no writer uses.
    ("a letter as the type", npy("'l'", "(3,)"), True, False),
    ("a comment", npy(around=("", "# x\n")), True, False),
    ("hexadecimal digits", npy(shape="(0x2, 3)"), True, False),
)


def safetensors_file(header, data):
    header = header.encode()
    return struct.pack("<Q", len(header)) + header + data


class Libraries(ImportTest):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.client = Client(cls.daemon)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.stop()

    def stored(self, content, content_type):
        """whether tensord takes the file as a body of PUT; if not, its error says why"""
        reply = self.client.request("PUT", "/v1/tensors/t", content, {"Content-Type": content_type})
        if reply.status >= 300:
            self.assertIn(reply.json()["code"], ("MALFORMED_REQUEST", "RESOURCE_LIMIT"))
        return reply.status < 300

    def test_safetensors(self):
        for name, header, data, library, tensord in SAFETENSORS:
            with self.subTest(name):
                content = safetensors_file(header, data)
                try:
                    safetensors.deserialize(content)
                    judged = True
                except safetensors.SafetensorError:
                    judged = False
                self.assertEqual(judged, library, "the library")
                self.assertEqual(self.stored(content, "application/vnd.safetensors"), tensord, "tensord")
                path = self.work / "m.safetensors"
                path.write_bytes(content)
                status, _, errors = run(path, "--tensor", "a", "--data-dir", self.data, "--quiet")
                self.assertEqual(status == 0, IMPORT_DIFFERS.get(name, tensord), errors)

    def test_npy(self):
        for name, content, library, tensord in NPY:
            with self.subTest(name):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        np.load(io.BytesIO(content))
                    judged = True
                except (ValueError, TypeError):
                    judged = False
                self.assertEqual(judged, library, "NumPy")
                self.assertEqual(self.stored(content, "application/x-npy"), tensord, "tensord")

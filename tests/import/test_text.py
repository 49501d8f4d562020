"""Encodings of files of text: each is read as UTF-8, with or without a byte order mark or gzip, or refused with a hint."""
import gzip
import unittest

import numpy as np

from importing import ImportTest, numbers, strings

from text import is_number, wide_encoding


class Encodings(ImportTest):
    FILES = {"m.csv": "id,a\nké,1\nb,2\n", "m.tsv": "id\ta\nké\t1\nb\t2\n", "k.txt": "ké\nb\n", "k.json": '{"ké": 0, "b": 1}'}

    def arguments(self, name, content):
        """the arguments of an import that reads the file, which is a table with keys or only keys"""
        path = self.work / name
        path.write_bytes(content)
        if name.startswith("m."):
            return path, "--keys", "id"
        np.savez(self.work / "m.npz", a=np.array([1, 2], "f4"))
        return self.work / "m.npz", "--keys-from", path

    def test_a_byte_order_mark_is_not_text(self):
        for name, text in self.FILES.items():
            for content in text.encode(), text.encode("utf-8-sig"):
                with self.subTest(name):
                    self.imported(*self.arguments(name, content))
                    self.assertEqual(strings(self.tensors("m.safetensors"), "a.keys"), ["ké", "b"])

    def test_gzip_is_recognised_by_its_bytes(self):
        for name, text in self.FILES.items():
            for suffix in "", ".gz":
                with self.subTest(name + suffix):
                    self.imported(*self.arguments(name + suffix, gzip.compress(text.encode("utf-8-sig"))))
                    self.assertEqual(strings(self.tensors("m.safetensors"), "a.keys"), ["ké", "b"])

    def test_damaged_gzip_is_refused(self):
        for name, text in self.FILES.items():
            content = gzip.compress(text.encode())
            for damaged in content[:-9], content[:12] + b"\xff\xff" + content[14:], content[:-8] + bytes(8):
                with self.subTest(name):
                    arguments = self.arguments(name + ".gz", damaged)
                    self.assertEqual(self.refused(*arguments), f"{self.work / name}.gz: its gzip data is damaged or truncated")

    def test_utf_16_is_refused_with_the_command_that_converts_it(self):
        for name, text in self.FILES.items():
            for encoding, named in (("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"), ("utf-32", "UTF-32"),
                                    ("utf-32-le", "UTF-32LE"), ("utf-32-be", "UTF-32BE")):
                with self.subTest(name=name, encoding=encoding):
                    self.assertIn(f"{name}: the text is in {named}; expected UTF-8. Convert it with iconv -f {named} -t UTF-8 FILE >NEW",
                                  self.refused(*self.arguments(name, text.replace("ké", "key").encode(encoding))))

    def test_elements_of_integers_are_not_text_in_utf_16(self):
        for dtype in "<i2", ">i2", "<i4", ">i4":
            for values in [100, 200], [100, 10, 0], [91, 1, 93], [91, 100, 200]:
                with self.subTest(dtype=dtype, values=values):
                    self.assertIsNone(wide_encoding(np.array(values, dtype).tobytes()))


class Numbers(ImportTest):
    """Numbers in text are rounded to float64, and never become infinite."""
    TOO_LARGE = "expected a number up to 1.8e308, the maximum of float64"

    def write(self, name, text):
        (self.work / name).write_text(text)
        return self.work / name

    def test_a_number_that_is_too_large_is_refused_with_its_place(self):
        for text in "1e400", "-1e309", "2" + "0" * 308, "-" + "9" * 400, "0" * 9 + "1.5E+00400":
            more = "…" if len(text) > 40 else ""
            shown, short = repr(text[:40]) + more, text[:40] + more
            for dtype in "float32", "float64":
                with self.subTest(text=text, dtype=dtype):
                    path = self.write("m.csv", f"id,x,y\na,inf,0\nb,1,\nc,2, {text} \n")
                    self.imported(path, "--rows", "x", "--dtype", dtype)
                    path = self.write("m.csv", f"id,x,y\na,inf,0\nb,1,3\nc,2, {text} \n")
                    self.assertEqual(self.refused(path, "--keys", "id", "--dtype", dtype),
                                     f"{path}, column y: row 2 is {(' ' + text + ' ')[:40]!r}{'…' if len(text) > 38 else ''}; {self.TOO_LARGE}. Row 2 starts in line 4 and has the key 'c'")
                    path = self.write("m.vec", f"3 2\na inf 1\nb 1 2\nc 1 {text}\n")
                    self.assertEqual(self.refused(path, "--dtype", dtype), f"{path}, line 4: element 1 is {shown}; {self.TOO_LARGE}")
                    if text[0] != "0":
                        path = self.write("m.jsonl", f'{{"x": Infinity}}\n\n{{"x": 1, "y": {text}}}\n{{"x": {text}}}\n')
                        self.assertEqual(self.refused(path, "--rows", "x", "--dtype", dtype),
                                         f"{path}, column x: row 2 is {short}; {self.TOO_LARGE}. Row 2 starts in line 4")
                        path = self.write("m.jsonl", f'{{"v": [0, Infinity]}}\n{{"v": [1, {text}]}}\n')
                        self.assertIn(f"row 1 is {short}; {self.TOO_LARGE}", self.refused(path, "--dtype", dtype))

    def test_the_largest_numbers_and_words_for_infinity_are_taken(self):
        largest = "1.7976931348623158e308"
        for path, values in ((self.write("m.csv", f"x\n{largest}\ninf\n-Infinity\nNaN\n"), "x"),
                             (self.write("m.jsonl", "".join(f'{{"x": {x}}}\n' for x in (largest, "Infinity", "-Infinity", "NaN"))), "x"),
                             (self.write("m.txt", f"a {largest}\nb inf\nc -Infinity\nd nan\n"), "vectors")):
            with self.subTest(path.name):
                self.imported(path, "--dtype", "float64")
                self.assertEqual(repr(numbers(self.tensors("m.safetensors"), values)), "[1.7976931348623157e+308, inf, -inf, nan]")
        self.imported(self.write("m.jsonl", f'{{"x": {2 ** 1024 - 2 ** 970 - 1}}}\n'), "--dtype", "float64")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "x"), [float(2 ** 1024 - 2 ** 971)])

    def test_numbers_with_more_digits_than_float64_has_are_rounded_to_nearest(self):
        texts = f"{2 ** 53 + 1}.0", "0.1000000000000000055511151231257827021181583404541015625", "5e-324", "1e-400"
        for path, name in ((self.write("m.csv", "x\n" + "\n".join(texts)), "x"), (self.write("m.txt", "".join(f"k{x} {x}\n" for x in texts)), "vectors"),
                           (self.write("m.jsonl", "".join(f'{{"x": {x}}}\n' for x in texts)), "x")):
            with self.subTest(path.name):
                self.imported(path, "--dtype", "float64")
                self.assertEqual(numbers(self.tensors("m.safetensors"), name), [2.0 ** 53, 0.1, 5e-324, 0])


class Spelling(unittest.TestCase):
    def test_a_number_is_decimal_and_ascii(self):
        for value in "1", "-1.5", "+.5", "7.", "1e5", "1.5E-3", " 2\t", "nan", "NaN", "-inf", "Infinity":
            self.assertTrue(is_number(value) and is_number(value.encode()), value)
        for value in "", " ", ".", "e5", "1_000", "0x1f", "1e", "１２", "٣", "1,5", "1 2", "abc_1", "1d5", "nan(1)", "infinite", "\x0b1", "b'1'":
            self.assertFalse(is_number(value) or is_number(value.encode()), value)

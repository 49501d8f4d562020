"""Encodings of files of text: each is read as UTF-8, with or without a byte order mark or gzip, or refused with a hint."""
import gzip

import numpy as np

from importing import ImportTest, strings


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
                    self.assertEqual(self.refused(*arguments), f"{self.work / name}.gz: its gzip data is damaged, or ends too early")

    def test_utf_16_is_refused_with_the_command_that_converts_it(self):
        for name, text in self.FILES.items():
            for encoding, named in (("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"), ("utf-32", "UTF-32")):
                with self.subTest(name=name, encoding=encoding):
                    self.assertIn(f"{name}: the text is in {named}; expected UTF-8: iconv -f {named} -t UTF-8 FILE >NEW converts it",
                                  self.refused(*self.arguments(name, text.replace("ké", "key").encode(encoding))))

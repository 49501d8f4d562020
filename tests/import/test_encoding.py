"""The dtypes that rows are written in: values that can be checked by hand, and the bounds that rounding has."""
import math, re, unittest, warnings

import numpy as np

from importing import ImportTest, numbers, run
from encoding import Encoder, ErrorMade
from table import Refused, table_of_array


def rounding():
    """the error of the timestamps in float32, in percent"""
    given = np.array([1700000001, 1700000002], "f8")
    made = given.astype("f4").astype("f8")
    return 100 * np.sqrt(((made - given) ** 2).sum() / (given ** 2).sum())


class Encoding(ImportTest):
    def convert(self, rows, dtype, *options):
        np.savez(self.work / "m.npz", w=np.asarray(rows, *options))
        out = self.imported(self.work / "m.npz", "--dtype", dtype)
        return self.tensors("m.safetensors"), out

    def test_uint8_spans_each_row_from_its_least_to_its_greatest_element(self):
        tensors, out = self.convert([[-1, 0, 1.55], [10, 10, 10], [0, 255, 128]], "uint8", "f4")
        self.assertEqual(numbers(tensors, "w"), [0, 100, 255, 0, 0, 0, 0, 255, 128])
        np.testing.assert_array_equal(numbers(tensors, "w.scale"), np.array([2.55 / 255, 0, 1], "f4"))
        np.testing.assert_array_equal(numbers(tensors, "w.offset"), np.array([-1, 10, 0], "f4"))
        self.assertRegex(out, r"m:w: uint8 \[3, 3\]; maximum error \S+; its root mean square is \S+ % of the root mean square of the values")

    def test_int8_is_symmetric(self):
        tensors, _ = self.convert([[-127, 1, 63.6], [0, 0, 0]], "int8", "f4")
        self.assertEqual(numbers(tensors, "w"), [-127, 1, 64, 0, 0, 0])
        self.assertEqual((numbers(tensors, "w.scale"), numbers(tensors, "w.offset")), ([1, 0], [0, 0]))

    def test_the_error_is_at_most_half_a_step_of_the_row(self):
        rng = np.random.default_rng(1)
        rows = (rng.standard_normal((500, 33)) * 10.0 ** rng.integers(-6, 6, (500, 1))).astype("f4")
        for dtype, step in ("uint8", np.ptp(rows, axis=1) / 255), ("int8", np.abs(rows).max(axis=1) / 127):
            tensors, out = self.convert(rows, dtype)
            params, scale, offset = (np.array(numbers(tensors, "w" + part)) for part in ("", ".scale", ".offset"))
            error = np.abs(params.reshape(rows.shape) * scale[:, None] + offset[:, None] - rows)
            self.assertTrue((error <= step[:, None] * 0.5001 + np.abs(rows) * 1e-6).all())
            self.assertAlmostEqual(float(out.split("maximum error ")[1].split(";")[0]) / error.max(), 1, delta=0.02)

    def test_the_error_is_rounded_up(self):
        np.save(self.work / "e.npy", np.array([[1.00012344, 2]]))
        self.assertIn("maximum error 0.000124;", self.imported(self.work / "e.npy", "--dtype", "float16"))

    def test_numbers_that_do_not_fit_lead_to_a_dtype_that_has_them(self):
        for value, dtype, way in ((1e39, "bfloat16", "float64"), (1e300, "float32", "float64"), (1e300, "uint8", "float64"), (70000.0, "float16", "float32 or float64"),
                                  (-1e39, "bfloat16", "float64"), (-70000.0, "float16", "float32 or float64")):
            np.save(self.work / "e.npy", np.array([[value, value / 2], [1, 2]]))
            error = self.refused(self.work / "e.npy", "--dtype", dtype)
            self.assertTrue(error.endswith(f": {value}; --dtype {way} can hold such numbers"), error)

    def test_the_column_that_loses_most_is_named_with_its_own_error(self):
        path = self.work / "m.csv"
        path.write_text("t,price,volume\n1700000001,0.5,0\n1700000002,0.25,0\n")
        own = "column price has an error of 100 % of its own root mean square"
        for dtype in "int8", "uint8":
            with self.subTest(dtype):
                status, out, errors = run(path, "--dtype", dtype, "--data-dir", self.data)
                self.assertEqual(status, 0, errors)
                self.assertIn(f"import: note: {path}: {own}, because other values of a row are larger, and {dtype} has one scale per row; use --dtype float32 or float64"
                              ", or choose columns of similar size with --rows\n", errors)
                self.assertIn("in column price, 100 % of its own root mean square\n", out)
        _, out, errors = run(path, "--dtype", "float32", "--data-dir", self.data)
        self.assertNotIn("note", errors)
        self.assertIn(f"; the error is largest in column t, {rounding():.3g} % of its own root mean square\n", out)
        _, _, errors = run(path, "--dtype", "uint8", "--rows", "price", "--data-dir", self.data)
        self.assertNotIn("note", errors)

    def test_the_element_of_rows_without_names_that_loses_most_is_named(self):
        np.savez(self.work / "m.npz", w=np.array([[1e9, 1, 1e9], [-1e9, 2, 1e9]], "f4"))
        status, _, errors = run(self.work / "m.npz", "--dtype", "int8", "--data-dir", self.data)
        self.assertIn("element 1 of the rows has an error of 100 % of its own root mean square, because other values of a row are larger, and int8 has one scale per row; use --dtype float32 or float64"
                      "\n", errors)
        np.savez(self.work / "m.npz", w=np.array([[1, 1e-9], [1, 1e-9]], "f4"))
        errors = run(self.work / "m.npz", "--dtype", "float16", "--data-dir", self.data)[2]
        self.assertIn("element 1 of the rows has an error of 100 % of its own root mean square, because float16 cannot hold such small values; use --dtype float32 or float64\n", errors)
        np.savez(self.work / "m.npz", w=np.array([[1, 1e-46], [1, 1e-46]]))
        errors = run(self.work / "m.npz", "--dtype", "float32", "--data-dir", self.data)[2]
        self.assertIn("because float32 cannot hold such small values; use --dtype float64\n", errors)

    def test_extremes_of_float64_and_subnormal_rows(self):
        tensors, _ = self.convert([[-1e38, 1e38], [1e-45, 2e-45], [0, 1e-44]], "uint8", "f8")
        scale = np.array(numbers(tensors, "w.scale"))
        self.assertTrue(np.isfinite(scale).all())
        self.assertEqual(numbers(tensors, "w")[:2], [0, 255])

    def test_bfloat16_rounds_to_nearest_ties_to_even(self):
        tensors, _ = self.convert([1 + 2 ** -8, 1 + 3 * 2 ** -8, -1 - 2 ** -8 - 2 ** -20, math.nan, math.inf, -0.0], "bfloat16", "f4")
        bits = np.frombuffer(tensors["w"][2], "<u2")
        self.assertEqual([hex(b) for b in bits[[0, 1, 2, 4, 5]]], ["0x3f80", "0x3f82", "0xbf81", "0x7f80", "0x8000"])
        self.assertTrue(bits[3] & 0x7F80 == 0x7F80 and bits[3] & 0x7F)

    def test_bfloat16_keeps_a_nan_whose_payload_is_in_the_bits_that_are_cut(self):
        given = np.array([0x7F800001, 0xFF800001], "<u4").view("f4")
        tensors, _ = self.convert(given, "bfloat16")
        self.assertEqual([hex(b) for b in np.frombuffer(tensors["w"][2], "<u2")], ["0x7fc0", "0xffc0"])

    def test_float16_keeps_what_is_not_finite(self):
        tensors, _ = self.convert([[1.5, math.inf, -math.inf, math.nan]], "float16", "f8")
        np.testing.assert_array_equal(numbers(tensors, "w"), [1.5, math.inf, -math.inf, math.nan])

    def test_a_table_that_has_the_dtype_is_kept(self):
        tensors, out = self.convert([[1, 2]], "float16", "f2")
        self.assertEqual(numbers(tensors, "w"), [1, 2])
        self.assertNotIn("error", out)

    def test_what_cannot_be_converted_is_refused_with_its_place(self):
        for rows, dtype, kind, expected in (
                ([[0, 1], [2, math.nan]], "uint8", "f4", "element 1 of row 1 is not finite: nan"),
                ([[0, 1], [2, math.inf]], "int8", "f4", "element 1 of row 1 is not finite: inf"),
                ([[0, 70000]], "float16", "f4", "element 1 of row 0 is too large for float16: 70000.0"),
                ([[0], [1e39]], "bfloat16", "f8", "element 0 of row 1 is too large for bfloat16: 1e+39"),
                ([[1e300]], "uint8", "f8", "element 0 of row 0 is too large for float32: 1e+300"),
                ([1, 2], "uint8", "f4", "the shape is [2]; only tables with two dimensions can be quantised"),
                ([[1]], "float16", "i4", "the dtype is int32; --dtype converts only floats")):
            with self.subTest(expected):
                np.savez(self.work / "m.npz", w=np.array(rows, kind))
                self.assertIn(f"array w: {expected}", self.refused(self.work / "m.npz", "--dtype", dtype))

    def test_rows_near_the_limit_of_float32_say_what_does_not_fit(self):
        limit = float(np.finfo("f4").max)
        for rows, dtype, kind, expected in (
                ([[0, 1], [-3e38, 3e38]], "uint8", "f4",
                 "row 1 has values from -3e+38 to 3e+38; their difference, 6e+38, does not fit float32, in which "
                 "uint8 is dequantised; --dtype float32 or bfloat16 keeps such rows"),
                ([[0, limit]], "int8", "f4",
                 "row 0 has values from 0 to 3.40282e+38; 127 * scale, rounded, does not fit float32, in which int8 is"),
                ([[0, 1], [2, 4e38]], "uint8", "f8", "element 1 of row 1 is too large for float32: 4e+38"),
                ([[0, 1], [-4e38, 2]], "uint8", "f8", "element 0 of row 1 is too large for float32: -4e+38")):
            with self.subTest(rows=rows, dtype=dtype):
                np.savez(self.work / "m.npz", w=np.asarray(rows, kind))
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    self.assertIn(f"array w: {expected}", self.refused(self.work / "m.npz", "--dtype", dtype))
        self.imported(self.work / "m.npz", "--dtype", "float64")

    def test_zeros_have_no_error(self):
        self.assertIn("; maximum error 0; its root mean square is 0 % of the root mean square of the values\n", self.convert([[0, 0]], "float16", "f4")[1])


class Batches(unittest.TestCase):
    """A table that is larger than a batch is encoded batch by batch."""

    def test_the_error_is_that_of_all_batches(self):
        error = ErrorMade()
        for given, made in (([3.0, 0.0], [3.5, 0.0]), ([4.0, 0.0], [4.0, 0.25])):
            error.add(np.array(given), np.array(made))
        self.assertEqual((error.count, error.greatest, error.squares, error.input_squares), (4, 0.5, 0.3125, 25))
        encoder = Encoder(table_of_array("w", np.array([[1.0, 2049.0], [1.0, 2.0]]), "w.npy"), "float16")
        for row in range(2):
            encoder.encode(np.array([[1.0, 2049.0], [1.0, 2.0]])[row : row + 1], row)
        self.assertEqual((encoder.error.count, encoder.error.greatest, encoder.error.squares, encoder.error.input_squares), (4, 1, 1, 2049 ** 2 + 6))

    def test_errors_have_the_number_of_the_row_in_the_table(self):
        for dtype, rows, expected in (("uint8", [[1, 2], [3, np.inf]], "element 1 of row 1001 is not finite"),
                                      ("float16", [[1, 2], [3, 7e4]], "element 1 of row 1001 is too large for float16"),
                                      ("uint8", [[1, 2], [-3e38, 3e38]], "row 1001 has values from -3e+38 to 3e+38")):
            with self.subTest(expected):
                given = np.array(rows, "f4")
                with self.assertRaisesRegex(Refused, re.escape(expected)):
                    Encoder(table_of_array("w", given, "w.npy"), dtype).encode(given, 1000)

"""einsum over HTTP, and POST /v1/einsum/plan, which returns its steps and costs."""
import itertools, math, os, random, threading
from daemon import *
from gates import GatedDaemon

TABLES = temporary_folder()
BINARY = {"Content-Type": SAFETENSORS}
A, B = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
AB = [[19, 22], [43, 50]]
MATMUL = {"equation": "ij,jk->ik", "inputs": [A, B]}
SIDE = 4096  # of a table whose square takes long: 137 GFLOP


def setUpModule():
    with open(os.path.join(TABLES, "a.npy"), "wb") as f:
        f.write(npy("float32", (2, 2), pack("float32", [1, 2, 3, 4])))
    with open(os.path.join(TABLES, "model.safetensors"), "wb") as f:  # w is not aligned to its dtype
        f.write(safetensors({"x": ("uint8", (1,), b"\0"), "w": ("float32", (2, 2), pack("float32", [5, 6, 7, 8]))}))
    with open(os.path.join(TABLES, "large.npy"), "wb") as f:
        f.write(npy("float32", (SIDE, SIDE), b""))
        f.truncate(f.tell() + 4 * SIDE * SIDE)  # a sparse file of zeros
    with open(os.path.join(TABLES, "middle.npy"), "wb") as f:
        f.write(npy("float32", (256, 256), bytes(4 * 256 * 256)))


def einsum(equation, operands):
    """[(shape, flat values)] -> (shape, flat values), by one loop over all labels; explicit outputs, no ellipsis"""
    left, output = equation.split("->")
    subscripts = left.split(",")
    extent = {}
    for subscript, (shape, _) in zip(subscripts, operands):
        extent.update(zip(subscript, shape))
    labels = sorted(extent)
    shape = [extent[c] for c in output]
    sums = {}
    for place in itertools.product(*(range(extent[c]) for c in labels)):
        at = dict(zip(labels, place))
        product = 1
        for subscript, (dims, values) in zip(subscripts, operands):
            linear = 0
            for c, d in zip(subscript, dims):
                linear = linear * d + at[c]
            product *= values[linear]
        key = tuple(at[c] for c in output)
        sums[key] = sums.get(key, 0) + product
    return shape, [sums.get(place, 0) for place in itertools.product(*(range(d) for d in shape))]


def tensor_of(dtype, shape, values):
    return {"dtype": dtype, "shape": list(shape), "data": list(values)}


class Json(HttpTest):
    def test_sums_of_integers_wrap_around_and_the_description_says_the_way_out(self):
        for dtype, last, least in (("int32", 2**31 - 1, -2**31), ("int8", 127, -128)):
            terms = {"dtype": dtype, "data": [last, 1]}
            self.assertOutput(self.post("/v1/einsum", {"equation": "i->", "inputs": [terms]}), dtype, [], least)
            self.assertOutput(self.post("/v1/einsum", {"equation": "i->", "inputs": [{**terms, "dtype": "int64"}]}), "int64", [], last + 1)
        inputs = self.get("/v1/ops/einsum").json()["inputs"][0]
        self.assertIn("cast the inputs to int64 or float64", inputs["summary"])

    def test_the_example_of_the_description_has_exactly_this_reply(self):
        example = self.get("/v1/ops/einsum").json()["example"]
        self.assertEqual(example["endpoint"], "POST /v1/einsum")
        reply = self.post("/v1/einsum", example["request"])
        self.assertEqual(reply.body.strip(), b'{"output":{"dtype":"int32","shape":[2,2],"data":[[19,22],[43,50]]}}')

    def test_equations_agree_with_numpy(self):
        for equation, inputs, shape, data in (
                ("ij,jk->ik", [A, B], [2, 2], AB),
                ("ij,jk", [A, B], [2, 2], AB),
                (" i j , j k -> i k ", [A, B], [2, 2], AB),
                ("ba", [A], [2, 2], [[1, 3], [2, 4]]),
                ("ij->ji", [A], [2, 2], [[1, 3], [2, 4]]),
                ("ij->", [A], [], 10),
                ("ij->j", [A], [2], [4, 6]),
                ("ii->", [A], [], 5),
                ("ii", [A], [], 5),
                ("ii->i", [A], [2], [1, 4]),
                ("i->ii", [[7, 8]], [2, 2], [[7, 0], [0, 8]]),
                ("i,j->ij", [[1, 2], [3, 4, 5]], [2, 3], [[3, 4, 5], [6, 8, 10]]),
                ("i,i->", [[1, 2, 3], [4, 5, 6]], [], 32),
                ("i,i->i", [[1, 2, 3], [4, 5, 6]], [3], [4, 10, 18]),
                (",->", [3, 4], [], 12),
                (",ij->ij", [3, A], [2, 2], [[3, 6], [9, 12]]),
                ("->", [7], [], 7),
                ("...ij->...ji", [[A, B]], [2, 2, 2], [[[1, 3], [2, 4]], [[5, 7], [6, 8]]]),
                ("...ij,...jk->...ik", [[A, B], B], [2, 2, 2], [AB, [[67, 78], [91, 106]]]),
                ("...,...->...", [[[1], [2]], [10, 20]], [2, 2], [[10, 20], [20, 40]]),
                ("ij,jk,kl->il", [A, B, A], [2, 2], [[85, 126], [193, 286]]),
                ("αβ,βγ->αγ", [A, B], [2, 2], AB)):
            with self.subTest(equation=equation):
                reply = self.post("/v1/einsum", {"equation": equation, "inputs": inputs})
                self.assertOutput(reply, "int32", shape, data)

    def test_random_equations_agree_with_one_loop_over_all_labels(self):
        rng = random.Random(SEED)
        with Client(self.daemon) as client:
            for _ in range(150):
                extent = {c: rng.choice((1, 2, 3, 4)) for c in "abcde"}
                subscripts = ["".join(rng.sample("abcde", rng.randrange(0, 4))) for _ in range(rng.randrange(1, 5))]
                if rng.random() < 0.2 and subscripts[0]:
                    subscripts[0] += subscripts[0][0]
                used = sorted(set("".join(subscripts)))
                equation = ",".join(subscripts) + "->" + "".join(rng.sample(used, rng.randrange(len(used) + 1)))
                operands = [([extent[c] for c in s], [rng.randrange(-5, 6) for _ in range(math.prod(extent[c] for c in s))])
                            for s in subscripts]
                shape, values = einsum(equation, operands)
                for dtype in ("int64", "float64", "int8"):
                    want = [(v + 128) % 256 - 128 for v in values] if dtype == "int8" else values
                    body = {"equation": equation, "inputs": [tensor_of(dtype, *o) for o in operands], "response": "flat"}
                    reply = client.post("/v1/einsum", body)
                    with self.subTest(equation=equation, dtype=dtype):
                        self.assertOutput(reply, dtype, shape, want)

    def test_untyped_values_get_the_dtype_of_a_typed_sibling(self):
        identity = {"dtype": "float32", "data": [[1, 0], [0, 1]]}
        reply = self.post("/v1/einsum", {"equation": "ij,jk->ik", "inputs": [[[1, 2], [3, 4]], identity]})
        self.assertEqual((reply.status, reply.json()["output"]["dtype"]), (200, "float32"), reply.body)

    def test_the_equation_may_be_in_the_query_string(self):
        reply = self.post("/v1/einsum?equation=ij,jk-%3Eik", {"inputs": [A, B]})
        self.assertOutput(reply, "int32", [2, 2], AB)
        self.assertOutput(self.post("/v1/einsum?equation=ij,jk-%3Eik", MATMUL), "int32", [2, 2], AB)
        reply = self.post("/v1/einsum?equation=ij,jk-%3Eki", MATMUL)
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", attribute="equation")

    def test_integers_wrap_around_in_their_dtype(self):
        reply = self.post("/v1/einsum", {"equation": "i,i->", "inputs": [
            {"dtype": "int8", "data": [100, 1]}, {"dtype": "int8", "data": [3, 1]}]})
        self.assertOutput(reply, "int8", [], 45)
        reply = self.post("/v1/einsum", {"equation": "i->", "inputs": [{"dtype": "uint64", "data": [18446744073709551615, 3]}]})
        self.assertOutput(reply, "uint64", [], 2)

    def test_floats_of_every_width_and_complex_numbers(self):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            reply = self.post("/v1/einsum", {"equation": "ij,jk->ik", "inputs": [
                {"dtype": dtype, "data": A}, {"dtype": dtype, "data": B}]})
            self.assertOutput(reply, dtype, [2, 2], AB)
        for dtype in ("complex64", "complex128"):
            reply = self.post("/v1/einsum", {"equation": "i,i->", "inputs": [
                {"dtype": dtype, "data": [[1, 2], [0, 1]]}, {"dtype": dtype, "data": [[3, 4], [0, 1]]}]})
            self.assertOutput(reply, dtype, [], [-6, 10])  # (1+2i)(3+4i) + i·i, without conjugation

    def test_nan_and_infinities_are_computed(self):
        reply = self.post("/v1/einsum", {"equation": "i,i->i", "inputs": [
            {"dtype": "float32", "data": ["NaN", "Infinity", "-Infinity", "Infinity"]}, [1.0, 2.0, 2.0, 0.0]]})
        self.assertOutput(reply, "float32", [4], ["NaN", "Infinity", "-Infinity", "NaN"])

    def test_empty_sums_are_zero_and_empty_outputs_are_empty(self):
        empty = {"dtype": "int32", "shape": [2, 0], "data": []}
        self.assertOutput(self.post("/v1/einsum", {"equation": "ij->i", "inputs": [empty]}), "int32", [2], [0, 0])
        self.assertOutput(self.post("/v1/einsum", {"equation": "ij,kj->ik", "inputs": [empty, empty]}), "int32", [2, 2],
                          [[0, 0], [0, 0]])
        self.assertOutput(self.post("/v1/einsum", {"equation": "ij->ji", "inputs": [empty]}), "int32", [0, 2], [])


class Refusals(HttpTest):
    def refused(self, status, code, equation, inputs, **members):
        reply = self.post("/v1/einsum", {"equation": equation, "inputs": inputs})
        with self.subTest(equation=equation):
            return self.assertProblem(reply, status, code, op="einsum", **members)

    def test_an_invalid_equation_is_reported_with_its_column(self):
        for equation, offset in (("ij,jk-ik", 6), ("ij,jk>ik", 5), ("ij,jk->ik->", 9), ("i..j->ij", 3), ("...i...->i", 4),
                                 ("ij->ik", 5), ("ij->i,j", 5), ("ij->ij.", 7)):
            self.refused(422, "INVALID_EQUATION", equation, [A] * (equation.split("-")[0].count(",") + 1), offset=offset)

    def test_shape_mismatches_are_reported(self):
        self.refused(422, "SHAPE_MISMATCH", "ij,jk->ik", [A, [[1, 2], [3, 4], [5, 6]]], label="j", extents=[2, 3],
                     shapes={"inputs[0]": [2, 2], "inputs[1]": [3, 2]})
        self.refused(422, "SHAPE_MISMATCH", "ijk->i", [A])
        self.refused(422, "SHAPE_MISMATCH", "ii->i", [[[1, 2, 3], [4, 5, 6]]])
        self.refused(422, "SHAPE_MISMATCH", "ij,jk->ik", [A, [[1, 2]]])  # labels do not broadcast
        self.refused(422, "SHAPE_MISMATCH", "...,...->...", [[1, 2], [1, 2, 3]])

    def test_invalid_arguments_are_reported(self):
        self.refused(422, "INVALID_ARGUMENT", "ij,jk->ik", [A])
        self.refused(422, "INVALID_ARGUMENT", "ij->ij", [A, B])
        self.refused(422, "INVALID_ARGUMENT", "...i->i", [A])
        self.refused(422, "INVALID_ARGUMENT", "ij->ij", [])
        self.refused(422, "INVALID_ARGUMENT", "i,i->i", [
            {"dtype": "int32", "data": [1, 2]}, {"dtype": "float32", "data": [1.5, 2.5]}], input="inputs[1]")
        self.refused(422, "INVALID_ARGUMENT", ",".join(["i"] * 17), [[1]] * 17)
        self.assertProblem(self.post("/v1/einsum", {"inputs": [A]}), 422, "INVALID_ARGUMENT", attribute="equation")
        self.assertProblem(self.post("/v1/einsum", {"equation": "ij->ij"}), 422, "INVALID_ARGUMENT", input="inputs")

    def test_dtypes_without_arithmetic_are_unsupported(self):
        self.refused(422, "UNSUPPORTED_DTYPE", "i->", [["a", "b"]], input="inputs[0]")
        self.refused(422, "UNSUPPORTED_DTYPE", "i,i->", [[1, 2], [True, False]], input="inputs[1]")

    def test_malformed_requests_are_reported_with_a_pointer(self):
        for body, pointer in (({"equation": 3, "inputs": [A]}, "/equation"), ({"equation": "ij", "inputs": 3}, "/inputs"),
                              ({"equation": "ij", "inputs": [A, [[1, 2], [3]]]}, "/inputs/1/1"),
                              ({"equation": "i\0j", "inputs": [A]}, "/equation"),
                              ({"equation": "ij", "input": [A]}, "/input")):
            with self.subTest(body=body):
                self.assertProblem(self.post("/v1/einsum", body), 400, "MALFORMED_REQUEST", pointer=pointer)

    def test_an_output_of_too_high_a_rank_is_a_resource_limit(self):
        labels = "abcdefghijklmnopqr"
        reply = self.post("/v1/einsum", {"equation": ",".join(labels[:16]) + "->" + labels[:16], "inputs": [[1]] * 16})
        self.assertStatus(reply, 200)
        nested = [[[[[[[[[1]]]]]]]]]  # rank 9
        self.refused(422, "RESOURCE_LIMIT", "abcdefghi,jklmnopqr->abcdefghijklmnopqr", [nested, nested], resource="rank")


class Binary(HttpTest):
    ONES = {"inputs.0": ("float32", (2, 2), pack("float32", [1, 2, 3, 4])), "inputs.1": ("float32", (2, 2), pack("float32", [5, 6, 7, 8]))}
    RESULT = ("float32", (2, 2), pack("float32", [19, 22, 43, 50]))

    def test_inputs_are_numbered_and_the_equation_is_metadata(self):
        body = safetensors(self.ONES, {"equation": "ij,jk->ik"})
        self.assertBinary(self.post("/v1/einsum", body, BINARY), *self.RESULT)

    def test_the_equation_may_be_in_the_query_string(self):
        body = safetensors(self.ONES)
        self.assertBinary(self.post("/v1/einsum?equation=ij%2Cjk-%3Eik", body, BINARY), *self.RESULT)
        body = safetensors(self.ONES, {"equation": "ij,jk->ki"})
        self.assertProblem(self.post("/v1/einsum?equation=ij%2Cjk-%3Eik", body, BINARY), 400, "MALFORMED_REQUEST")

    def test_inputs_are_ordered_by_number_not_by_offset(self):
        swapped = {"inputs.1": self.ONES["inputs.0"], "inputs.0": self.ONES["inputs.1"]}
        reply = self.post("/v1/einsum?equation=ij,jk", safetensors(swapped), BINARY)
        self.assertBinary(reply, "float32", (2, 2), pack("float32", [23, 34, 31, 46]))

    def test_a_gap_in_the_numbers_is_refused(self):
        body = safetensors({"inputs.0": self.ONES["inputs.0"], "inputs.2": self.ONES["inputs.1"]})
        self.assertProblem(self.post("/v1/einsum?equation=ij,jk", body, BINARY), 400, "MALFORMED_REQUEST")

    def test_accept_selects_the_other_format(self):
        reply = self.post("/v1/einsum?equation=ij,jk", safetensors(self.ONES), {**BINARY, "Accept": JSON})
        self.assertOutput(reply, "float32", [2, 2], AB)
        reply = self.post("/v1/einsum", MATMUL, {"Accept": SAFETENSORS})
        self.assertBinary(reply, "int32", (2, 2), pack("int32", [19, 22, 43, 50]))

    def test_unaligned_inputs_have_the_same_result(self):
        for pad in range(8):
            body = safetensors(self.ONES, {"equation": "ij,jk->ik"}, pad=pad)
            self.assertBinary(self.post("/v1/einsum", body, BINARY), *self.RESULT)


class Refs(HttpTest):
    options = ("--data-dir", TABLES)

    def test_resident_tensors_are_inputs(self):
        reply = self.post("/v1/einsum", {"equation": "ij,jk->ik", "inputs": [{"ref": "a"}, {"ref": "model:w"}]})
        self.assertOutput(reply, "float32", [2, 2], AB)
        reply = self.post("/v1/einsum", {"equation": "ij,j->i", "inputs": [{"ref": "a"}, [1.0, 10.5]]})
        self.assertOutput(reply, "float32", [2], [22, 45])
        reply = self.post("/v1/einsum", {"equation": "ij,jk->ik", "inputs": [{"ref": "a"}, {"ref": "a"}]})
        self.assertOutput(reply, "float32", [2, 2], [[7, 10], [15, 22]])

    def test_a_ref_in_metadata_is_an_input_of_the_list(self):
        body = safetensors({"inputs.0": ("float32", (2, 2), pack("float32", [1, 2, 3, 4]))},
                           {"equation": "ij,jk->ik", "inputs.1.ref": "model:w"})
        self.assertBinary(self.post("/v1/einsum", body, BINARY), *Binary.RESULT)

    def test_an_unknown_ref_is_named(self):
        reply = self.post("/v1/einsum", {"equation": "ij->ji", "inputs": [{"ref": "b"}]})
        self.assertProblem(reply, 404, "TENSOR_NOT_FOUND", input="inputs[0]", pointer="/inputs/0/ref")
        body = safetensors({"inputs.0": ("float32", (1,), pack("float32", [1]))}, {"equation": "i,j->ij", "inputs.1.ref": "b"})
        self.assertProblem(self.post("/v1/einsum", body, BINARY), 404, "TENSOR_NOT_FOUND", input="inputs[1]")


class Plan(HttpTest):
    options = ("--workers", "2")

    def plan(self, equation, *shapes, **members):
        reply = self.post("/v1/einsum/plan", {"equation": equation, "shapes": list(shapes), **members})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.type, JSON)
        return reply.json()

    def refused(self, status, code, body, headers=None, **members):
        reply = self.post("/v1/einsum/plan", body, headers)
        with self.subTest(body=body if len(str(body)) < 200 else "..."):
            return self.assertProblem(reply, status, code, op="einsum", **members)

    def test_options_of_an_output_that_is_not_sent_are_refused(self):
        body = {"equation": "i->", "shapes": [[3]]}
        for query in ("response=flat", "store=x", "store.ttl_s=5"):
            with self.subTest(query):
                reply = self.post("/v1/einsum/plan?" + query, body)
                problem = self.assertProblem(reply, 400, "MALFORMED_REQUEST", attribute=query.partition("=")[0])
                self.assertTrue(problem["detail"].endswith("; expected equation, device, timing"), problem["detail"])
        self.assertIn("Server-Timing", self.post("/v1/einsum/plan?timing=1&device=cpu", body).headers)

    def test_a_product_of_matrices(self):
        plan = self.plan("ij,jk->ik", [100, 20], [20, 50])
        self.assertEqual(plan["output"], {"dtype": "float32", "shape": [100, 50], "bytes": 20000})
        self.assertEqual(plan["path"], [[0, 1]])
        self.assertEqual(plan["flops"], 2 * 100 * 20 * 50)
        self.assertEqual(plan["naive_flops"], 2 * 100 * 20 * 50)
        self.assertEqual(plan["largest_intermediate"], {"elements": 5000, "bytes": 20000})
        self.assertEqual(plan["limits"]["max_flops"], 10**13)
        self.assertEqual((plan["exceeds"], plan["admitted"]), ([], True))
        [step] = plan["steps"]
        self.assertEqual((step["operands"], step["result"], step["equation"], step["kind"]), ([0, 1], 2, "ij,jk->ik", "gemm"))
        self.assertEqual((step["batch"], {step["m"], step["n"]}, step["k"]), (1, {100, 50}, 20))
        self.assertEqual((step["flops"], step["dtype"], step["shape"], step["bytes"]), (200000, "float32", [100, 50], 20000))

    def test_a_chain_is_contracted_in_the_cheapest_order(self):
        plan = self.plan("ij,jk,kl->il", [10, 100], [100, 5], [5, 50])
        self.assertEqual((plan["path"], plan["flops"]), ([[0, 1], [0, 1]], 2 * 10 * 100 * 5 + 2 * 10 * 5 * 50))
        self.assertEqual(plan["naive_flops"], 3 * 10 * 100 * 5 * 50)
        self.assertEqual(plan["largest_intermediate"]["elements"], 500)
        plan = self.plan("ij,jk,kl->il", [100, 5], [5, 50], [50, 2])
        self.assertEqual((plan["path"], plan["flops"]), ([[1, 2], [0, 1]], 2 * 5 * 50 * 2 + 2 * 100 * 5 * 2))

    def test_every_step_uses_results_of_earlier_steps(self):
        plan = self.plan("ab,bc,cd,de,ef->af", [30, 35], [35, 15], [15, 5], [5, 10], [10, 20], dtype="float64")
        known = {0: [30, 35], 1: [35, 15], 2: [15, 5], 3: [5, 10], 4: [10, 20]}
        total = 0
        for number, step in enumerate(plan["steps"]):
            self.assertEqual(step["result"], 5 + number)
            left, right = step["equation"].split("->")
            extent = {}
            for operand, subscript in zip(step["operands"], left.split(",")):
                extent.update(zip(subscript, known.pop(operand)))
            self.assertEqual(step["shape"], [extent[c] for c in right])
            self.assertEqual(step["bytes"], 8 * math.prod(step["shape"]))
            known[step["result"]] = step["shape"]
            total += step["flops"]
        self.assertEqual(list(known.values()), [[30, 20]])
        self.assertEqual(total, plan["flops"])

    def test_one_input_has_a_path_of_one_step(self):
        plan = self.plan("ij->ji", [3, 4])
        self.assertEqual((plan["path"], [s["kind"] for s in plan["steps"]]), ([[0]], ["permute"]))
        self.assertNotIn("m", plan["steps"][0])
        self.assertEqual([s["kind"] for s in self.plan("ij->", [3, 4])["steps"]], ["sumprod"])

    def test_the_dtype_determines_the_bytes(self):
        for dtype, size in (("float32", 4), ("float64", 8), ("complex128", 16), ("int8", 1), ("float16", 2)):
            plan = self.plan("ij,jk->ik", [100, 20], [20, 50], dtype=dtype)
            self.assertEqual(plan["output"], {"dtype": dtype, "shape": [100, 50], "bytes": size * 5000})

    def test_counts_keep_every_digit_and_stop_at_64_bits(self):
        self.assertEqual(self.plan("i,i->", [9007199254740993], [9007199254740993])["flops"], 2 * 9007199254740993)
        n = 1900000  # n cubed is just below 2^63
        plan = self.plan("ij,jk,kl->il", [n, n], [n, n], [n, n])
        self.assertEqual([step["flops"] for step in plan["steps"]], [2 * n**3] * 2)
        self.assertEqual((plan["flops"], plan["naive_flops"]), (2**64 - 1, 2**64 - 1))
        self.assertEqual((plan["admitted"], plan["exceeds"]), (False, ["flops", "output_bytes", "workspace_bytes"]))
        self.refused(422, "RESOURCE_LIMIT", {"equation": "ij,jk->ik", "shapes": [[2**22, 2**22]] * 2}, resource="flops")

    def test_a_plan_above_a_limit_names_the_limit(self):
        with Daemon("--max-flops", "2000", "--max-output", "4K", "--memory-limit", "1M") as daemon, Client(daemon) as client:
            for shapes, exceeds in (([[5, 10], [10, 10]], []), ([[5, 10], [10, 21]], ["flops"]),
                                    ([[41, 1], [1, 26]], ["output_bytes"]), ([[41, 10], [10, 26]], ["flops", "output_bytes"])):
                body = {"equation": "ij,jk->ik", "shapes": shapes}
                plan = client.post("/v1/einsum/plan", body).json()
                self.assertEqual((plan["exceeds"], plan["admitted"]), (exceeds, not exceeds), str(plan))
                self.assertEqual(plan["limits"], {"max_flops": 2000, "max_output": 4096, "memory_limit": 1 << 20})
                inputs = [tensor_of("float32", s, [0] * math.prod(s)) for s in shapes]
                reply = client.post("/v1/einsum", {"equation": "ij,jk->ik", "inputs": inputs})
                self.assertEqual(reply.status, 422 if exceeds else 200, str(reply))

    def test_empty_outputs_cost_nothing(self):
        plan = self.plan("ij,jk->ik", [0, 3], [3, 4])
        self.assertEqual((plan["output"]["shape"], plan["path"], plan["steps"], plan["admitted"]), ([0, 4], [], [], True))
        self.assertEqual(self.plan("ij->j", [0, 3])["path"], [])

    def test_errors_are_those_of_the_op(self):
        for body in ({"equation": "ij,jk-ik", "shapes": [[2, 2], [2, 2]]}, {"equation": "ij->ik", "shapes": [[2, 2]]},
                     {"equation": "ij,jk->ik", "shapes": [[2, 2], [3, 2]]}, {"equation": "ij", "shapes": [[2]]},
                     {"equation": "ij,jk->ik", "shapes": [[2, 2]]}, {"equation": "...i->i", "shapes": [[2, 2]]},
                     {"equation": "i->", "shapes": [[2]], "dtype": "string"}, {"equation": "i->", "shapes": [[2]], "dtype": "bool"},
                     {"shapes": [[2]]}):
            dtype = body.get("dtype", "float32")
            fill = {"string": "", "bool": False}.get(dtype, 0)
            inputs = [tensor_of(dtype, s, [fill] * math.prod(s)) for s in body["shapes"]]
            run = {"inputs": inputs, **{k: v for k, v in body.items() if k == "equation"}}
            problems = []
            for path, sent in (("/v1/einsum", run), ("/v1/einsum/plan", body)):
                reply = self.post(path, sent)
                problems.append(self.assertAnyProblem(reply))
                problems[-1].pop("request_id")
            with self.subTest(body=body):
                self.assertEqual(*problems)

    def test_malformed_plan_requests_are_reported_with_a_pointer(self):
        matmul = {"equation": "ij,jk->ik", "shapes": [[2, 2], [2, 2]]}
        for body, pointer in ((matmul | {"shape": [[1]]}, "/shape"), (matmul | {"equation": 7}, "/equation"),
                              (matmul | {"equation": "a\0b"}, "/equation"), (matmul | {"shapes": 3}, "/shapes"),
                              (matmul | {"shapes": {"0": [2]}}, "/shapes"), (matmul | {"shapes": [[2, 2], 3]}, "/shapes/1"),
                              (matmul | {"shapes": [[2, -1], [2, 2]]}, "/shapes/0/1"),
                              (matmul | {"shapes": [[2, 2.5], [2, 2]]}, "/shapes/0/1"),
                              (matmul | {"shapes": [[2, 2], ["2", 2]]}, "/shapes/1/0"),
                              (matmul | {"shapes": [[2, 2], [None, 2]]}, "/shapes/1/0"),
                              (matmul | {"shapes": [[9223372036854775808, 2], [2, 2]]}, "/shapes/0/0"),
                              (matmul | {"dtype": "float33"}, "/dtype"), (matmul | {"dtype": 32}, "/dtype")):
            self.refused(400, "MALFORMED_REQUEST", body, pointer=pointer)
        self.refused(400, "MALFORMED_REQUEST", matmul | {"shape": 1}, did_you_mean="shapes")
        self.refused(400, "MALFORMED_REQUEST", matmul | {"dtype": "float23"}, did_you_mean="float32")
        for member in ("equation", "shapes", "dtype"):
            body = json.dumps({**matmul, "dtype": "int8"})
            twice = body[:-1] + f', "{member}": {json.dumps({**matmul, "dtype": "int8"}[member])}' + "}"
            self.refused(400, "MALFORMED_REQUEST", twice.encode(), pointer="/" + member)
        for text in (b"", b"[]", b"{", b'{"equation":"i"', b"null", b'{"equation":"i","shapes":[[1]]} x', b"\xff"):
            self.refused(400, "MALFORMED_REQUEST", text)

    def test_sizes_are_limited(self):
        self.refused(422, "INVALID_ARGUMENT", {"equation": "i", "shapes": []}, attribute="shapes")
        self.refused(422, "INVALID_ARGUMENT", {"equation": "i"}, attribute="shapes")
        self.refused(422, "INVALID_ARGUMENT", {"equation": ",".join("i" * 17), "shapes": [[1]] * 17}, pointer="/shapes/16")
        self.refused(422, "RESOURCE_LIMIT", {"equation": "i", "shapes": [[1] * 17]}, resource="rank", pointer="/shapes/0")
        self.refused(422, "RESOURCE_LIMIT", {"equation": "i->", "shapes": [[2**62]]}, resource="tensor_bytes", input="inputs[0]")
        self.refused(422, "RESOURCE_LIMIT", {"equation": "i,j->ij", "shapes": [[2**40], [2**40]]})

    def test_a_body_of_more_than_64_kib_is_too_large(self):
        body = json.dumps({"equation": "ij->ji", "shapes": [[2, 3]]}).encode()
        for size, status in ((65536, 200), (65537, 413)):
            reply = self.request("POST", "/v1/einsum/plan", body + b" " * (size - len(body)))
            self.assertStatus(reply, status)
        self.assertProblem(reply, 413, "PAYLOAD_TOO_LARGE", limit=65536)
        reply = self.request("POST", "/v1/einsum/plan", iter([body, b" " * 70000]))  # chunked: without a length
        self.assertProblem(reply, 413, "PAYLOAD_TOO_LARGE", limit=65536)

    def test_a_long_equation_is_accepted(self):
        self.refused(422, "SHAPE_MISMATCH", {"equation": "a" * 60000, "shapes": [[2, 3]]})
        plan = self.plan("i" + " " * 60000 + "j", [2, 3])
        self.assertEqual(plan["output"]["shape"], [2, 3])

    def test_sixteen_inputs_of_many_labels_are_planned(self):
        letters = [chr(0x3b1 + i) for i in range(16)] + [chr(0x430 + i) for i in range(240)]
        subscripts = ["".join(letters[(7 * i + k) % 60] for k in range(16)) for i in range(16)]
        reply = self.post("/v1/einsum/plan", {"equation": ",".join(subscripts) + "->", "shapes": [[2] * 16] * 16})
        self.assertStatus(reply, 200)
        self.assertEqual(len(reply.json()["path"]), 15)

    def test_only_post_with_json(self):
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            reply = self.request(method, "/v1/einsum/plan")
            self.assertStatus(reply, 405)
            self.assertEqual(reply.headers["Allow"], "POST")
        self.refused(415, "UNSUPPORTED_MEDIA_TYPE", safetensors({}), BINARY)
        self.refused(415, "UNSUPPORTED_MEDIA_TYPE", b"{}", {"Content-Type": "text/xml"})
        for path in ("/v1/einsum/plans", "/v1/einsum/plan/", "/v1/gather/plan"):
            self.assertProblem(self.post(path, {}), 404, "NOT_FOUND")

    def test_the_equation_may_be_in_the_query_string(self):
        reply = self.post("/v1/einsum/plan?equation=ij-%3Eji", {"shapes": [[2, 3]]})
        self.assertEqual(reply.json()["output"]["shape"], [3, 2])
        reply = self.post("/v1/einsum/plan?equation=ij-%3Eji", {"equation": "ij->ij", "shapes": [[2, 3]]})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", attribute="equation")
        self.assertProblem(self.post("/v1/einsum/plan?shapes=2", {"shapes": [[2, 3]]}), 400, "MALFORMED_REQUEST")

    def test_an_absent_device_is_refused_as_by_the_op(self):
        body = {"equation": "ij->ji", "shapes": [[2, 3]]}
        for device, code in (("gpu", "DEVICE_UNAVAILABLE"), ("tpu", "MALFORMED_REQUEST")):
            status = {"DEVICE_UNAVAILABLE": 503, "MALFORMED_REQUEST": 400}[code]
            plan = self.assertProblem(self.post(f"/v1/einsum/plan?device={device}", body), status, code)
            run = self.post(f"/v1/einsum?device={device}", {"equation": "ij->ji", "inputs": [[[1, 2, 3], [4, 5, 6]]]})
            self.assertEqual(plan["detail"], self.assertProblem(run, status, code)["detail"])
        for device in ("cpu", "auto"):
            self.assertStatus(self.post(f"/v1/einsum/plan?device={device}", body), 200)

    def test_compressed_bodies_are_read(self):
        import gzip
        body = gzip.compress(json.dumps({"equation": "ij->ji", "shapes": [[2, 3]]}).encode())
        reply = self.request("POST", "/v1/einsum/plan", body, {"Content-Encoding": "gzip"})
        self.assertEqual(reply.json()["output"]["shape"], [3, 2])
        body = gzip.compress(json.dumps({"equation": "ij->ji", "shapes": [[2, 3]]}).encode() + b" " * 70000)
        reply = self.request("POST", "/v1/einsum/plan", body, {"Content-Encoding": "gzip"})
        self.assertProblem(reply, 413, "PAYLOAD_TOO_LARGE", limit=65536)

    def test_the_description_of_the_op_names_the_plan(self):
        self.assertEqual(self.get("/v1/ops/einsum").json()["plan"], "POST /v1/einsum/plan")
        self.assertNotIn("plan", self.get("/v1/ops/gather").json())

    def test_mutated_requests_are_harmless(self):
        rng = random.Random(SEED)
        whole = json.dumps({"equation": "ij,jk,kl->il", "shapes": [[10, 100], [100, 5], [5, 50]], "dtype": "float64"}).encode()
        with Client(self.daemon) as client:
            for _ in range(500):
                body = bytearray(whole)
                for _ in range(rng.randrange(1, 4)):
                    at = rng.randrange(len(body))
                    body[at:at + rng.randrange(3)] = rng.choice((b"", b"9" * 30, b"[", b"]", b'"', b"->", b"-", b"\\", b"...", b"\xc3", b","))
                reply = client.post("/v1/einsum/plan", bytes(body), {"Content-Type": JSON})
                if reply.status != 200:
                    self.assertIn(reply.status, (400, 422))
                    self.assertAnyProblem(reply)


class Limits(HttpTest):
    def test_flops_above_the_limit_are_refused_with_both_numbers(self):
        with Daemon("--max-flops", "1999", "--data-dir", TABLES) as daemon, Client(daemon) as client:
            body = {"equation": "ij,jk->ik", "inputs": [[[1] * 10] * 10] * 2}
            problem = self.assertProblem(client.post("/v1/einsum", body), 422, "RESOURCE_LIMIT", resource="flops", needed=2000, limit=1999)
            self.assertIn("2000", problem["detail"])
            body = {"equation": "ij,jk->ik", "inputs": [{"ref": "large"}, {"ref": "large"}]}
            reply = client.post("/v1/einsum", body)
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="flops", needed=2 * SIDE**3, limit=1999)
            self.assertServes(client)

    def test_an_output_above_the_memory_limit_is_refused_before_it_is_allocated(self):
        with Daemon("--memory-limit", "32M", "--data-dir", TABLES) as daemon, Client(daemon) as client:
            body = {"equation": "ij,jk->ik", "inputs": [{"ref": "large"}, {"ref": "large"}]}  # an output of 64 MB
            problem = self.assertProblem(client.post("/v1/einsum", body), 422, "RESOURCE_LIMIT", limit=32 << 20)
            self.assertGreaterEqual(problem["needed"], 4 * SIDE * SIDE)
            memory = client.request("GET", "/readyz").json()["memory"]
            self.assertLess(memory["in_use"], 4 << 20)
            body = {"equation": "ij,jk,kl->", "inputs": [{"ref": "large"}] * 3}
            reply = client.post("/v1/einsum", body)
            self.assertIn(reply.status, (200, 422), str(reply))
            self.assertServes(client)


class LongComputations(HttpTest):
    """each stops between two of its parts"""
    options = ("--data-dir", TABLES, "--isa", "generic", "--workers", "1", "--inline-limit-us", "0")
    gated = True
    BODY = json.dumps({"equation": "ij,jk,kl->il", "inputs": [{"ref": "middle"}] * 3}).encode()

    def test_a_computation_ends_at_its_deadline(self):
        for path in ("/v1/einsum", "/v1/einsum?response=base64"):
            with self.daemon.gates.closed("check") as gate, Raw(self.daemon) as raw:
                raw.send(http_request("POST", path, self.BODY, ["X-Request-Timeout-Ms: 300000"]))
                gate.arrival()
                self.daemon.clock.advance(301)
                gate.let_pass()
                gate.arrivals[0].release()
                problem = self.assertProblem(raw.reply(), 504, "DEADLINE_EXCEEDED", op="einsum")
                self.assertIn("while einsum was being computed", problem["detail"])

    def test_lookups_are_served_during_a_computation(self):
        with GatedDaemon("--data-dir", TABLES, "--workers", "1") as daemon, Raw(daemon) as raw, Client(daemon) as client, \
                daemon.gates.closed("check") as gate:
            raw.send(http_request("POST", "/v1/einsum", self.BODY))
            gate.arrival()
            gate.let_pass()
            for _ in range(50):
                self.assertServes(client)  # by an I/O thread
            gate.open()
            self.assertStatus(raw.reply(), 200)

    def test_a_worker_serves_lookups_between_the_parts_of_a_computation(self):
        with self.daemon.gates.closed("check") as gate, Raw(self.daemon) as raw, Raw(self.daemon) as lookup:
            raw.send(http_request("POST", "/v1/einsum", self.BODY))
            part = gate.arrival()
            lookup.send(http_request("POST", "/v1/gather", b'{"params":[10,20,30],"indices":[2,0]}'))
            self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == 1)
            part.release()
            while "/v1/gather" in (part := gate.arrival()).what:  # it has parts, too
                part.release()
            self.assertOutput(lookup.reply(), "int32", [2], [30, 10])
            gate.open()
            self.assertStatus(raw.reply(), 200)


class SameBytes(HttpTest):
    """for any number of workers and concurrent requests"""

    @staticmethod
    def requests():
        rng = random.Random(SEED)
        out = []
        for dtype, equation, *shapes in (
                ("float32", "ij,jk->ik", (200, 150), (150, 130)), ("float64", "ij,jk->ik", (97, 301), (301, 64)),
                ("float16", "bij,bjk->bik", (6, 40, 50), (6, 50, 60)), ("float32", "bqhd,bkhd->bhqk", (2, 33, 4, 16), (2, 29, 4, 16)),
                ("float32", "ij->", (300, 1000)), ("float32", "ij->j", (1000, 300)), ("float32", "i,i->", (200000,), (200000,)),
                ("float32", "ij,j->i", (500, 700), (700,)), ("int32", "ij,jk->ik", (100, 110), (110, 90)),
                ("int8", "ij,kj->ik", (64, 300), (70, 300)), ("float32", "ijk->kji", (70, 80, 90)),
                ("float32", "ij,jk,kl,lm->im", (60, 70), (70, 80), (80, 90), (90, 50)),
                ("complex64", "ij,jk->ik", (60, 70), (70, 50)), ("bfloat16", "ij,jk->ik", (120, 200), (200, 64)),
                ("float32", "ii->i", (400, 400)), ("float32", "ij,jk->ik", (8, 8), (8, 8))):
            tensors = {}
            for i, shape in enumerate(shapes):
                n = math.prod(shape)
                if dtype in ("float32", "float64", "float16"):
                    raw = pack(dtype, [rng.uniform(-1, 1) for _ in range(n)])
                elif dtype == "complex64":
                    raw = pack("float32", [rng.uniform(-1, 1) for _ in range(2 * n)])
                elif dtype == "bfloat16":
                    raw = b"".join(pack("float32", [rng.uniform(-1, 1)])[2:] for _ in range(n))
                else:
                    raw = rng.randbytes(n * SIZES[dtype])
                tensors[f"inputs.{i}"] = (dtype, shape, raw)
            out.append(safetensors(tensors, {"equation": equation}))
        return out

    def replies(self, daemon, bodies):
        with Client(daemon) as client:
            out = []
            for body in bodies:
                reply = client.post("/v1/einsum", body, BINARY)
                self.assertStatus(reply, 200)
                out.append(reply.body)
            return out

    def test_at_every_number_of_workers_and_on_an_io_thread(self):
        bodies = self.requests()
        reference = self.replies(shared("--workers", "1"), bodies)
        for options in (("--workers", "2"), ("--workers", "4"), ("--workers", "7", "--inline-limit-us", "0"),
                        ("--workers", "2", "--inline-limit-us", "1000000")):
            for body, got, want in zip(bodies, self.replies(shared(*options), bodies), reference):
                self.assertTrue(got == want, f"{options}: {body[8:300]!r}")

    def test_with_many_concurrent_clients(self):
        bodies = self.requests()
        daemon = shared("--workers", "4")
        reference = self.replies(daemon, bodies)
        failures = []

        def work(i):
            rng = random.Random(f"{SEED} {i}")
            try:
                with Client(daemon, timeout=3 * WAIT_LIMIT) as client:
                    for _ in range(40):
                        k = i % len(bodies) if i < 4 and rng.random() < 0.5 else rng.randrange(len(bodies))
                        reply = client.post("/v1/einsum", bodies[k], BINARY)
                        self.assertStatus(reply, 200)
                        self.assertTrue(reply.body == reference[k], f"request {k} got another reply")
            except Exception as e:  # raised again below
                failures.append(e)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

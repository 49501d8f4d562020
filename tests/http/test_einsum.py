"""What HTTP adds to einsum, and to POST /v1/einsum/plan, which returns its steps and costs. Results and refusals are tested in process:
tests/conformance/test_cases.c, tests/kernels/einsum/, tests/api/test_plan.c."""
import math, os, random
from daemon import *
from gates import GatedDaemon

TABLES = temporary_folder()
BINARY = {"Content-Type": SAFETENSORS}
A, B = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
AB = [[19, 22], [43, 50]]
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


def tensor_of(dtype, shape, values):
    return {"dtype": dtype, "shape": list(shape), "data": list(values)}


class Json(HttpTest):
    def test_the_example_of_the_description_has_exactly_this_reply(self):
        example = self.get("/v1/ops/einsum").json()["example"]
        self.assertEqual(example["endpoint"], "POST /v1/einsum")
        reply = self.post("/v1/einsum", example["request"])
        self.assertEqual(reply.body.strip(), b'{"output":{"dtype":"int32","shape":[2,2],"data":[[19,22],[43,50]]}}')

    def test_the_description_says_the_way_out_of_sums_that_wrap_around(self):
        inputs = self.get("/v1/ops/einsum").json()["inputs"][0]
        self.assertIn("cast the inputs to int64 or float64", inputs["summary"])


class Refusals(HttpTest):
    def test_a_shape_mismatch_has_the_label_and_both_shapes(self):
        reply = self.post("/v1/einsum", {"equation": "ij,jk->ik", "inputs": [A, [[1, 2], [3, 4], [5, 6]]]})
        self.assertProblem(reply, 422, "SHAPE_MISMATCH", op="einsum", label="j", extents=[2, 3],
                           shapes={"inputs[0]": [2, 2], "inputs[1]": [3, 2]})


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
        self.assertBinary(self.post("/v1/einsum", body, BINARY), "float32", (2, 2), pack("float32", [19, 22, 43, 50]))

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

        def work(i):
            rng = random.Random(f"{SEED} {i}")
            with Client(daemon, timeout=3 * WAIT_LIMIT) as client:
                for _ in range(40):
                    k = i % len(bodies) if i < 4 and rng.random() < 0.5 else rng.randrange(len(bodies))
                    reply = client.post("/v1/einsum", bodies[k], BINARY)
                    self.assertStatus(reply, 200)
                    self.assertTrue(reply.body == reference[k], f"request {k} got another reply")
        in_threads(8, work)

"""/v2: health, inference in JSON and binary, statistics; without a client library. How requests are read and replies written is tested in
process: tests/api/oip/."""
import time
from gates import GatedDaemon
from oip_client import *

STATS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


class Health(OipTest):
    def test_health_has_bodies_with_live_and_ready(self):
        for path, body in (("/v2/health/live", {"live": True}), ("/v2/health/ready", {"ready": True, "live": True}),
                           ("/v2/models/gather/ready", {"name": "gather", "ready": True}),
                           ("/v2/models/einsum/versions/1/ready", {"name": "einsum", "ready": True})):
            with self.subTest(path):
                reply = self.get(path)
                self.assertStatus(reply, 200)
                self.assertEqual(reply.headers["Content-Type"], JSON)
                self.assertEqual(reply.json(), body)

    def test_head_has_the_headers_of_get_without_the_body(self):
        for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/gather", "/v2/models/gather/ready",
                     "/v2/models/gather/config", "/v2/models/einsum/versions/1"):
            with self.subTest(path), Raw(self.daemon) as raw:
                raw.send(http_request("HEAD", path))
                head = raw.reply(head=True)
                self.assertEqual((head.status, head.body), (200, b""))
                self.assertEqual(int(head.headers["Content-Length"]), len(self.get(path).body))

    def test_while_draining_ready_is_503_and_requests_are_served(self):
        with Daemon("--drain-delay-ms=3600000") as daemon:
            with Client(daemon) as client:
                self.assertEqual(client.request("GET", "/v2/health/ready").status, 200)
                daemon.send_signal()
                daemon.wait_log(lambda e: e.get("event") == "draining")
                for path in ("/v2/health/ready", "/v2/models/gather/ready"):
                    self.assertError(client.request("GET", path), 503, code="DRAINING")
                self.assertEqual(client.request("GET", "/v2/health/live").json(), {"live": True})
                reply = client.request("POST", "/v2/models/gather/infer", b"{}")
                self.assertError(reply, 400, code="INVALID_ARGUMENT")
                self.assertEqual(reply.headers["Connection"], "close")
            daemon.send_signal()  # ends the delay
            self.assertEqual(daemon.wait(), 0)


class Documents(OipTest):
    def test_the_server_lists_its_extensions(self):
        for path in ("/v2", "/v2/", "/v2?any=thing"):
            document = self.get(path).json()
            self.assertEqual(document["name"], "tensord")
            self.assertRegex(document["version"], r"^\d+\.\d+\.\d+")
            self.assertLessEqual({"binary_tensor_data", "parameters", "model_repository", "model_configuration",
                                  "statistics", "schedule_policy"}, set(document["extensions"]))
            self.assertNotIn("system_shared_memory", document["extensions"])
            self.assertNotIn("classification", document["extensions"])


class Repository(OipTest):
    def test_a_request_without_tensors_logs_no_inputs_of_the_previous_request(self):
        # A call reuses the memory of the previous one, except large memory such as that of 4,000 tensors.
        lists = {"indices": [[i] for i in range(4000)], "data": [[i] for i in range(4000)]}
        with Daemon("--log-level=debug", "--io-threads=1", "--pool-limit=0") as daemon:
            with Client(daemon) as client:
                for action in ("load", "unload"):
                    self.assertStatus(client.post("/v1/dynamic_stitch", lists), 200)
                    self.assertEqual(client.post(f"/v2/repository/models/dynamic_stitch/{action}", {}).status,
                                     400 if action == "unload" else 200)
            logged = [daemon.wait_log(lambda e: e.get("path", "").endswith(f"/{action}")) for action in ("load", "unload")]
            for event in logged:
                self.assertNotIn("inputs", event)
            self.assertIn("indices[1]", daemon.wait_log(lambda e: e.get("path") == "/v1/dynamic_stitch")["inputs"])

    def test_unsupported_features_are_501(self):
        for method, path, word in (("GET", "/v2/trace/setting", "trace"), ("POST", "/v2/trace/setting", "trace"),
                                   ("GET", "/v2/models/gather/trace/setting", "trace"),
                                   ("POST", "/v2/models/gather/trace/setting", "trace"),
                                   ("GET", "/v2/logging", "log"), ("POST", "/v2/logging", "log")):
            self.assertError(self.request(method, path, b"{}" if method == "POST" else None), 501, word, code="NOT_SUPPORTED")
        self.assertError(self.get("/v2/models/nope/trace/setting"), 404, "nope")


class Inference(OipTest):
    def test_json_inputs_and_outputs(self):
        reply = self.infer("gather", self.gather_inputs())
        self.assertGathered(reply)
        self.assertEqual(reply.headers["Content-Type"], JSON)
        self.assertIsNone(reply.headers.get(HEADER))
        self.assertEqual(read_reply(reply)[0]["model_name"], "gather")

    def test_binary_inputs_and_outputs(self):
        for parameters, outputs in (({"binary_data_output": True}, None), (None, [wanted("output", binary_data=True)])):
            reply = self.infer("gather", self.gather_inputs(binary=True), outputs, parameters)
            self.assertGathered(reply)
            self.assertEqual(reply.headers["Content-Type"], OCTETS)
            self.assertIsInstance(self.outputs(reply)["output"][2], bytes)

    def test_versions_queries_and_other_headers_do_not_matter(self):
        for path in ("/infer", "/versions/1/infer", "/infer?a=1&b=%20", "/versions/1/infer?timeout=1&model_name=x"):
            self.assertGathered(self.infer("gather", self.gather_inputs(binary=True), path=path))
        for headers in ({"Content-Type": "text/plain"}, {"Accept": "image/png"}, {"Content-Type": OCTETS},
                        {"Content-Type": "application/vnd.safetensors"}, {"X-Any": "thing"}):
            for binary in (False, True):
                self.assertGathered(self.infer("gather", self.gather_inputs(binary=binary), headers=headers))
        body, _ = envelope(self.gather_inputs())
        with Raw(self.daemon) as raw:  # no Content-Type at all
            raw.send(http_request("POST", "/v2/models/gather/infer", body))
            self.assertGathered(raw.reply())

    def test_errors_leave_the_connection_usable(self):
        good, headers = envelope(self.gather_inputs(binary=True))
        bad, bad_headers = envelope(self.gather_inputs(indices=(99,), binary=True))
        with Client(self.daemon) as client:
            for _ in range(10):
                self.assertError(client.request("POST", "/v2/models/gather/infer", bad, bad_headers), 400, "99")
                self.assertError(client.request("POST", "/v2/models/nope/infer", good, headers), 404)
                self.assertError(client.request("POST", "/v2/models/gather/infer", b"{"), 400)
                self.assertGathered(client.request("POST", "/v2/models/gather/infer", good, headers))

    def test_a_resident_tensor_may_be_an_input(self):
        self.assertEqual(self.request("PUT", "/v1/tensors/oip-table", [[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]]).status, 201)
        indices = [oip_input("indices", "INT64", [2], pack("int64", [1, 0]))]
        reply = self.infer("gather", indices, parameters={"params.ref": "oip-table", "binary_data_output": True})
        self.assertGathered(reply)
        self.assertError(self.infer("gather", indices, parameters={"params.ref": "absent"}), 404, "absent")
        self.assertError(self.infer("gather", self.gather_inputs(), parameters={"params.ref": "oip-table"}), 400, "params")
        self.assertStatus(self.request("DELETE", "/v1/tensors/oip-table"), 204)

    def test_64_bit_integers_may_be_in_quotes(self):
        x = oip_input("x", "INT64", [2], [str(2**53 + 1), 1])
        document, _ = read_reply(self.infer("cast", [x], parameters={"dtype": "uint64"}))
        self.assertEqual(document["outputs"][0]["data"], [2**53 + 1, 1])
        self.assertError(self.infer("cast", [oip_input("x", "INT32", [1], ["1"])], parameters={"dtype": "uint64"}), 400, 'the string "1" is not INT32')

    def test_content_type_is_ignored_on_a_request_and_on_its_tensors(self):
        inputs = [{**tensor, "parameters": {**tensor.get("parameters", {}), "content_type": "np"}} for tensor in self.gather_inputs()]
        self.assertGathered(self.infer("gather", inputs, parameters={"content_type": "np"}))

    def test_an_attribute_among_the_parameters_of_a_tensor_is_refused(self):
        for name, value in (("axis", 0), ("bounds", "zero"), ("device", "cpu")):
            inputs = [{**tensor, "parameters": {**tensor.get("parameters", {}), name: value}} for tensor in self.gather_inputs()]
            self.assertError(self.infer("gather", inputs), 400, "belongs in the parameters of the request")
            outputs = [{"name": "output", "parameters": {name: value}}]
            self.assertError(self.infer("gather", self.gather_inputs(), outputs), 400, "belongs in the parameters of the request")

    def test_an_unknown_parameter_of_a_tensor_is_refused_with_those_that_are_known(self):
        def gather(on_input, on_output):
            inputs = [{**tensor, "parameters": on_input} for tensor in self.gather_inputs()]
            return self.infer("gather", inputs, [{"name": "output", "parameters": on_output}])
        common = "shared_memory_region, shared_memory_byte_size, shared_memory_offset, content_type"
        document = self.assertError(gather({"complx": True}, {}), 400, 'an input has no parameter "complx"; '
                                    f'expected binary_data_size, complex, {common}')
        self.assertEqual((document["did_you_mean"], document["pointer"]), ("complex", "/inputs/0/parameters/complx"))
        self.assertError(gather({}, {"complx": True}), 400,
                         f'an output has no parameter "complx"; expected binary_data, classification, {common}')
        self.assertError(gather({"binary_data": True}, {}), 400, 'an input has no parameter "binary_data"')
        self.assertError(gather({}, {"binary_data_size": 8}), 400, 'an output has no parameter "binary_data_size"')
        for name, value in (("binary_data_output", True), ("timeout", 5), ("headers", "x")):
            self.assertError(gather({name: value}, {}), 400, "belongs in the parameters of the request")
            self.assertError(gather({}, {name: value}), 400, "belongs in the parameters of the request")
        self.assertError(gather({}, {"complex": True}), 400, "belongs in the parameters of the request")
        self.assertGathered(gather({"content_type": "np"}, {"content_type": None, "classification": 0}))

    def assertMisplaced(self, reply, pointer, message, meant=None):
        document = self.assertError(reply, 400, code="MALFORMED_REQUEST")
        self.assertEqual((document["error"], document.get("pointer"), document.get("did_you_mean")), (message, pointer, meant))

    def test_a_parameter_outside_of_parameters_is_refused_at_its_place(self):
        belongs = 'gather: "{}" is a parameter of {}; it belongs in its member "parameters"'
        members = [("axis", "the request"), ("device", "the request"), ("complex", "the request"), ("binary_data_output", "the request"),
                   ("params.ref", "the request"), ("binary_data", "an output"), ("shared_memory_region", "an input")]
        for name, owner in members:
            self.assertMisplaced(self.infer("gather", self.gather_inputs(), **{name: 1}), f"/{name}", belongs.format(name, owner))
        for name, owner in (("axis", "the request"), ("params.ref", "the request"), ("complex", "an input"), ("binary_data_size", "an input"),
                            ("binary_data", "an output"), ("shared_memory_offset", "an input")):
            params, indices = self.gather_inputs()
            self.assertMisplaced(self.infer("gather", [params, {**indices, name: 1}]), f"/inputs/1/{name}",
                                 belongs.replace("gather", "gather: indices").format(name, owner))
        for name, owner in (("axis", "the request"), ("complex", "the request"), ("binary_data", "an output"), ("shared_memory_offset", "an output"),
                            ("binary_data_size", "an input")):
            outputs = [{"name": "output", name: 1}]
            self.assertMisplaced(self.infer("gather", self.gather_inputs(), outputs), f"/outputs/0/{name}", belongs.format(name, owner))
        x = [oip_input("x", "FP32", [2], [1, 2])]
        self.assertMisplaced(self.infer("top_k", x, parameters={"k": 1}, largest=False), "/largest", belongs.format("largest", "the request").replace("gather", "top_k"))
        self.assertGathered(self.infer("gather", self.gather_inputs(), largest=False))

    def test_a_misspelt_member_is_refused_at_its_place(self):
        of_request, of_input, of_output = "id, inputs, outputs, parameters", "name, datatype, shape, data, parameters", "name, parameters"
        for name, meant in (("parameter", "parameters"), ("params", "parameters"), ("param", "parameters"), ("Parameters", "parameters"),
                            ("output", "outputs"), ("input", "inputs"), ("ouputs", "outputs")):
            self.assertMisplaced(self.infer("gather", self.gather_inputs(), **{name: {"axis": 1}}), f"/{name}",
                                 f'gather: the request has no member "{name}"; expected {of_request}', meant)
        for name, meant in (("parameter", "parameters"), ("params", "parameters"), ("dtype", "datatype"), ("data_type", "datatype"), ("shap", "shape")):
            params, indices = self.gather_inputs()
            self.assertMisplaced(self.infer("gather", [params, {**indices, name: 1}]), f"/inputs/1/{name}",
                                 f'gather: indices: an input has no member "{name}"; expected {of_input}', meant)
        self.assertMisplaced(self.infer("gather", self.gather_inputs(), [{"name": "output", "parameter": {}}]), "/outputs/0/parameter",
                             f'gather: an output has no member "parameter"; expected {of_output}', "parameters")

    def test_an_input_beside_the_list_of_inputs_is_refused(self):
        self.assertMisplaced(self.infer("embedding_bag", self.gather_inputs(), weights=[1]), "/weights",
                             'embedding_bag: "weights" is an input; it belongs in the list "inputs"')

    def test_other_unknown_members_are_ignored(self):
        """the members that the protocol defines in its other form, those of its clients, and any others"""
        params, indices = self.gather_inputs()
        known = {"model_name": "x", "model_version": "2", "timeout": 1, "priority": 1, "sequence_id": 7, "sequence_start": True,
                 "sequence_end": True, "headers": {}, "content_type": "np", "uid": "1", "name": "x", "user": {"axis": [1]}}
        self.assertGathered(self.infer("gather", [params, {**indices, "content_type": "np", "user": {"axis": 1}, "id": 1}],
                                       [{"name": "output", "datatype": "FP32", "shape": [2, 2], "data": []}], **known))

    def test_a_parameter_in_the_query_string_is_refused(self):
        for name, owner in (("axis", "the request"), ("device", "the request"), ("params.ref", "the request"), ("binary_data_output", "the request"),
                            ("binary_data", "an output")):
            for path in ("/infer", "/versions/1/infer"):
                document = self.assertError(self.infer("gather", self.gather_inputs(), path=f"{path}?x=1&{name}=1"), 400, code="MALFORMED_REQUEST")
                self.assertEqual((document["attribute"], document["error"]),
                                 (name, f'gather: "{name}" is a parameter of {owner}; it belongs in the body, in the member "parameters" of {owner}, '
                                        'not in the query string'))
        self.assertGathered(self.infer("gather", self.gather_inputs(), path="/infer?largest=0&parameter=1"))

    def test_the_codec_base64_is_refused_since_its_text_is_not_the_value(self):
        keys = oip_input("params", "BYTES", [2], ["YQ==", "Yg=="], content_type="base64")
        inputs = [keys, oip_input("indices", "INT64", [1], [0])]
        self.assertError(self.infer("gather", inputs), 400, "use binary_data_size for bytes")
        keys = oip_input("params", "BYTES", [2], b"\1\0\0\0a\1\0\0\0\xff")
        inputs = [keys, oip_input("indices", "INT64", [1], [1])]
        self.assertError(self.infer("gather", inputs, [wanted("output", content_type="base64")]), 400,
                         "use binary_data for bytes")
        _, outputs = read_reply(self.infer("gather", inputs, [wanted("output", binary_data=True)]))
        self.assertEqual(outputs["output"], ("BYTES", [1], b"\1\0\0\0\xff"))

    def test_a_complex_output_sent_back_as_an_input_is_complex_again(self):
        square = {"equation": "i,i->i"}
        i = [0.0, 1.0]
        first = self.infer("einsum", [oip_input("inputs.0", "FP32", [1, 2], i), oip_input("inputs.1", "FP32", [1, 2], i)],
                           parameters={**square, "complex": True})
        output = read_reply(first)[0]["outputs"][0]
        self.assertEqual((output["data"], output["parameters"]), ([-1.0, 0.0], {"complex": True}))
        back = {**output, "name": "inputs.0"}
        one = oip_input("inputs.1", "FP32", [1, 2], i, complex=True)
        document, _ = read_reply(self.infer("einsum", [back, one], parameters=square))
        self.assertEqual((document["outputs"][0]["data"], document["outputs"][0]["parameters"]),
                         ([0.0, -1.0], {"complex": True}))

    def test_complex_on_an_input_is_about_this_input_alone(self):
        pair = oip_input("inputs.0", "FP32", [1, 2], [0.0, 1.0])
        real = oip_input("inputs.1", "FP32", [1], [3.0])
        times = {"equation": "i,i->i"}
        def refused(reply, sentence):
            self.assertEqual(self.assertError(reply, 400, sentence)["input"], "inputs.1")
        true, false = ({"parameters": {"complex": value}} for value in (True, False))
        refused(self.infer("einsum", [pair, {**real, **true}], parameters=times), "the last dimension must be 2")
        refused(self.infer("einsum", [pair, {**oip_input("inputs.1", "INT32", [1], [3]), **true}], parameters=times),
                "inputs.1 is INT32, but complex is true; complex numbers must be pairs of FP32 or FP64")
        refused(self.infer("einsum", [pair, real], parameters={**times, "complex": True}), "the last dimension must be 2")
        mixed = self.infer("einsum", [pair, {**real, **false}], parameters={**times, "complex": True})
        self.assertError(mixed, 400, "complex64")  # einsum has one dtype: each was read as it says

    def test_the_way_to_a_complex_output_says_what_it_does_to_inputs(self):
        real = oip_input("x", "FP32", [2], [1.0, 2.0])
        self.assertError(self.infer("cast", [real], parameters={"dtype": "complex64"}), 400, '\"complex\": false')
        document, _ = read_reply(self.infer("cast", [{**real, "parameters": {"complex": False}}], parameters={"dtype": "complex64", "complex": True}))
        self.assertEqual((document["outputs"][0]["shape"], document["outputs"][0]["data"]), ([2, 2], [1.0, 0.0, 2.0, 0.0]))

    def test_a_timeout_that_passes_in_the_queue_is_504(self):
        body, headers = envelope(self.gather_inputs(binary=True), parameters={"timeout": 300_000_000})
        request = http_request("POST", "/v2/models/gather/infer", body, [f"{k}: {v}" for k, v in headers.items()])
        with GatedDaemon("--workers=1", "--inline-limit-us=0", "--default-timeout-ms=86400000") as daemon:
            with daemon.gates.closed("compute") as gate, Raw(daemon) as computed, Raw(daemon) as queued:
                computed.send(request)
                gate.arrival()
                queued.send(request)
                self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                daemon.clock.advance(301)
                gate.open()
                self.assertGathered(computed.reply())
                # The timeout is in the body, which the worker decodes.
                self.assertError(queued.reply(), 504, "waited for a worker (the parameter timeout is 300000000 us)", code="DEADLINE_EXCEEDED")
            with Client(daemon) as client:
                self.assertGathered(client.request("POST", "/v2/models/gather/infer", body, headers))

    def test_a_full_queue_is_429(self):
        body, headers = envelope(self.gather_inputs(binary=True))
        request = http_request("POST", "/v2/models/gather/infer", body, [f"{k}: {v}" for k, v in headers.items()])
        with GatedDaemon("--workers=1", "--queue-limit=1", "--inline-limit-us=0") as daemon, Raw(daemon) as computed, Raw(daemon) as queued:
            with daemon.gates.closed("compute") as gate:
                computed.send(request)
                gate.arrival()
                queued.send(request)
                self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                with Client(daemon) as client:
                    refused = client.request("POST", "/v2/models/gather/infer", body, headers)
                self.assertError(refused, 429, code="QUEUE_FULL")
                self.assertGreaterEqual(int(refused.headers["Retry-After"]), 1)
            for reply in replies_of((computed, queued)):
                self.assertGathered(reply)


class Framing(OipTest):
    def test_chunked_bodies_are_read(self):
        body, headers = envelope(self.gather_inputs(binary=True))
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v2/models/gather/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                     + f"{HEADER}: {headers[HEADER]}\r\n\r\n".encode())
            for i in range(0, len(body), 7):
                raw.send(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]))
            raw.send(b"0\r\n\r\n")
            self.assertGathered(raw.reply())

    def test_expect_100_continue_is_answered(self):
        body, headers = envelope(self.gather_inputs(binary=True))
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v2/models/gather/infer", b"", ["Expect: 100-continue",
                     f"{HEADER}: {headers[HEADER]}"]).replace(b"Content-Length: 0", b"Content-Length: %d" % len(body)))
            while b"\r\n\r\n" not in raw.seen:
                self.assertTrue(raw.more())
            self.assertTrue(raw.seen.startswith(b"HTTP/1.1 100"))
            raw.take(raw.seen.index(b"\r\n\r\n") + 4)
            raw.send(body)
            self.assertGathered(raw.reply())

    def test_pipelined_requests_are_answered_in_order(self):
        body, headers = envelope(self.gather_inputs(binary=True))
        infer = http_request("POST", "/v2/models/gather/infer", body, [f"{HEADER}: {headers[HEADER]}"])
        with Raw(self.daemon) as raw:
            raw.send((infer + http_request("GET", "/v2/health/live") + http_request("GET", "/v2/models/nope")) * 5)
            for _ in range(5):
                self.assertGathered(raw.reply())
                self.assertEqual(raw.reply().json(), {"live": True})
                self.assertError(raw.reply(), 404)

    def test_errors_of_the_http_library_have_the_format_of_the_protocol(self):
        for request, status in ((b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400),
                                (b"GET /v2/models HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 40000 + b"\r\n\r\n", 431),
                                (b"POST /v2/models/gather/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400)):
            with self.subTest(request[:40]), Raw(self.daemon) as raw:
                raw.send(request)
                reply = raw.reply()
                self.assertEqual(reply.status, status, str(reply))
                self.assertEqual(reply.headers["Content-Type"], JSON)
                self.assertIsInstance(reply.json()["error"], str)
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v2/models/gather/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked"
                     b"\r\n\r\n{}")
            self.assertEqual(raw.reply().status, 400)
            self.assertFalse(raw.more())


class LargeBodies(OipTest):
    options = ("--max-body=1M",)

    def test_the_reply_to_a_body_above_the_limit_can_be_read(self):
        for path, of_v2 in (("/v2/models/gather/infer", True), ("/v1/gather", False)):
            for megabytes in (2, 64):
                with self.subTest(path=path, megabytes=megabytes), Raw(self.daemon) as raw:
                    size = megabytes << 20
                    raw.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
                    # The client sends the whole body before it reads; none of the sends may fail.
                    self.assertTrue(all(raw.send(bytes(1 << 16)) for _ in range(size >> 16)))
                    reply = raw.reply()
                    self.assertEqual(reply.status, 413, str(reply))
                    if of_v2:
                        self.assertEqual(self.assertError(reply, 413, "1048576")["limit"], 1 << 20)
                    else:
                        self.assertProblem(reply, 413, "PAYLOAD_TOO_LARGE", limit=1 << 20)
                    self.assertFalse(raw.more())

    def test_a_small_refused_body_leaves_the_connection_open(self):
        with Client(self.daemon) as client:
            for _ in range(3):
                self.assertError(client.request("POST", "/v2/models/nope/infer", bytes(50000)), 404)
                self.assertEqual(client.request("GET", "/v2/health/live").json(), {"live": True})


class Statistics(OipTest):
    def stats(self, path="/v2/models/gather/stats"):
        reply = self.get(path)
        self.assertStatus(reply, 200)
        return reply.json()["model_stats"]

    def test_there_is_one_entry_for_each_model(self):
        self.assertEqual([s["name"] for s in self.stats("/v2/models/stats")][-len(OPS):], OPS)
        self.assertEqual([s["name"] for s in self.stats("/v2/models/einsum/versions/1/stats")], ["einsum"])

    def test_calls_of_both_apis_are_counted(self):
        with Daemon("--workers=1") as daemon, Client(daemon) as client:
            def stats():
                return client.request("GET", "/v2/models/gather/stats").json()["model_stats"][0]
            before = stats()
            self.assertEqual(before["last_inference"], 0)
            self.assertEqual(before["batch_stats"], [])
            for key in STATS:
                self.assertEqual(before["inference_stats"][key], {"count": 0, "ns": 0})
            body, headers = envelope(self.gather_inputs(binary=True))
            bad, bad_headers = envelope(self.gather_inputs(indices=(9,), binary=True))
            v1 = {"params": [1, 2, 3], "indices": [0]}
            with Client(daemon) as one:  # failed requests are not inferences
                self.assertEqual(one.request("POST", "/v2/models/gather_nd/infer", b"{", {}).status, 400)
                failed = one.request("GET", "/v2/models/gather_nd/stats").json()["model_stats"][0]
            self.assertEqual(failed["inference_stats"]["fail"]["count"], 1)
            self.assertEqual(failed["last_inference"], 0)
            began_ms = int(time.time() * 1000)
            for i in range(1, 6):
                self.assertEqual(client.request("POST", "/v2/models/gather/infer", body, headers).status, 200)
                self.assertEqual(client.post("/v1/gather", v1).status, 200)
                self.assertEqual(client.request("POST", "/v2/models/gather/infer", bad, bad_headers).status, 400)
                self.assertEqual(client.post("/v1/gather", {"params": [1], "indices": [5]}).status, 422)
                self.assertEqual(client.post("/v1/gather", b"{").status, 400)
                now = stats()  # includes the reply that was read
                self.assertEqual(now["inference_stats"]["success"]["count"], 2 * i)
                self.assertEqual(now["inference_stats"]["fail"]["count"], 3 * i)
                self.assertEqual((now["inference_count"], now["execution_count"]), (2 * i, 2 * i))
                for key in ("queue", "compute_input", "compute_infer", "compute_output"):
                    self.assertEqual(now["inference_stats"][key]["count"], 2 * i)
            parts = sum(now["inference_stats"][k]["ns"] for k in ("queue", "compute_input", "compute_infer", "compute_output"))
            self.assertEqual(now["inference_stats"]["success"]["ns"], parts)
            self.assertGreater(parts, 0)
            self.assertLessEqual(began_ms - 20, now["last_inference"])  # the daemon's clock has ticks of some milliseconds
            self.assertLessEqual(now["last_inference"], time.time() * 1000)
            self.assertEqual([b["batch_size"] for b in now["batch_stats"]], [1])
            other = client.request("GET", "/v2/models/einsum/stats").json()["model_stats"][0]
            self.assertEqual(other["inference_count"], 0)

    def test_binary_outputs_of_some_kilobytes_are_encoded_inline(self):
        with Daemon() as daemon, Client(daemon) as client:
            def queued_ns():
                return client.request("GET", "/v2/models/gather/stats").json()["model_stats"][0]["inference_stats"]["queue"]["ns"]
            params = oip_input("params", "FP32", [64, 32], bytes(8192))
            indices = oip_input("indices", "INT32", [64], bytes(256))
            for binary in (True, False):  # as text it is large enough for a worker
                body, headers = envelope([params, indices], parameters={"binary_data_output": binary})
                self.assertEqual(client.request("POST", "/v2/models/gather/infer", body, headers).status, 200)
                self.assertEqual(queued_ns() > 0, not binary)

    def test_concurrent_calls_are_all_counted(self):
        with Daemon() as daemon:
            body, headers = envelope(self.gather_inputs(binary=True))
            def work(_):
                with Client(daemon) as client:
                    for _ in range(100):
                        self.assertGathered(client.request("POST", "/v2/models/gather/infer", body, headers))
            in_threads(8, work)
            with Client(daemon) as client:
                stats = client.request("GET", "/v2/models/gather/stats").json()["model_stats"][0]
            self.assertEqual(stats["inference_stats"]["success"]["count"], 800)

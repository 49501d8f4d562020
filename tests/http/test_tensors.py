"""Resident tensors: PUT, metadata, GET with ranges, replacement under load, DELETE."""
import gzip, http.client, itertools, os, random, re, resource
from daemon import *
from gates import GatedDaemon

NPY = "application/x-npy"


def read_npy(body):
    """a .npy file of version 1 -> (descr, shape, bytes), strictly"""
    assert body[:8] == b"\x93NUMPY\x01\x00", body[:16]
    length = struct.unpack_from("<H", body, 8)[0]
    header = eval(body[10:10 + length].decode("ascii"), {"__builtins__": {}})  # as NumPy writes it; the text is from the daemon
    assert header["fortran_order"] is False
    return header["descr"], list(header["shape"]), bytes(body[10 + length:])


class TensorTest(HttpTest):
    names = itertools.count()

    def name(self):
        return f"t{next(self.names)}"

    def put(self, name, body, headers=None, query=""):
        return self.request("PUT", f"/v1/tensors/{name}{query}", body, headers)

    def delete(self, name, headers=None):
        return self.request("DELETE", f"/v1/tensors/{name}", None, headers)

    def resident(self, body=None, name=None):
        """puts a new tensor; (name, metadata)"""
        name = name or self.name()
        reply = self.put(name, body or [[1, 2, 3], [4, 5, 6]])
        self.assertStatus(reply, 201)
        return name, reply.json()

    def assertMetadata(self, reply, status, **members):
        self.assertStatus(reply, status)
        self.assertEqual(reply.type, JSON)
        metadata = reply.json()
        self.assertEqual(reply.headers["ETag"], metadata["etag"])
        self.assertRegex(metadata["etag"], r'^"[!#-~]+"$')
        for name, value in members.items():
            self.assertEqual(metadata[name], value, f"member {name} of {reply}")
        return metadata

    def assertData(self, name, dtype, shape, data):
        self.assertEqual(self.get(f"/v1/tensors/{name}?response=nested").json(),
                         {"dtype": dtype, "shape": shape, "data": data})


class Put(TensorTest):
    def test_put_creates_a_tensor_and_returns_its_metadata(self):
        name = self.name()
        reply = self.put(name, [[1, 2, 3], [4, 5, 6]])
        self.assertMetadata(reply, 201, name=name, dtype="int32", shape=[2, 3], bytes=24, persisted=False)
        self.assertEqual(reply.headers["Location"], f"/v1/tensors/{name}")
        self.assertMetadata(self.get(f"/v1/tensors/{name}"), 200, **reply.json())

    def test_put_replaces_an_existing_tensor(self):
        name, before = self.resident()
        reply = self.put(name, ["a", "b"])
        after = self.assertMetadata(reply, 200, name=name, dtype="string", shape=[2])
        self.assertNotIn("Location", reply.headers)
        self.assertGreater(after["version"], before["version"])
        self.assertNotEqual(after["etag"], before["etag"])
        self.assertData(name, "string", [2], ["a", "b"])

    def test_a_large_tensor_is_returned_unchanged_however_it_is_sent(self):
        data = random.Random(SEED).randbytes(20_000_003)
        body = safetensors({"large": ("uint8", (len(data),), data)})
        slices = [body[i:i + 777_777] for i in range(0, len(body), 777_777)]
        for framing, sent in (("as announced", body), ("in chunks", iter(slices))):
            with self.subTest(framing):
                connection = holdings.connection_to(self.daemon, WAIT_LIMIT)
                connection.request("PUT", "/v1/tensors/large", sent, {"Content-Type": SAFETENSORS})
                self.assertIn(connection.getresponse().status, (200, 201))
                connection.close()
                reply = self.get("/v1/tensors/large", {"Accept": SAFETENSORS})
                self.assertTrue(read_safetensors(reply.body)[0]["tensor"][2] == data)
        self.delete("large")

    def test_a_repeated_put_is_a_new_version(self):
        name, before = self.resident([1])
        self.assertNotEqual(self.put(name, [1]).json()["etag"], before["etag"])

    def test_versions_increase_across_a_deletion(self):
        name, before = self.resident([1])
        self.assertStatus(self.delete(name), 204)
        self.assertGreater(self.put(name, [1]).json()["version"], before["version"])

    def test_files_are_recognised_without_a_content_type(self):
        raw = pack("float32", range(6))
        files = ((npy("float32", (2, 3), raw), NPY), (safetensors({"w": ("float32", (2, 3), raw)}), SAFETENSORS))
        for body, kind in files:
            for headers in ({}, {"Content-Type": "application/x-www-form-urlencoded"}):  # curl -T; curl --data-binary
                with self.subTest(kind=kind, headers=headers):
                    name = self.name()
                    self.assertMetadata(self.put(name, body, headers), 201, dtype="float32", shape=[2, 3])
                    self.assertWhole(name, "float32", [2, 3], raw)
            packed = gzip.compress(body, mtime=0)
            self.assertMetadata(self.put(self.name(), packed, {"Content-Encoding": "gzip"}), 201, shape=[2, 3])
            # What is stated is believed.
            self.assertProblem(self.put(self.name(), body, {"Content-Type": JSON}), 400, "MALFORMED_REQUEST")
        other = {NPY: SAFETENSORS, SAFETENSORS: NPY}
        for body, kind in files:
            self.assertProblem(self.put(self.name(), body, {"Content-Type": other[kind]}), 400, "MALFORMED_REQUEST")
        reply = self.put(self.name(), npy("|O", (1,), b"\x80\x03K\x01."), {})
        self.assertIn("object", self.assertProblem(reply, 400, "MALFORMED_REQUEST")["detail"])

    def assertWhole(self, name, dtype, shape, raw):
        path = f"/v1/tensors/{name}"
        self.assertEqual(self.get(path + "?response=base64").json(), tensor(dtype, shape, raw))
        self.assertEqual(read_safetensors(self.get(path, {"Accept": SAFETENSORS}).body)[0], {"tensor": (dtype, shape, raw)})
        self.assertEqual(read_npy(self.get(path, {"Accept": NPY}).body), (NPY_NAMES[dtype], shape, raw))

    def test_a_tensor_can_be_put_from_a_ref(self):
        source, _ = self.resident([[1, 2], [3, 4]])
        name = self.name()
        self.assertMetadata(self.put(name, {"ref": source}), 201, name=name, shape=[2, 2])
        self.put(source, [0])
        self.delete(source)
        self.assertData(name, "int32", [2, 2], [[1, 2], [3, 4]])

    def test_bodies_may_be_chunked_or_compressed(self):
        import zlib
        name = self.name()
        self.assertMetadata(self.put(name, zlib.compress(b"[1,2,3]"), {"Content-Encoding": "deflate"}), 201, shape=[3])
        with Client(self.daemon) as client:
            client.connection.request("PUT", f"/v1/tensors/{name}", iter([b"[1,", b"2]"]), encode_chunked=True,
                                      headers={"Transfer-Encoding": "chunked"})
            self.assertMetadata(client.receive(), 200, shape=[2])

    def test_invalid_bodies_leave_the_tensor_unchanged(self):
        name, before = self.resident()
        for body, kind, status, code in (
                (b"", JSON, 400, "MALFORMED_REQUEST"), (b"[1,", JSON, 400, "MALFORMED_REQUEST"),
                (b"[[1],[2,3]]", JSON, 400, "MALFORMED_REQUEST"), (b"[1]]", JSON, 400, "MALFORMED_REQUEST"),
                (b'{"ref": "nowhere"}', JSON, 404, "TENSOR_NOT_FOUND"),
                (b"", SAFETENSORS, 400, "MALFORMED_REQUEST"),
                (safetensors({"a": ("int8", (1,), b"1"), "b": ("int8", (1,), b"2")}), SAFETENSORS, 400, "MALFORMED_REQUEST"),
                (safetensors({}), SAFETENSORS, 400, "MALFORMED_REQUEST"),
                (npy("|O", (1,), b"\x80\x03K\x01."), NPY, 400, "MALFORMED_REQUEST"),
                (npy("<f4", (3,), b"12345678"), NPY, 400, "MALFORMED_REQUEST"),
                (b"[1]", "text/plain", 415, "UNSUPPORTED_MEDIA_TYPE")):
            with self.subTest(body=body[:30], kind=kind):
                self.assertProblem(self.put(name, body, {"Content-Type": kind}), status, code)
        self.assertMetadata(self.get(f"/v1/tensors/{name}"), 200, etag=before["etag"])

    def test_unknown_query_parameters_are_refused(self):
        name = self.name()
        for query in ("?persit=1", "?response=flat", "?persist=2", "?persist=", "?persist=0&persist=0", "?device=cpu&device=cpu"):
            self.assertProblem(self.put(name, [1], query=query), 400, "MALFORMED_REQUEST")
        self.assertStatus(self.put(name, [1], query="?persist=0"), 201)
        self.assertProblem(self.request("DELETE", f"/v1/tensors/{name}?force=1"), 400, "MALFORMED_REQUEST")
        for query in ("?respons=flat", "?response=text", "?persist=1", "?response=flat&response=flat"):
            self.assertProblem(self.get(f"/v1/tensors/{name}{query}"), 400, "MALFORMED_REQUEST")
        for query, meant in (("?respons=flat", "response"), ("?response=neste", "nested")):
            self.assertEqual(self.get(f"/v1/tensors/{name}{query}").json()["did_you_mean"], meant)

    def test_persist_requires_a_data_folder(self):
        self.assertProblem(self.put(self.name(), [1], query="?persist=1"), 422, "INVALID_ARGUMENT")

    def test_ops_use_a_put_tensor(self):
        name, _ = self.resident({"dtype": "float32", "data": [[1, 2], [3, 4], [5, 6]]})
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": name}, "indices": [2, 0]}), "float32", [2, 2],
                          [[5, 6], [1, 2]])
        self.delete(name)
        self.assertProblem(self.post("/v1/gather", {"params": {"ref": name}, "indices": [0]}), 404, "TENSOR_NOT_FOUND")


class Names(TensorTest):
    def test_good_names_may_be_put(self):
        for name in ("a", "A-b_c.d:e", "0", "-", "_", ":", "x" * 128, "scatter", "index.html", "a..b", "a@v", "m:w@2026.1-_",
                     "a@" + "v" * 64):
            with self.subTest(name=name):
                self.assertMetadata(self.put(name, [1]), 201, name=name)
                self.assertStatus(self.get(f"/v1/tensors/{name}"), 200)
                self.assertStatus(self.delete(name), 204)

    def test_a_name_may_be_percent_encoded(self):
        self.assertMetadata(self.put("enc%6fded%3Aname", [1]), 201, name="encoded:name")
        self.assertStatus(self.get("/v1/tensors/encoded:name"), 200)
        self.assertStatus(self.delete("encoded%3aname"), 204)
        self.assertMetadata(self.put("encoded%40v", [1]), 201, name="encoded@v")
        self.assertStatus(self.get("/v1/tensors/encoded@v"), 200)
        self.assertStatus(self.delete("encoded%40v"), 204)

    def test_bad_names_are_refused(self):
        for name in (".hidden", "..", ".", "x" * 129, "a@", "@v", "a@b@c", "a@b:c", "a@" + "v" * 65, "a%20b", "%E2%82%AC", "a%ff", "a%0Ab", "a%252fb", "a+b", "a~b", "a*",
                     "%2e%2e", "a%5cb", "%25", "a%7f", "a%2fb", "..%2f..%2fetc%2fpasswd", "%2e%2e%2fx", "a%2F", "%2f"):
            with self.subTest(name=name):
                problem = self.assertProblem(self.put(name, [1]), 422, "INVALID_ARGUMENT")
                self.assertIn("is not a valid tensor name", problem["detail"])
                self.assertStatus(self.delete(name), 422)
                self.assertProblem(self.get(f"/v1/tensors/{name}"), 404, "TENSOR_NOT_FOUND")

    def test_a_nul_does_not_end_a_name(self):
        name, _ = self.resident()
        for path in (f"{name}%00", f"{name}%00.npy", f"{name}%00/x"):
            with self.subTest(path=path):
                self.assertIn(self.request("PUT", f"/v1/tensors/{path}", b"[9]").status, (400, 404))
                self.assertIn(self.get(f"/v1/tensors/{path}").status, (400, 404))
        self.assertIn("NUL", self.assertProblem(self.get(f"/v1/tensors/{name}%00"), 400, "MALFORMED_REQUEST")["detail"])
        self.assertData(name, "int32", [2, 3], [[1, 2, 3], [4, 5, 6]])

    def test_an_unknown_name_is_not_found_with_a_suggestion(self):
        name, _ = self.resident(name="embedding-table")
        self.assertProblem(self.get("/v1/tensors/embeding-table"), 404, "TENSOR_NOT_FOUND", did_you_mean=name)
        self.assertProblem(self.delete("embeding-table"), 404, "TENSOR_NOT_FOUND")


class Methods(TensorTest):
    def test_options_lists_the_allowed_methods(self):
        for path, allow in (("/v1/tensors/t", "GET, HEAD, PUT, DELETE"), ("*", "GET, HEAD, POST, PUT, DELETE")):
            with self.subTest(path=path):
                reply = self.request("OPTIONS", path)
                self.assertEqual((reply.status, reply.body, reply.headers["Allow"]), (204, b"", allow))
                self.assertNotIn("Content-Type", reply.headers)
        self.assertProblem(self.request("OPTIONS", "/nowhere"), 404, "NOT_FOUND")

    def test_head_has_the_headers_of_get(self):
        name, _ = self.resident(tensor("float32", (100, 100), bytes(40000)))
        for path, accept in ((f"/v1/tensors/{name}", "*/*"), (f"/v1/tensors/{name}", SAFETENSORS),
                             (f"/v1/tensors/{name}", NPY), (f"/v1/tensors/{name}?response=flat", JSON), ("/v1/tensors", "*/*"),
                             ("/v1/ops/gather", "*/*"), ("/v1/tensors/nowhere", "*/*")):
            with self.subTest(path=path, accept=accept), Client(self.daemon) as client:
                headers = {"Accept": accept, "X-Request-Id": "same"}
                get, head = client.request("GET", path, None, headers), client.request("HEAD", path, None, headers)
                self.assertEqual((head.status, head.body), (get.status, b""))
                def headers_of(reply):
                    return sorted((k, v) for k, v in reply.headers.items() if k != "Date")
                self.assertEqual(headers_of(head), headers_of(get))

    def test_delete_removes_the_tensor(self):
        name, _ = self.resident()
        reply = self.delete(name)
        self.assertEqual((reply.status, reply.body), (204, b""))
        self.assertNotIn("Content-Type", reply.headers)
        self.assertProblem(self.get(f"/v1/tensors/{name}"), 404, "TENSOR_NOT_FOUND")
        self.assertProblem(self.delete(name), 404, "TENSOR_NOT_FOUND")

    def test_the_connection_stays_open(self):
        name = self.name()
        with Client(self.daemon) as client:
            path = f"/v1/tensors/{name}"
            for method, body, headers, status in (
                    ("PUT", [1], {}, 201), ("PUT", [1], {"If-None-Match": "*"}, 412), ("GET", None, {}, 200),
                    ("GET", None, {"If-None-Match": "*"}, 304), ("OPTIONS", None, {}, 204), ("PATCH", None, {}, 405),
                    ("HEAD", None, {}, 200), ("DELETE", None, {}, 204), ("DELETE", None, {}, 404), ("PUT", [1], {}, 201)):
                self.assertStatus(client.request(method, path, body, headers), status)
            self.assertServes(client)

    def test_the_list_has_all_tensors_in_order(self):
        made = sorted([self.resident()[0], self.resident(["x"])[0], self.resident(name="aaa")[0]])
        reply = self.get("/v1/tensors")
        self.assertStatus(reply, 200)
        listed = reply.json()["tensors"]
        names = [item["name"] for item in listed]
        self.assertEqual(names, sorted(names))
        self.assertEqual([n for n in names if n in made], made)
        for item in listed:
            self.assertEqual(self.get(f"/v1/tensors/{item['name']}").json(), item)


class Pages(TensorTest):
    """GET /v1/tensors?prefix=&limit=&after="""
    NAMES = ["p", "p.a", "p1", "p10", "p2", "q", "r@1", "r@2"]

    def names(self, client, query):
        """the names of a page, and next"""
        reply = client.request("GET", "/v1/tensors" + query)
        self.assertStatus(reply, 200)
        page = reply.json()
        return [item["name"] for item in page["tensors"]], page.get("next")

    def test_a_page_has_the_names_in_order_and_where_the_list_goes_on(self):
        with Daemon() as daemon, Client(daemon) as client:
            self.assertEqual(self.names(client, "?limit=1"), ([], None))
            for name in self.NAMES:
                self.assertStatus(client.request("PUT", f"/v1/tensors/{name}", [1]), 201)
            for query, names, more in (
                    ("", self.NAMES, None), ("?prefix=", self.NAMES, None), ("?limit=8", self.NAMES, None), ("?limit=7", self.NAMES[:7], "r@1"),
                    ("?limit=9223372036854775807", self.NAMES, None), ("?prefix=p", self.NAMES[:5], None), ("?prefix=p1&limit=1", ["p1"], "p1"),
                    ("?prefix=p1&limit=2", ["p1", "p10"], None), ("?prefix=z", [], None), ("?after=p10", self.NAMES[4:], None),
                    ("?after=p11", self.NAMES[4:], None), ("?after=r%402", [], None), ("?after=z", [], None), ("?prefix=p&after=a", self.NAMES[:5], None),
                    ("?prefix=p&after=p1&limit=1", ["p10"], "p10"), ("?prefix=p&after=p2", [], None), ("?prefix=p&after=q", [], None),
                    ("?prefix=r@", ["r@1", "r@2"], None), ("?after=" + 500 * "a", self.NAMES, None)):
                with self.subTest(query=query):
                    self.assertEqual(self.names(client, query), (names, more))
            for limit in range(1, 10):
                read, after = [], ""
                while after is not None:
                    page, after = self.names(client, f"?limit={limit}" + (f"&after={after}" if after else ""))
                    self.assertLessEqual(len(page), limit)
                    read += page
                self.assertEqual(read, self.NAMES)

    def test_other_parameters_and_values_are_refused(self):
        for query in ("?limit=0", "?limit=-1", "?limit=", "?limit=x", "?limit=1.5", "?limit=9223372036854775808", "?limit=1&limit=1", "?after=a&after=b",
                      "?prefix=a&prefix=", "?prefix=a%00", "?after=%00", "?offset=1", "?Limit=1", "?limit%00=1"):
            with self.subTest(query=query):
                self.assertProblem(self.get("/v1/tensors" + query), 400, "MALFORMED_REQUEST")
        self.assertEqual(self.get("/v1/tensors?prefx=a").json()["did_you_mean"], "prefix")


class Conditions(TensorTest):
    """If-Match and If-None-Match (RFC 9110)."""

    def test_if_none_match_star_creates_once(self):
        name = self.name()
        self.assertStatus(self.put(name, [1], {"If-None-Match": "*"}), 201)
        reply = self.put(name, [2], {"If-None-Match": "*"})
        problem = self.assertProblem(reply, 412, "PRECONDITION_FAILED")
        etag = self.get(f"/v1/tensors/{name}").headers["ETag"]
        self.assertEqual((problem["etag"], reply.headers["ETag"]), (etag, etag))
        self.assertData(name, "int32", [1], [1])

    def test_if_match_guards_against_lost_updates(self):
        name, first = self.resident([1])
        second = self.put(name, [2], {"If-Match": first["etag"]})
        self.assertStatus(second, 200)
        self.assertProblem(self.put(name, [3], {"If-Match": first["etag"]}), 412, "PRECONDITION_FAILED",
                           etag=second.json()["etag"])
        self.assertData(name, "int32", [1], [2])
        self.assertProblem(self.delete(name, {"If-Match": first["etag"]}), 412, "PRECONDITION_FAILED")
        self.assertStatus(self.delete(name, {"If-Match": second.json()["etag"]}), 204)

    def test_no_condition_matches_an_absent_tensor(self):
        for condition in ("*", '"abc"'):
            self.assertProblem(self.put(self.name(), [1], {"If-Match": condition}), 412, "PRECONDITION_FAILED")

    def test_if_none_match_of_the_current_version_is_304(self):
        name, made = self.resident([1])
        for accept in ("*/*", SAFETENSORS, NPY):
            etag = self.get(f"/v1/tensors/{name}", {"Accept": accept}).headers["ETag"]
            for tags in (etag, "*", f'"x", {etag}'):
                reply = self.get(f"/v1/tensors/{name}", {"If-None-Match": tags, "Accept": accept})
                self.assertEqual((reply.status, reply.body, reply.headers["ETag"]), (304, b"", etag))
                self.assertEqual(reply.headers["Vary"], "Accept")
        self.assertStatus(self.get(f"/v1/tensors/{name}", {"If-None-Match": '"x"'}), 200)
        self.assertStatus(self.get(f"/v1/tensors/{name}", {"If-Match": made["etag"]}), 200)
        self.assertProblem(self.get(f"/v1/tensors/{name}", {"If-Match": '"x"'}), 412, "PRECONDITION_FAILED")

    def test_a_condition_in_several_lines_is_one_list(self):
        name, made = self.resident([1])
        etag = made["etag"]
        for tags, status in ((('"x"', etag), 200), ((etag, '"x"'), 200), (('"x"', '"y"'), 412), (("*", "*"), 400)):
            with self.subTest(tags=tags), Raw(self.daemon) as raw:
                raw.send(http_request("GET", f"/v1/tensors/{name}", headers=[f"If-Match: {tag}" for tag in tags]))
                self.assertStatus(raw.reply(), status)
        with Raw(self.daemon) as raw:
            raw.send(http_request("GET", f"/v1/tensors/{name}", headers=[f"If-None-Match: {etag}", 'if-none-match: "x"']))
            self.assertStatus(raw.reply(), 304)

    def test_a_repeated_range_is_refused(self):
        name, made = self.resident([1])
        for header in ("Range", "If-Range"):
            with Raw(self.daemon) as raw:
                raw.send(http_request("GET", f"/v1/tensors/{name}", headers=[f"{header}: *", f"{header}: *"]))
                self.assertProblem(raw.reply(), 400, "MALFORMED_REQUEST", attribute=header)

    def test_a_dtype_that_a_format_lacks_comes_in_the_way_that_the_error_says(self):
        name, other = self.resident(["a"])[0], self.resident({"dtype": "bfloat16", "data": [1]})[0]
        for tensor, accept in ((name, "application/x-npy"), (other, "application/x-npy"), (name, "application/vnd.safetensors"),
                               (name, "application/octet-stream")):
            for query in ("", "?response=base64"):  # which is about JSON
                with self.subTest(tensor, accept=accept, query=query):
                    problem = self.assertProblem(self.get(f"/v1/tensors/{tensor}{query}", {"Accept": accept}), 406, "NOT_ACCEPTABLE")
                    way = re.search(r"ask for it with Accept: (application/json)(?:,| and) .*\?response=base64", problem["detail"])
                    self.assertTrue(way, problem["detail"])
                    self.assertIn("base64", self.get(f"/v1/tensors/{tensor}?response=base64", {"Accept": way[1]}).json())

    def test_a_condition_of_a_call_that_changes_nothing_is_refused(self):
        name, _ = self.resident([1])
        gather = {"indices": [0]}
        infer = {"inputs": [{"name": "indices", "datatype": "INT64", "shape": [1], "data": [0]}]}
        for path, body in ((f"/v1/tensors/{name}/gather", gather), ("/v1/gather", {"params": {"ref": name}, **gather}),
                           ("/v1/einsum/plan", {"equation": "i->", "shapes": [[3]]}), (f"/v2/models/{name}/infer", infer)):
            for header in ("If-Match", "If-None-Match"):
                with self.subTest(path, header=header):
                    reply = self.post(path, body, {header: '"x"'})
                    self.assertStatus(reply, 400)
                    self.assertEqual(reply.json()["attribute"], header)
                    self.assertIn("this call changes nothing, so leave the header out", reply.body.decode())
                    self.assertStatus(self.post(path, body), 200)

    def test_a_body_that_is_a_part_is_refused_and_replaces_nothing(self):
        """RFC 9110 section 14.5"""
        name, _ = self.resident([1, 2])
        part = {"Content-Range": "bytes 0-3/10"}
        sentence = "Content-Range is 'bytes 0-3/10', but partial bodies are not supported; send the whole body without Content-Range"
        problem = self.assertProblem(self.put(name, [5], part), 400, "MALFORMED_REQUEST", attribute="Content-Range")
        self.assertEqual(problem["detail"], sentence + "; use POST /v1/tensors/{name}/scatter to change some rows of a tensor")
        for method, path, body in (("DELETE", f"/v1/tensors/{name}", None), ("PUT", f"/v1/tensors/{name}/keys", [3, 4]),
                                   ("POST", f"/v1/tensors/{name}/scatter", {"indices": [0], "updates": [5]}),
                                   ("POST", "/v2/models/gather/infer", {})):
            with self.subTest(path, method=method):
                reply = self.request(method, path, body, part)
                self.assertStatus(reply, 400)
                self.assertIn(sentence, reply.body.decode())
        self.assertStatus(self.get(f"/v1/tensors/{name}", part), 200)
        self.assertData(name, "int32", [2], [1, 2])

    def test_expect_100_continue_gets_a_failed_condition_before_the_body(self):
        name, _ = self.resident([1])
        for path, condition, status in ((name, "If-None-Match: *", 412), (name, 'If-Match: "x"', 412), (".x", "X-None: 1", 422),
                                        (f"{name}/scatter", 'If-Match: "x"', 412)):
            for length in (100000, 5):
                with self.subTest(path=path, length=length), Raw(self.daemon) as raw:
                    method = "POST" if path.endswith("scatter") else "PUT"
                    raw.send(http_request(method, f"/v1/tensors/{path}")[:-2].replace(b"Content-Length: 0\r\n", b"")
                             + f"Content-Length: {length}\r\nExpect: 100-continue\r\n{condition}\r\n\r\n".encode())
                    self.assertStatus(raw.reply(), status)

    def test_other_clients_get_a_failed_condition_after_the_body(self):
        name, _ = self.resident([1])
        body = npy("uint8", (5000000,), bytes(5000000))  # far more than the socket buffers
        with Client(self.daemon) as client:
            reply = client.request("PUT", f"/v1/tensors/{name}", body, {"Content-Type": NPY, "If-None-Match": "*"})
            self.assertProblem(reply, 412, "PRECONDITION_FAILED")
            self.assertServes(client)

    def test_of_concurrent_creators_one_succeeds(self):
        name = self.name()
        def create(i):
            return self.put(name, [i], {"If-None-Match": "*"}).status
        self.assertEqual(sorted(in_threads(8, create)), [201] + [412] * 7)

    def test_concurrent_increments_with_if_match_lose_nothing(self):
        name, _ = self.resident([0])
        def count(_):
            with Client(self.daemon) as client:
                done = 0
                while done < 10:
                    reply = client.request("GET", f"/v1/tensors/{name}?response=flat")
                    value = reply.json()["data"][0]
                    put = client.request("PUT", f"/v1/tensors/{name}", [value + 1], {"If-Match": reply.headers["ETag"]})
                    self.assertIn(put.status, (200, 412))
                    done += put.status == 200
        in_threads(4, count)
        self.assertData(name, "int32", [1], [40])


class Ranges(TensorTest):
    """Range requests (RFC 9110)."""

    def setUp(self):
        super().setUp()
        self.tensor = self.name()
        raw = bytes(i * 7 % 251 for i in range(300000))  # long enough to be sent without a copy
        self.assertStatus(self.put(self.tensor, npy("uint8", (300000,), raw), {"Content-Type": NPY}), 201)
        self.path = f"/v1/tensors/{self.tensor}"
        self.file = self.get(self.path, {"Accept": NPY})
        self.size = len(self.file.body)

    def part(self, value, accept=NPY, **headers):
        return self.get(self.path, {"Accept": accept, "Range": value, **{k.replace("_", "-"): v for k, v in headers.items()}})

    def test_a_complete_reply_announces_ranges(self):
        self.assertEqual((self.file.status, self.file.headers["Accept-Ranges"]), (200, "bytes"))
        self.assertEqual(self.file.headers["Content-Length"], str(self.size))

    def test_a_range_is_returned(self):
        n = self.size
        for value, begin, end in (("bytes=5-9", 5, 10), ("bytes=-1", n - 1, n), (f"bytes=100000-{n + 100}", 100000, n)):
            with self.subTest(value=value):
                reply = self.part(value)
                self.assertEqual(reply.status, 206, str(reply)[:300])
                self.assertEqual(reply.headers["Content-Range"], f"bytes {begin}-{end - 1}/{n}")
                self.assertEqual(reply.headers["Content-Length"], str(end - begin))
                self.assertEqual(reply.headers["ETag"], self.file.headers["ETag"])
                self.assertEqual(reply.type, NPY)
                self.assertTrue(bytes(reply.body) == bytes(self.file.body[begin:end]))

    def test_ranges_add_up_to_the_whole(self):
        step, body = 70001, b""
        while len(body) < self.size:
            body += self.part(f"bytes={len(body)}-{len(body) + step - 1}", If_Range=self.file.headers["ETag"]).body
        self.assertTrue(body == bytes(self.file.body))

    def test_a_range_after_the_end_is_416(self):
        reply = self.part(f"bytes={self.size}-")
        self.assertProblem(reply, 416, "RANGE_NOT_SATISFIABLE")
        self.assertEqual(reply.headers["Content-Range"], f"bytes */{self.size}")

    def test_if_range_names_one_version(self):
        etag = self.file.headers["ETag"]
        self.assertStatus(self.part("bytes=0-9", If_Range=etag), 206)
        for other in ('"x"', "W/" + etag, "Sat, 01 Jan 2022 00:00:00 GMT", "*"):
            reply = self.part("bytes=0-9", If_Range=other)
            self.assertEqual((reply.status, len(reply.body)), (200, self.size))
        self.put(self.tensor, [1])
        self.assertStatus(self.part("bytes=0-9", If_Range=etag), 200)

    def test_every_format_supports_ranges(self):
        for accept, path in ((SAFETENSORS, self.path), (JSON, self.path + "?response=base64")):
            whole = self.get(path, {"Accept": accept})
            reply = self.get(path, {"Accept": accept, "Range": "bytes=70-200000"})
            self.assertStatus(reply, 206)
            self.assertTrue(bytes(reply.body) == bytes(whole.body[70:200001]))

    def test_head_and_metadata_ignore_ranges(self):
        reply = self.request("HEAD", self.path, None, {"Accept": NPY, "Range": "bytes=0-9"})
        self.assertEqual((reply.status, reply.headers["Content-Length"]), (200, str(self.size)))
        self.assertStatus(self.get(self.path, {"Range": "bytes=0-9"}), 200)

    def test_a_condition_is_checked_before_a_range(self):
        etag = self.file.headers["ETag"]
        self.assertStatus(self.part("bytes=0-9", If_None_Match=etag), 304)
        self.assertStatus(self.part("bytes=0-9", If_Match='"x"'), 412)


class Accept(TensorTest):
    def test_metadata_is_the_default(self):
        name, made = self.resident()
        for accept in (None, "*/*", JSON, "application/*", "text/html, */*;q=0.1"):
            reply = self.get(f"/v1/tensors/{name}", {"Accept": accept} if accept else None)
            self.assertEqual(self.assertMetadata(reply, 200), made)
            self.assertEqual(reply.headers["Vary"], "Accept")
            self.assertNotIn("Accept-Ranges", reply.headers)

    def test_the_preferred_format_is_chosen(self):
        name, _ = self.resident()
        for accept, kind in ((f"{NPY}, {SAFETENSORS};q=0.5", NPY), (f"{NPY};q=0.1, {SAFETENSORS};q=0.5", SAFETENSORS),
                             (f"{JSON};q=0.9, {NPY}", NPY), ("application/octet-stream", SAFETENSORS),
                             ("application/npy", NPY)):
            self.assertEqual(self.get(f"/v1/tensors/{name}", {"Accept": accept}).type, kind)
        problem = self.assertProblem(self.get(f"/v1/tensors/{name}", {"Accept": "text/html"}), 406, "NOT_ACCEPTABLE")
        self.assertIn("x-npy", problem["detail"])

    def test_layouts_of_json(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        base = {"dtype": "int32", "shape": [2, 2]}
        for layout, member in (("nested", {"data": [[1, 2], [3, 4]]}), ("flat", {"data": [1, 2, 3, 4]}),
                               ("base64", {"base64": base64.b64encode(pack("int32", [1, 2, 3, 4])).decode()})):
            reply = self.get(f"/v1/tensors/{name}?response={layout}")
            self.assertEqual((reply.status, reply.json()), (200, {**base, **member}))
            copy = self.name()
            self.assertStatus(self.put(copy, reply.body), 201)  # the format that PUT accepts
            self.assertData(copy, "int32", [2, 2], [[1, 2], [3, 4]])


    def test_each_format_has_an_etag_of_its_own(self):
        name, made = self.resident([1, 2, 3])
        formats = (JSON, NPY, SAFETENSORS)
        tags = {accept: self.get(f"/v1/tensors/{name}", {"Accept": accept}).headers["ETag"] for accept in formats}
        self.assertEqual(len(set(tags.values())), 3, tags)
        self.assertEqual(tags[JSON], made["etag"])
        for accept in formats:
            for other in formats:
                with self.subTest(accept=accept, tag_of=other):
                    same = accept == other
                    reply = self.get(f"/v1/tensors/{name}", {"Accept": accept, "If-None-Match": tags[other]})
                    self.assertEqual((reply.status, reply.headers["ETag"]), (304 if same else 200, tags[accept]), str(reply))
                    reply = self.get(f"/v1/tensors/{name}?response=flat", {"Accept": accept, "Range": "bytes=0-1",
                                                                           "If-Range": tags[other]})
                    self.assertStatus(reply, 206 if same else 200)
                    self.assertStatus(self.get(f"/v1/tensors/{name}", {"Accept": accept, "If-Match": tags[other]}), 200)

    def test_a_change_accepts_the_etag_of_any_format(self):
        for accept in (JSON, NPY, SAFETENSORS):
            name, _ = self.resident([1, 2, 3])
            tag = self.get(f"/v1/tensors/{name}", {"Accept": accept}).headers["ETag"]
            self.assertProblem(self.put(name, [5], {"If-None-Match": tag}), 412, "PRECONDITION_FAILED")
            self.assertStatus(self.put(name, [4], {"If-Match": tag}), 200)
            self.assertProblem(self.put(name, [5], {"If-Match": tag}), 412, "PRECONDITION_FAILED")
            for text in ('"-npy"', f'"x{tag[1:]}', f'{tag[:-1]}-json"', f'{tag[:-1]}-npy-npy"'):
                self.assertProblem(self.put(name, [5], {"If-Match": text}), 412, "PRECONDITION_FAILED")


class Limits(TensorTest):
    options = ("--tensor-quota", "1M", "--max-body", "4K", "--memory-limit", "64M")

    def test_a_tensor_may_be_larger_than_a_request_but_not_than_the_quota(self):
        name = self.name()
        self.assertStatus(self.put(name, npy("uint8", (900000,), bytes(900000)), {"Content-Type": NPY}), 201)
        with Raw(self.daemon) as raw:
            raw.send(b"PUT /v1/tensors/large HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n")
            self.assertProblem(raw.reply(), 413, "PAYLOAD_TOO_LARGE", limit=1 << 20)
        self.assertProblem(self.put(self.name(), npy("uint8", (900000,), bytes(900000)), {"Content-Type": NPY}), 422,
                           "RESOURCE_LIMIT", resource="resident_bytes")
        self.assertStatus(self.delete(name), 204)
        name = self.name()
        self.assertStatus(self.put(name, npy("uint8", (900000,), bytes(900000)), {"Content-Type": NPY}), 201)
        self.assertStatus(self.delete(name), 204)

    def test_text_of_a_tensor_above_the_quota_is_refused(self):
        body = b'{"dtype":"float64","shape":[200000],"data":[' + b",".join([b"1"] * 200000) + b"]}"
        self.assertProblem(self.put(self.name(), body), 422, "RESOURCE_LIMIT", resource="resident_bytes")

    def test_a_tensor_whose_text_is_too_long_is_available_in_binary(self):
        with Daemon("--max-output", "10K") as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/t", npy("int8", (20000,), bytes(20000)), {"Content-Type": NPY}), 201)
            reply = client.request("GET", "/v1/tensors/t?response=flat")
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="output_bytes", limit=10240)
            self.assertEqual(len(client.request("GET", "/v1/tensors/t", None, {"Accept": NPY}).body), 20128)


class Load(TensorTest):
    def test_readers_see_complete_versions_during_replacement(self):
        rows, columns = 200, 500
        def body(value):
            return npy("int32", (rows, columns), pack("int32", [value]) * (rows * columns))
        name = self.name()
        self.assertStatus(self.put(name, body(0), {"Content-Type": NPY}), 201)
        stop, seen = threading.Event(), set()

        def read(whole):
            with Client(self.daemon) as client:
                while not stop.is_set():
                    if whole:
                        reply = client.request("GET", f"/v1/tensors/{name}", None, {"Accept": NPY})
                        self.assertStatus(reply, 200)
                        values = set(struct.unpack(f"<{rows * columns}i", read_npy(reply.body)[2]))
                    else:
                        reply = client.post("/v1/gather", {"params": {"ref": name}, "indices": [0, rows - 1]})
                        self.assertStatus(reply, 200)
                        values = {v for row in reply.json()["output"]["data"] for v in row}
                    self.assertEqual(len(values), 1)
                    seen.update(values)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read, i % 2 == 0) for i in range(4)]
            try:
                with Client(self.daemon) as client:
                    for value in range(1, 40):
                        self.assertStatus(client.request("PUT", f"/v1/tensors/{name}", body(value), {"Content-Type": NPY}), 200)
                        if value % 10 == 0:  # the others are replaced while they are read
                            self.wait_until(lambda: value in seen or any(reader.done() for reader in readers), "a reply with the new version")
            finally:
                stop.set()
            for reader in readers:
                reader.result()
        self.assertLessEqual({10, 20, 30}, seen)

    def test_a_reply_in_progress_keeps_its_version(self):
        name, n = self.name(), 30_000_000
        with Daemon() as daemon, Client(daemon) as client:
            def in_use():
                return client.request("GET", "/readyz").json()["memory"]["in_use"]
            empty = in_use()
            self.assertStatus(client.request("PUT", f"/v1/tensors/{name}", npy("uint8", (n,), b"a" * n), {"Content-Type": NPY}), 201)
            raw = Raw(daemon)
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # holds a small part of the reply
            raw.send(http_request("GET", f"/v1/tensors/{name}", headers=[f"Accept: {NPY}"]))
            self.assertTrue(raw.more())  # started, and longer than the socket buffers
            self.assertStatus(client.request("PUT", f"/v1/tensors/{name}", [1]), 200)
            self.assertStatus(client.request("DELETE", f"/v1/tensors/{name}"), 204)
            self.assertGreater(in_use(), n)  # in use by the reply
            reply = raw.reply()
            self.assertEqual(read_npy(bytes(reply.body))[2], b"a" * n)
            raw.close()
            self.wait_until(lambda: in_use() == empty, "the end of the reply's memory")


class DataFolder(TensorTest):
    def setUp(self):
        self.folder = temporary_folder()

    def file(self, name, *values):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "wb") as f:
            f.write(npy("int32", (len(values),), pack("int32", values)))
        os.rename(path + ".new", path)

    def test_sighup_loads_new_changed_and_removed_files(self):
        self.file("a.npy", 1)
        self.file("b.npy", 2)
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            def data(name):
                reply = client.request("GET", f"/v1/tensors/{name}?response=flat")
                return reply.json()["data"] if reply.status == 200 else reply.status
            self.assertEqual((data("a"), data("b"), data("c")), ([1], [2], 404))
            self.file("a.npy", 10, 11)
            os.remove(os.path.join(self.folder, "b.npy"))
            self.file("c.npy", 3)
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: (data("a"), data("b"), data("c")) == ([10, 11], 404, [3]), "the scan")

    def test_a_truncated_file_is_reported_before_it_is_sent(self):
        self.file("cut.npy", *range(100000))
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            os.truncate(os.path.join(self.folder, "cut.npy"), 5000)
            for headers in ({"Accept": NPY}, {"Accept": SAFETENSORS}, {"Accept": NPY, "Range": "bytes=100000-100010"}):
                self.assertProblem(client.request("GET", "/v1/tensors/cut", None, headers), 503, "DEVICE_UNAVAILABLE")

    def test_zeros_at_the_end_of_the_last_page_of_a_cut_file_are_never_answered(self):
        rows, kept = 3000, 2500  # of 4 bytes: both on the third page
        self.file("cut.npy", *range(1, rows + 1))
        path, gather = os.path.join(self.folder, "cut.npy"), {"params": {"ref": "cut"}, "indices": [kept + 1]}
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.assertOutput(client.post("/v1/gather", gather), "int32", [1], [kept + 2])
            os.truncate(path, os.path.getsize(path) - 4 * (rows - kept))
            self.assertProblem(client.post("/v1/gather", gather), 503, "DEVICE_UNAVAILABLE")
            self.assertProblem(client.request("GET", "/v1/tensors/cut", None, {"Accept": NPY}), 503, "DEVICE_UNAVAILABLE")

    def test_rows_before_the_cut_are_refused_too(self):
        self.file("cut.npy", *range(1, 3000))
        path = os.path.join(self.folder, "cut.npy")
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            os.truncate(path, 5000)  # the rest of the second page reads as zeros, and raises no signal
            reply = client.post("/v1/gather", {"params": {"ref": "cut"}, "indices": [1500]})
            self.assertProblem(reply, 503, "DEVICE_UNAVAILABLE")

    def test_an_etag_covers_the_ends_of_a_file_and_not_only_its_size_and_time(self):
        def etag(first, last):
            self.file("a.npy", first, *range(4000), last)
            os.utime(os.path.join(self.folder, "a.npy"), ns=(0, 0))  # as in an image with fixed times
            with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
                return client.request("HEAD", "/v1/tensors/a", None, {"Accept": NPY}).headers["etag"]
        self.assertEqual(etag(1, 2), etag(1, 2))
        self.assertEqual(len({etag(1, 2), etag(7, 2), etag(1, 7)}), 3)

    def test_a_tensor_hidden_by_an_invalid_file_is_not_reported_as_persisted(self):
        self.file("a.npy", 1, 2)
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.assertTrue(client.request("GET", "/v1/tensors/a").json()["persisted"])
            with open(os.path.join(self.folder, "bad"), "wb") as f:
                f.write(npy("int32", (2,), pack("int32", [3, 4]))[:-1])
            os.rename(os.path.join(self.folder, "bad"), os.path.join(self.folder, "a.npy"))
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda e: e.get("event") == "table_skipped")
            self.wait_until(lambda: not client.request("GET", "/v1/tensors/a").json()["persisted"], "the end of persisted")
            self.assertEqual(client.request("GET", "/v1/tensors/a?response=flat").json()["data"], [1, 2])

    def test_a_damaged_file_does_not_bring_back_the_old_rows_of_another(self):
        path = os.path.join(self.folder, "shop:w.tensord")
        gather = {"params": {"ref": "shop:w"}, "indices": {"keys": [0]}}
        upsert = {"keys": [0], "rows": [[777, 777]]}
        with open(os.path.join(self.folder, "shop.safetensors"), "wb") as f:
            f.write(safetensors({"w": ("I32", (2, 2), pack("int32", [1, 1, 2, 2])), "w.keys": ("I64", (2,), pack("int64", [0, 1]))}))
        def expect_refused(client):
            for reply in (client.post("/v1/gather", gather), client.request("POST", "/v1/tensors/shop:w/upsert", upsert),
                          client.request("POST", "/v1/tensors/shop:w/upsert?persist=1", upsert)):
                self.assertIn("shop:w.tensord", self.assertProblem(reply, 503, "DEVICE_UNAVAILABLE")["detail"])
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("POST", "/v1/tensors/shop:w/upsert?persist=1", upsert), 200)
            self.assertOutput(client.post("/v1/gather", gather), "int32", [1, 2], [[777, 777]])
            os.truncate(path, os.path.getsize(path) - 3)
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda e: e.get("event") == "data_dir_scanned" and e["skipped"] == 2)
            expect_refused(client)
        for when in ("start", "background"):
            with Daemon("--data-dir", self.folder, "--verify", when) as daemon, Client(daemon) as client:
                expect_refused(client)
        self.assertTrue(os.path.exists(path))  # a person may repair it

    def test_sighup_does_not_affect_requests(self):
        self.file("a.npy", *range(1000))
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            for i in range(200):
                daemon.send_signal(signal.SIGHUP)
                reply = client.post("/v1/gather", {"params": {"ref": "a"}, "indices": [i]})
                self.assertOutput(reply, "int32", [1], [i])

    def test_a_file_above_the_limit_of_the_process_is_refused(self):
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (10000, 10000))
            reply = client.request("PUT", "/v1/tensors/large?persist=1", npy("int32", (5000,), pack("int32", range(5000))),
                                   {"Content-Type": NPY})
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="disk_bytes")
            self.assertStatus(client.request("GET", "/v1/tensors/large"), 404)
            self.assertEqual(os.listdir(self.folder), [".tensord.lock"])
            event = daemon.wait_log(lambda e: e["event"] == "change_failed")
            self.assertEqual((event["level"], event["file"], event["reason"]), ("warn", "large.tensord", "File too large"))
            self.assertStatus(client.request("PUT", "/v1/tensors/small?persist=1", [1]), 201)

    def test_a_second_daemon_changes_the_folder_only_after_the_first_one_has_ended(self):
        for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
            first = Daemon("--data-dir", self.folder)
            with Client(first) as client:
                self.assertStatus(client.request("PUT", "/v1/tensors/t?persist=1", [1]), 201)
            with GatedDaemon("--data-dir", self.folder) as second, Client(second) as client:
                def put():
                    return client.request("PUT", "/v1/tensors/t?persist=1", [2])
                for reply in (put(), client.request("DELETE", "/v1/tensors/t"),
                              client.post("/v1/tensors/t/scatter?persist=1", {"indices": [[0]], "updates": [2]})):
                    problem = self.assertProblem(reply, 503, "DATA_DIR_LOCKED")
                    self.assertIn(f"locked by process {first.process.pid}", problem["detail"])
                    self.assertRegex(reply.headers["Retry-After"], r"^[1-9][0-9]*$")
                self.assertEqual(client.request("GET", "/v1/tensors/t?response=flat").json()["data"], [1])
                first.send_signal(number)
                self.assertEqual(first.wait(), status)
                second.clock.advance(1)  # it tries for the lock each second
                second.wait_log(lambda e: e.get("event") == "data_dir_locked")
                second.at_start["descriptors"] += 1  # the lock file
                self.assertStatus(put(), 200)
                self.assertStatus(client.request("DELETE", "/v1/tensors/t"), 204)

    def test_a_damaged_file_is_found_and_refused(self):
        n = 3 << 18  # three blocks of int32
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            reply = client.request("PUT", "/v1/tensors/t?persist=1", npy("int32", (n,), pack("int32", range(n))), {"Content-Type": NPY})
            self.assertEqual(reply.json()["checksum"], "verified")
        path = os.path.join(self.folder, "t.tensord")
        with open(path, "r+b") as f:
            header = 8 + struct.unpack("<Q", f.read(8))[0]
            f.seek(header + (1 << 20) + 5)
            byte = f.read(1)[0]
            f.seek(header + (1 << 20) + 5)
            f.write(bytes([byte ^ 8]))
        damage = f"bytes {header + (1 << 20)} to {header + (2 << 20) - 1} "
        for when in ("start", "background"):
            shutil.copy(path, path + ".copy")
            with Daemon("--data-dir", self.folder, "--verify", when) as daemon, Client(daemon) as client:
                event = daemon.wait_log(lambda e: e.get("event") == "tensor_damaged")
                self.assertEqual((event["tensor"], event["file"], event["first_byte"]), ("t", "t.tensord", header + (1 << 20)))
                for reply in (client.request("GET", "/v1/tensors/t"), client.request("GET", "/v1/tensors/t", None, {"Accept": NPY}),
                              client.post("/v1/gather", {"params": {"ref": "t"}, "indices": [0]})):
                    problem = self.assertProblem(reply, 503, "DEVICE_UNAVAILABLE")
                    self.assertIn("t.tensord of 't' is damaged", problem["detail"])
                    self.assertIn(damage, problem["detail"])
                listed = client.request("GET", "/v1/tensors").json()["tensors"]
                self.assertEqual([t["checksum"] for t in listed], ["damaged"])
                self.assertIn(b"\ntensord_tensors_damaged 1\n", client.request("GET", "/metrics").body)
                self.assertStatus(client.request("PUT", "/v1/tensors/t", [1]), 200)
                self.assertIn(b"\ntensord_tensors_damaged 0\n", client.request("GET", "/metrics").body)
            os.rename(path + ".copy", path)
        with Daemon("--data-dir", self.folder, "--verify", "off") as daemon, Client(daemon) as client:
            self.assertEqual(client.request("GET", "/v1/tensors/t").json()["checksum"], "none")
            self.assertStatus(client.request("PUT", "/v1/tensors/t?persist=1", [1, 2]), 200)
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.wait_until(lambda: client.request("GET", "/v1/tensors/t").json()["checksum"] == "verified", "the verification")

    def test_the_disk_quota_bounds_what_is_persisted(self):
        with Daemon("--data-dir", self.folder, "--disk-quota", "4K") as daemon, Client(daemon) as client:
            def put(name, n, query="?persist=1"):
                return client.request("PUT", f"/v1/tensors/{name}{query}", npy("int32", (n,), pack("int32", range(n))),
                                      {"Content-Type": NPY})
            self.assertStatus(put("a", 800), 201)
            problem = self.assertProblem(put("b", 800), 422, "RESOURCE_LIMIT", resource="disk_bytes", limit=4096)
            self.assertGreater(problem["needed"], 6400)
            self.assertStatus(client.request("GET", "/v1/tensors/b"), 404)
            self.assertStatus(put("b", 800, ""), 201)  # in memory
            self.assertStatus(put("a", 801), 200)  # in place of the file
            self.assertStatus(client.request("DELETE", "/v1/tensors/a"), 204)
            self.assertStatus(put("b", 800), 200)

    def test_a_start_above_the_disk_quota_warns_and_no_file_may_grow(self):
        options = ("--data-dir", self.folder, "--disk-quota")
        body = [0] * 100
        with Daemon(*options, "4K") as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/a?persist=1", body), 201)
            self.assertFalse([e for e in daemon.events() if e["event"] == "disk_quota_exceeded"])
        size = os.path.getsize(os.path.join(self.folder, "a.tensord"))
        with Daemon(*options, "500") as daemon, Client(daemon) as client:
            self.assertEqual([(e["level"], e["bytes"], e["limit"]) for e in daemon.events() if e["event"] == "disk_quota_exceeded"], [("warn", size, 500)])
            self.assertStatus(client.request("PUT", "/v1/tensors/a?persist=1", body), 200)
            self.assertProblem(client.request("PUT", "/v1/tensors/a?persist=1", body + [0]), 422, "RESOURCE_LIMIT", resource="disk_bytes", limit=500)
            self.assertProblem(client.request("PUT", "/v1/tensors/b?persist=1", [0]), 422, "RESOURCE_LIMIT", resource="disk_bytes")

    def test_sighup_notices_that_the_folder_was_replaced(self):
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/old?persist=1", [1]), 201)
            os.rename(self.folder, os.path.join(temporary_folder(), "moved"))
            os.mkdir(self.folder)
            self.file("new.npy", 2)
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda e: e.get("event") == "data_dir_replaced")
            self.wait_until(lambda: client.request("GET", "/v1/tensors/new").status == 200, "the scan of the new folder")
            self.assertStatus(client.request("GET", "/v1/tensors/old"), 404)
            self.assertStatus(client.request("PUT", "/v1/tensors/t?persist=1", [1]), 201)
            self.assertEqual(sorted(os.listdir(self.folder)), [".tensord.lock", "new.npy", "t.tensord"])

    def test_persisted_tensors_survive_a_restart(self):
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            reply = client.request("PUT", "/v1/tensors/kept?persist=1", ["a", ""])
            self.assertStatus(reply, 201)
            self.assertTrue(reply.json()["persisted"])
            self.assertStatus(client.request("PUT", "/v1/tensors/lost", [1]), 201)
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.assertEqual(client.request("GET", "/v1/tensors/kept?response=nested").json()["data"], ["a", ""])
            self.assertStatus(client.request("GET", "/v1/tensors/lost"), 404)
            self.assertStatus(client.request("DELETE", "/v1/tensors/kept"), 204)
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            self.assertEqual(client.request("GET", "/v1/tensors").json()["tensors"], [])

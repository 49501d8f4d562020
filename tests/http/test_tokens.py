"""Tokens: roles, prefixes, --read-only, and which request is refused before its body is read."""
import os, re, struct, tempfile
import route_table
from gates import GatedDaemon
from oip_client import *

ROOT = os.path.join(HERE, "..", "..")
READ, WRITE, ADMIN, TEAM, TEAM_READ = ("%s-token-0123456789" % name for name in ("read", "write", "admin", "team", "teamread"))
LINES = f"""# tokens of the tests
read {READ}
write {WRITE}
admin {ADMIN}
write {TEAM} team. shared:
read {TEAM_READ} team.
"""
GATHER = {"params": [1, 2], "indices": [1]}
NONE, MAY_READ, MAY_WRITE, MAY_ADMIN = range(4)

# Every line of the table in server/http/routes.c: methods, pattern, the role that it needs.
ROUTES = {
    ("GET", "/"): NONE,
    ("GET", "/docs"): NONE,
    ("GET", "/console/{file}"): NONE,
    ("GET", "/openapi.json"): MAY_READ,
    ("GET", "/healthz"): NONE,
    ("GET", "/readyz"): NONE,
    ("GET", "/metrics"): MAY_READ,
    ("GET", "/problems/{slug}"): NONE,
    ("GET", "/v1/ops"): MAY_READ,
    ("GET", "/v1/ops/{op}"): MAY_READ,
    ("GET", "/v1/devices"): MAY_READ,
    ("GET", "/v1/tensors"): MAY_READ,
    ("GET", "/v1/tensors/{name}"): MAY_READ,
    ("PUT", "/v1/tensors/{name}"): MAY_WRITE,
    ("DELETE", "/v1/tensors/{name}"): MAY_WRITE,
    ("GET", "/v1/tensors/{name}/statistics"): MAY_READ,
    ("GET", "/v1/tensors/{name}/keys"): MAY_READ,
    ("PUT", "/v1/tensors/{name}/keys"): MAY_WRITE,
    ("DELETE", "/v1/tensors/{name}/keys"): MAY_WRITE,
    ("POST", "/v1/tensors/{name}/scatter"): MAY_WRITE,
    ("POST", "/v1/tensors/{name}/upsert"): MAY_WRITE,
    ("POST", "/v1/tensors/{name}/remove"): MAY_WRITE,
    ("POST", "/v1/tensors/{table}/{row_op}"): MAY_READ,
    ("GET", "/v1/aliases"): MAY_READ,
    ("POST", "/v1/aliases"): MAY_WRITE,
    ("POST", "/v1/einsum/plan"): MAY_READ,
    ("POST", "/v1/programs/run"): MAY_READ,
    ("POST", "/v1/programs/plan"): MAY_READ,
    ("GET", "/v1/programs"): MAY_READ,
    ("GET", "/v1/programs/{program}"): MAY_READ,
    ("PUT", "/v1/programs/{program}"): MAY_WRITE,
    ("DELETE", "/v1/programs/{program}"): MAY_WRITE,
    ("POST", "/v1/programs/{program}"): MAY_READ,
    ("POST", "/v1/{op}"): MAY_READ,
    ("POST", "/v2/models/{model}/infer"): MAY_READ,
    ("POST", "/v2/models/{model}/versions/{version}/infer"): MAY_READ,
    ("GET", "/v2/health/live"): NONE,
    ("GET", "/v2/health/ready"): NONE,
    ("GET", "/v2"): MAY_READ,
    ("GET", "/v2/"): MAY_READ,
    ("GET", "/v2/models/stats"): MAY_READ,
    ("GET", "/v2/models/{model}"): MAY_READ,
    ("GET", "/v2/models/{model}/versions/{version}"): MAY_READ,
    ("GET", "/v2/models/{model}/ready"): MAY_READ,
    ("GET", "/v2/models/{model}/versions/{version}/ready"): MAY_READ,
    ("GET", "/v2/models/{model}/config"): MAY_READ,
    ("GET", "/v2/models/{model}/versions/{version}/config"): MAY_READ,
    ("GET", "/v2/models/{model}/stats"): MAY_READ,
    ("GET", "/v2/models/{model}/versions/{version}/stats"): MAY_READ,
    ("GET | POST", "/v2/models/{model}/trace/setting"): MAY_READ,
    ("GET | POST", "/v2/trace/setting"): MAY_READ,
    ("GET | POST", "/v2/logging"): MAY_READ,
    ("POST", "/v2/repository/index"): MAY_READ,
    ("POST", "/v2/repository/models/{model}/load"): MAY_ADMIN,
    ("POST", "/v2/repository/models/{model}/unload"): MAY_ADMIN,
    ("POST", "/v2/repository/{repo}/index"): MAY_READ,
    ("POST", "/v2/repository/{repo}/models/{model}/load"): MAY_ADMIN,
    ("POST", "/v2/repository/{repo}/models/{model}/unload"): MAY_ADMIN,
    ("GET", "/v2/systemsharedmemory/status"): MAY_READ,
    ("GET", "/v2/systemsharedmemory/region/{name}/status"): MAY_READ,
    ("POST", "/v2/systemsharedmemory/region/{name}/register"): MAY_ADMIN,
    ("POST", "/v2/systemsharedmemory/unregister"): MAY_ADMIN,
    ("POST", "/v2/systemsharedmemory/region/{name}/unregister"): MAY_ADMIN,
    ("GET", "/v2/cudasharedmemory/status"): MAY_READ,
    ("GET", "/v2/cudasharedmemory/region/{name}/status"): MAY_READ,
    ("POST", "/v2/cudasharedmemory/region/{name}/register"): MAY_ADMIN,
    ("POST", "/v2/cudasharedmemory/unregister"): MAY_ADMIN,
    ("POST", "/v2/cudasharedmemory/region/{name}/unregister"): MAY_ADMIN,
}


def token_file(text=LINES, mode=0o600):
    path = os.path.join(temporary_folder("tensord-tokens-"), "tokens")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
    return path


TOKENS = token_file()


def bearer(token):
    return {"Authorization": "Bearer " + token} if token else {}


def requests_of(methods, pattern):
    path = re.sub(r"\{(\w+)\}", lambda name: {"op": "gather", "model": "gather", "row_op": "gather", "version": "1", "slug": "forbidden"}.get(name[1], "team.x"), pattern)
    return [(method, path) for method in methods.split(" | ")]


def safetensors(metadata, **tensors):
    header, data = {"__metadata__": metadata}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "I32", "shape": [len(values)], "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}i", *values)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Guarded(HttpTest):
    options = ("--token-file", TOKENS)

    def ask(self, token, method, path, body=None, headers=None, daemon=None):
        with Client(daemon or self.daemon) as client:
            return client.request(method, path, body, {**bearer(token), **(headers or {})})

    def put(self, name, data, daemon=None):
        self.assertIn(self.ask(ADMIN, "PUT", "/v1/tensors/" + name, data, daemon=daemon).status, (200, 201))
        self.addCleanup(self.ask, ADMIN, "DELETE", "/v1/tensors/" + name, None, None, daemon)

    def code(self, reply):
        document = reply.json()
        return document.get("code")


class Roles(Guarded):
    def test_each_route_has_a_role_here(self):
        roles = ("NONE", "READ", "WRITE", "ADMIN")
        self.assertEqual({(methods, pattern): roles.index(role) for methods, pattern, role in route_table.routes()}, ROUTES)

    def test_each_route_is_refused_without_a_token_and_with_a_lower_role(self):
        for (methods, pattern), needed in ROUTES.items():
            for method, path in requests_of(methods, pattern):
                for role, token in enumerate((None, READ, WRITE, ADMIN)):
                    with self.subTest(method=method, path=path, token=token):
                        reply = self.ask(token, method, path, b"{}" if method in ("POST", "PUT") else None)
                        if role >= needed:
                            self.assertNotIn(reply.status, (401, 403), str(reply))
                        else:
                            self.assertStatus(reply, 403 if token else 401)
                            self.assertIn(("read", "write", "admin")[needed - 1] if token else "token", reply.body.decode())

    def test_a_request_without_a_token_or_with_a_wrong_one_is_401(self):
        for text, error in ((None, False), ("Basic dXNlcjpwYXNz", False), ("Bearer", False), ("Bearer " + READ[:-1], True),
                            ("Bearer " + READ + "x", True), ("Bearer " + READ.upper(), True), ("Bearer " + "x" * 4000, True),
                            ("Bearer " + READ + ", Bearer " + READ, True), ("Bearer \xff" * 3, True)):
            with self.subTest(text=text):
                reply = self.ask(None, "POST", "/v1/gather", GATHER, {"Authorization": text} if text else {})
                self.assertProblem(reply, 401, "UNAUTHENTICATED")
                self.assertEqual(reply.headers["WWW-Authenticate"],
                                 'Bearer realm="tensord"' + (', error="invalid_token"' if error else ""))
                self.assertNotIn(READ[:10], reply.body.decode().lower())

    def test_the_scheme_is_case_insensitive_and_a_second_header_is_refused(self):
        for scheme in ("Bearer ", "bearer ", "BEARER  "):
            self.assertStatus(self.ask(None, "POST", "/v1/gather", GATHER, {"Authorization": scheme + READ}), 200)
        with Raw(self.daemon) as raw:
            raw.send(f"GET /v1/ops HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READ}\r\nAuthorization: Bearer {READ}\r\n\r\n".encode())
            self.assertStatus(raw.reply(), 400)

    def test_v2_has_its_own_errors(self):
        reply = self.ask(None, "POST", "/v2/models/gather/infer", b"{}")
        self.assertEqual((reply.status, reply.type), (401, JSON))
        self.assertIn("error", reply.json())
        self.assertIn("WWW-Authenticate", reply.headers)

    def test_a_path_that_is_not_found_needs_a_token_too(self):
        self.assertProblem(self.ask(None, "GET", "/nowhere"), 401, "UNAUTHENTICATED")
        self.assertProblem(self.ask(None, "GET", "/v1/ops/nothing"), 401, "UNAUTHENTICATED")
        self.assertProblem(self.ask(READ, "GET", "/nowhere"), 404, "NOT_FOUND")

    def test_the_error_is_sent_before_a_large_body(self):
        for token, status in ((None, 401), (READ, 403)):
            for framing in ("Content-Length: 99999999", "Transfer-Encoding: chunked", "Content-Length: 30\r\nExpect: 100-continue"):
                with self.subTest(token=token, framing=framing), Raw(self.daemon) as raw:
                    line = f"Authorization: Bearer {token}\r\n" if token else ""
                    raw.send(f"PUT /v1/tensors/t HTTP/1.1\r\nHost: localhost\r\n{line}{framing}\r\n\r\n".encode())
                    self.assertStatus(raw.reply(), status)

    def test_each_request_of_a_connection_is_checked(self):
        with Client(self.daemon) as client:
            for token, status in ((READ, 200), (None, 401), (READ, 200), ("x" * 20, 401), (WRITE, 200), (READ[:-1] + "x", 401), (READ, 200)):
                self.assertStatus(client.request("POST", "/v1/gather", GATHER, bearer(token)), status)

    def test_store_needs_write(self):
        body = {**GATHER, "store": "stored"}
        for path, body in (("/v1/gather", body), ("/v1/gather?store=stored", GATHER)):
            self.assertProblem(self.ask(READ, "POST", path, body), 403, "FORBIDDEN")
            self.assertStatus(self.ask(WRITE, "GET", "/v1/tensors/stored"), 404)
            self.assertStatus(self.ask(WRITE, "POST", path, body), 200)
            self.assertStatus(self.ask(WRITE, "DELETE", "/v1/tensors/stored"), 204)

    def test_options_need_no_token(self):
        self.assertStatus(self.ask(None, "OPTIONS", "/v1/gather"), 204)

    def test_a_token_is_neither_logged_nor_sent(self):
        with Daemon("--token-file", TOKENS, "--log-level", "debug") as daemon:
            daemon.at_start = None  # which would ask without a token
            for token in (READ, "secretsecretsecret", READ[:-1]):
                reply = self.ask(token, "GET", "/v1/tensors/none", daemon=daemon)
                self.assertNotIn(token, str(reply) + str(reply.headers))
            self.assertNotIn("token-0123", daemon.tail(1000))
            self.assertNotIn("secretsecret", daemon.tail(1000))


class Preflights(Guarded):
    options = ("--token-file", TOKENS, "--allow-origin", "https://app.example")

    def test_a_preflight_needs_no_token_and_allows_the_header(self):
        page = {"Origin": "https://app.example"}
        reply = self.ask(None, "OPTIONS", "/v1/gather", None, {**page, "Access-Control-Request-Method": "POST",
                                                             "Access-Control-Request-Headers": "authorization"})
        self.assertStatus(reply, 204)
        self.assertIn("Authorization", reply.headers["Access-Control-Allow-Headers"])
        reply = self.ask(None, "POST", "/v1/gather", GATHER, page)
        self.assertProblem(reply, 401, "UNAUTHENTICATED")
        self.assertEqual(reply.headers["Access-Control-Allow-Origin"], "https://app.example")
        self.assertIn("WWW-Authenticate", reply.headers["Access-Control-Expose-Headers"])
        self.assertStatus(self.ask(READ, "POST", "/v1/gather", GATHER, page), 200)


class Prefixes(Guarded):
    def ways(self, name):
        """every way of naming a table: what, method, path, body, headers"""
        ref = {"ref": name}
        octets = {"Content-Type": "application/vnd.safetensors"}
        yield "input", "POST", "/v1/gather", {"params": ref, "indices": [0]}, {}
        yield "list of inputs", "POST", "/v1/einsum", {"equation": "i,i->i", "inputs": [[1, 2], ref]}, {}
        yield "metadata", "POST", "/v1/gather", safetensors({"params.ref": name}, indices=[0]), octets
        yield "numbered metadata", "POST", "/v1/einsum", safetensors({"inputs.1.ref": name, "equation": "i,i->i"}, **{"inputs.0": [1, 2]}), octets
        for path in ("/v2/models/gather/infer", "/v2/models/gather/versions/1/infer"):
            yield path, "POST", path, *envelope([oip_input("indices", "INT32", [1], [0])], parameters={"params.ref": name})
        for path in ("", "/ready", "/config", "/stats", "/versions/1", "/versions/1/stats"):
            yield "model" + path, "GET", f"/v2/models/{name}{path}", None, {}
        yield "model, escaped", "GET", f"/v2/models/%{ord(name[0]):02x}{name[1:]}", None, {}
        for path in ("/infer", "/versions/1/infer"):
            yield "model" + path, "POST", f"/v2/models/{name}{path}", *envelope([oip_input("indices", "INT32", [1], [0])])
        yield "scatter's updates", "POST", "/v1/tensors/team.t/scatter", {"indices": [[0], [1]], "updates": ref}, {}
        yield "get", "GET", f"/v1/tensors/{name}", None, {}
        yield "head", "HEAD", f"/v1/tensors/{name}", None, {}
        yield "escaped", "GET", f"/v1/tensors/%{ord(name[0]):02x}{name[1:]}", None, {}
        yield "values", "GET", f"/v1/tensors/{name}?response=nested", None, {}
        yield "lookup", "POST", f"/v1/tensors/{name}/gather", {"indices": [0]}, {}
        yield "escaped lookup", "POST", f"/v1/tensors/%{ord(name[0]):02x}{name[1:]}/gather_nd", {"indices": [[0]]}, {}
        yield "indices of a lookup", "POST", "/v1/tensors/team.t/gather", {"indices": ref, "bounds": "zero"}, {}
        yield "scatter", "POST", f"/v1/tensors/{name}/scatter", {"indices": [[0]], "updates": [5]}, {}
        yield "store", "POST", "/v1/gather", {**GATHER, "store": name}, {}
        yield "store in the query", "POST", "/v1/gather?store=" + name, GATHER, {}
        yield "put a copy", "PUT", "/v1/tensors/team.copy", ref, {"Content-Type": JSON}
        yield "put", "PUT", f"/v1/tensors/{name}", [1, 2], {}
        yield "delete", "DELETE", f"/v1/tensors/{name}", None, {}

    def test_each_way_of_naming_a_table_is_checked(self):
        self.put("team.t", [1, 2])
        self.put("other", [7, 8])
        for what, method, path, body, headers in self.ways("other"):
            with self.subTest(what):
                refused = self.ask(TEAM, method, path, body, headers)
                self.assertStatus(refused, 403)
                if method != "HEAD":
                    self.assertIn("other", refused.body.decode())
        self.assertEqual(self.ask(ADMIN, "GET", "/v1/tensors/other?response=nested").json()["data"], [7, 8])
        self.put("team.copy", [0])
        for what, method, path, body, headers in self.ways("team.t"):
            with self.subTest(what):
                self.put("team.t", [1, 2])
                self.assertIn(self.ask(TEAM, method, path, body, headers).status, (200, 201, 204))

    def test_the_refusal_does_not_depend_on_whether_the_table_exists(self):
        self.put("team.t", [1, 2])
        self.put("visible", [1])
        hide = lambda text, name: re.sub(r'"(request_id|instance)":"[^"]*"', "", text).replace(name, "NAME")
        for there, gone in zip(self.ways("visible"), self.ways("missing")):
            with self.subTest(there[0]):
                first, second = self.ask(TEAM, *there[1:]), self.ask(TEAM, *gone[1:])
                self.assertEqual(first.status, second.status)
                self.assertEqual(hide(first.body.decode(), "visible"), hide(second.body.decode(), "missing"))

    def test_a_name_outside_the_prefixes_is_not_suggested(self):
        self.put("teamx", [1])
        self.put("team.known", [1])
        for method, path, body in (("GET", "/v1/tensors/team.", None), ("DELETE", "/v1/tensors/team.", None),
                                   ("POST", "/v1/gather", {"params": {"ref": "team."}, "indices": [0]})):
            reply = self.ask(TEAM, method, path, body)
            self.assertProblem(reply, 404, "TENSOR_NOT_FOUND")
            self.assertNotIn("teamx", reply.body.decode())
            self.assertIn("teamx", self.ask(ADMIN, method, path, body).body.decode())
        self.assertIn("team.known", self.ask(TEAM, "GET", "/v1/tensors/team.knwn").body.decode())

    def test_stored_outputs_have_one_of_the_prefixes(self):
        body = {"data": [1, 2], "partitions": [0, 1], "num_partitions": 2}
        self.assertProblem(self.ask(TEAM, "POST", "/v1/dynamic_partition", {**body, "store": "team"}), 403, "FORBIDDEN")
        self.assertStatus(self.ask(TEAM, "POST", "/v1/dynamic_partition", {**body, "store": "team.p"}), 200)
        for name in ("team.p.0", "team.p.1"):
            self.assertStatus(self.ask(TEAM, "DELETE", "/v1/tensors/" + name), 204)

    def test_the_list_has_what_the_token_may_name(self):
        for name in ("a", "shared:x", "team", "team.t", "zz"):
            self.put(name, [1])
        for token, expected in ((TEAM, ["shared:x", "team.t"]), (TEAM_READ, ["team.t"]), (READ, ["a", "shared:x", "team", "team.t", "zz"])):
            self.assertEqual([t["name"] for t in self.ask(token, "GET", "/v1/tensors").json()["tensors"]], expected)
            for limit in range(1, 7):  # a page shows no name, and no end, of what the token may not name
                page = self.ask(token, "GET", f"/v1/tensors?limit={limit}").json()
                self.assertEqual([t["name"] for t in page["tensors"]], expected[:limit])
                self.assertEqual(page.get("next"), expected[limit - 1] if limit < len(expected) else None)

    def test_aliases_need_the_right_to_their_versions(self):
        for name in ("team.t", "team.t@1", "team.t@2", "other@1"):
            self.put(name, [1, 2])
        flip = lambda token, names, wanted=None: self.ask(token, "POST", "/v1/aliases", {"set": names, "if": wanted})
        self.addCleanup(flip, ADMIN, {"team.now": None, "team.else": None, "outside": None})
        self.assertStatus(flip(TEAM, {"team.now": "team.t@1"}), 200)
        for names, wanted in (({"outside": "team.t@1"}, None), ({"team.now": "other@1"}, None), ({"team.now": None, "outside": None}, None),
                              ({"team.now": "team.t@2"}, {"outside": None}), ({"team.now": "team.t@2"}, {"team.now": "other@1"})):
            with self.subTest(names=names, wanted=wanted):
                self.assertProblem(flip(TEAM, names, wanted), 403, "FORBIDDEN")
        self.assertProblem(flip(TEAM_READ, {"team.now": "team.t@2"}), 403, "FORBIDDEN")
        self.assertStatus(flip(ADMIN, {"team.else": "other@1", "outside": "team.t@1"}), 200)
        self.assertIn("etag", self.assertProblem(flip(TEAM, {"team.now": "team.t@2"}, {"team.now": None}), 412, "PRECONDITION_FAILED"))
        self.assertNotIn("etag", self.assertProblem(flip(TEAM, {"team.else": "team.t@2"}, {"team.else": None}), 412, "PRECONDITION_FAILED"))
        for token, expected in ((TEAM, {"team.now": "team.t@1"}), (TEAM_READ, {"team.now": "team.t@1"}),
                                (READ, {"outside": "team.t@1", "team.else": "other@1", "team.now": "team.t@1"})):
            self.assertEqual(self.ask(token, "GET", "/v1/aliases").json()["aliases"], expected)
        for name, status in (("team.now", 200), ("team.else", 403), ("outside", 403)):
            for what, method, path, body, headers in self.ways(name):
                if method in ("PUT", "DELETE") or "s" in what.split()[0][:1]:
                    continue  # they write
                if f"{name}/versions/" in path:
                    continue  # an alias names one
                with self.subTest(what, name=name):
                    reply = self.ask(TEAM, method, path, body, headers)
                    self.assertStatus(reply, status)
                    self.assertNotIn("other@1", reply.body.decode())
        reply = flip(TEAM, {"team.else": "team.t@1"}, {"team.else": "team.t@1"})
        self.assertProblem(reply, 412, "PRECONDITION_FAILED")
        self.assertNotIn("other@1", reply.body.decode())
        for headers in ({"If-Match": '"x"'}, {"If-Match": '"x"', "Expect": "100-continue"}, {"If-None-Match": "*"}):
            with self.subTest(headers):
                self.assertIn("etag", self.assertProblem(self.ask(ADMIN, "DELETE", "/v1/tensors/team.else", None, headers), 412, "PRECONDITION_FAILED"))
                self.assertProblem(self.ask(TEAM, "DELETE", "/v1/tensors/team.else", None, headers), 403, "FORBIDDEN")
        self.assertStatus(self.ask(TEAM, "DELETE", "/v1/tensors/team.else"), 204)

    def test_a_condition_of_a_deletion_does_not_tell_about_a_version_that_the_token_may_not_name(self):
        plain = lambda reply: (reply.status, re.sub(r'"(request_id|instance)":"[^"]*"', "", reply.body.decode()), reply.headers.get("ETag"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "other@1.npy")
            with open(path, "wb") as file:
                file.write(npy("<i4", (1,), bytes(4)))
            with Daemon("--token-file", TOKENS, "--data-dir", folder) as daemon:
                daemon.at_start = None  # the tensors stay
                ask = lambda token, method, path, body=None, headers=None: self.ask(token, method, path, body, headers, daemon)
                self.assertStatus(ask(ADMIN, "POST", "/v1/aliases", {"set": {"team.else": "other@1"}}), 200)
                tag = ask(ADMIN, "GET", "/v1/tensors/other@1").headers["ETag"]
                conditions = [{"If-Match": value, **expect} for value in (tag, '"x"', "*", "W/" + tag) for expect in ({}, {"Expect": "100-continue"})]
                conditions += [{"If-None-Match": "*"}]
                delete = lambda: [plain(ask(TEAM, "DELETE", "/v1/tensors/team.else", None, headers)) for headers in conditions]
                there = delete()
                os.unlink(path)
                daemon.send_signal(signal.SIGHUP)
                self.wait_until(lambda: ask(ADMIN, "GET", "/v1/tensors/other@1").status == 404)
                self.assertEqual(delete(), there)
                self.assertEqual({status for status, _, _ in there}, {403})
                self.assertStatus(ask(TEAM, "DELETE", "/v1/tensors/team.else"), 204)

    def test_a_pair_of_aliases_does_not_tell_about_a_partner_that_the_token_may_not_name(self):
        for name in ("team.q@1", "team.q.scale@1", "other@1", "team.scale@1", "team.scale@2", "team@1"):
            self.put(name, [1, 2])
        plain = lambda reply: (reply.status, re.sub(r'"(request_id|instance)":"[^"]*"', "", reply.body.decode()))
        flip = lambda token, **names: plain(self.ask(token, "POST", "/v1/aliases", {"set": {name.replace("_", "."): target for name, target in names.items()}}))
        self.addCleanup(flip, ADMIN, team=None, team_scale=None, team_q=None, team_q_scale=None)
        # the token is for team.*: neither for the alias team nor for other@1
        absent = flip(TEAM, team_scale="team.scale@2")
        self.assertEqual(absent[0], 403)
        self.assertEqual(flip(ADMIN, team="team@1")[0], 200)
        self.assertEqual(flip(TEAM, team_scale="team.scale@2"), absent)
        self.assertEqual(flip(ADMIN, team_q="other@1")[0], 200)
        without = flip(TEAM, team_q_scale="team.q.scale@1")
        self.assertEqual(without[0], 403)
        self.put("other.scale@1", [1, 2])
        self.assertEqual(flip(TEAM, team_q_scale="team.q.scale@1"), without)
        self.assertEqual(flip(TEAM, team_q="team.q@1", team_q_scale="team.q.scale@1")[0], 200)

    def test_a_refused_pair_of_aliases_names_no_version_that_the_token_may_not_name(self):
        versions = [f"{table}{part}@1" for table in ("team.q", "other") for part in ("", ".scale")]
        for name in versions:
            self.put(name, [1, 2])
        flip = lambda token, **names: self.ask(token, "POST", "/v1/aliases", {"set": {"team." + name.replace("_", "."): target for name, target in names.items()}})
        self.addCleanup(flip, ADMIN, q=None, q_scale=None)
        for rows, part in (("other@1", "other.scale@1"), ("team.q@1", "other.scale@1"), ("other@1", None)):
            self.assertStatus(flip(ADMIN, q=None, q_scale=None), 200)
            self.assertIn(flip(ADMIN, q=rows, q_scale=part).status, (200, 409))
            for names in ({"q": "team.q@1"}, {"q_scale": "team.q.scale@1"}):
                with self.subTest(rows=rows, part=part, names=names):
                    self.assertNotRegex(flip(TEAM, **names).body.decode(), "other[.@]")

    def test_an_alias_says_nothing_of_a_version_that_the_token_may_not_name(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon("--token-file", TOKENS, "--data-dir", folder) as daemon:
                daemon.at_start = None  # the tensors stay
                for name in ("other@1", "other@2", "other@3", "other@4"):
                    self.assertStatus(self.ask(ADMIN, "PUT", f"/v1/tensors/{name}?persist=1", [1, 2], None, daemon), 201)
                self.assertStatus(self.ask(ADMIN, "PUT", "/v1/tensors/other@4/keys?persist=1", [5, 6], None, daemon), 201)
                aliases = {"team.damaged": "other@1", "team.gone": "other@2", "team.plain": "other@3", "team.keyed": "other@4"}
                self.assertStatus(self.ask(ADMIN, "POST", "/v1/aliases?persist=1", {"set": aliases}, None, daemon), 200)
            with open(os.path.join(folder, "other@1.tensord"), "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\xff")
            os.unlink(os.path.join(folder, "other@2.tensord"))
            with Daemon("--token-file", TOKENS, "--data-dir", folder, "--verify", "start") as daemon:
                daemon.at_start = None
                for name in aliases:
                    ref = {"ref": name + ".keys"}
                    for method, path, body in (("GET", f"/v1/tensors/{name}", None), ("GET", f"/v1/tensors/{name}/keys", None),
                                               ("GET", f"/v1/tensors/{name}.keys/statistics", None), ("GET", f"/v2/models/{name}", None),
                                               ("POST", "/v1/gather", {"params": {"ref": name}, "indices": [0]}),
                                               ("POST", "/v1/find", {"keys": ref, "queries": [5]}), ("POST", f"/v1/tensors/{name}/gather", {"indices": [0]})):
                        with self.subTest(method=method, path=path, body=body):
                            reply = self.ask(TEAM, method, path, body, None, daemon)
                            self.assertStatus(reply, 403)
                            self.assertNotIn("other", reply.body.decode())
                self.assertIn("other@1.tensord", self.ask(READ, "GET", "/v1/tensors/team.damaged", None, None, daemon).body.decode())
                problems = [self.ask(token, "GET", "/v1/aliases", None, None, daemon).json()["problems"] for token in (READ, TEAM)]
                self.assertIn("other@2", str(problems[0]))
                self.assertEqual(problems[1], [])

    def test_metrics_name_only_tables_that_the_token_may_name(self):
        with Daemon("--token-file", TOKENS) as daemon:
            daemon.at_start = None  # the tensors stay
            for name, lookups in (("hidden", 2), ("team.seen", 1), ("veiled", 3)):
                self.assertStatus(self.ask(ADMIN, "PUT", "/v1/tensors/" + name, [1, 2], None, daemon), 201)
                for _ in range(lookups):
                    self.assertStatus(self.ask(ADMIN, "POST", f"/v1/tensors/{name}/gather", {"indices": [0]}, None, daemon), 200)
            counts = {}
            for token in (READ, TEAM):
                text = self.ask(token, "GET", "/metrics", None, None, daemon).body.decode()
                counts[token] = dict(re.findall(r'tensord_table_lookups_total\{table="([^"]*)",result="succeeded"\} (\d+)', text))
        self.assertEqual(counts[READ], {"hidden": "2", "team.seen": "1", "veiled": "3"})
        self.assertEqual(counts[TEAM], {"team.seen": "1", "(other)": "5"})

    def test_the_index_has_what_the_token_may_name(self):
        for name in ("a", "shared:x", "team", "team.t", "team.t@v1"):
            self.put(name, [1])
        tables = lambda token: [(m["name"], m["version"]) for m in self.ask(token, "POST", "/v2/repository/index", b"").json()
                                if m["name"] not in OPS]
        self.assertEqual(tables(TEAM), [("shared:x", "1"), ("team.t", "1"), ("team.t", "v1")])
        self.assertEqual(tables(TEAM_READ), [("team.t", "1"), ("team.t", "v1")])
        self.assertEqual([name for name, _ in tables(READ)], ["a", "shared:x", "team", "team.t", "team.t"])

    def test_a_token_gets_the_op_whose_name_a_table_has_that_it_may_not_name(self):
        for name in ("einsum", "team.rows@1", "top_k@1"):
            self.put(name, [1])
        self.assertEqual(self.ask(ADMIN, "POST", "/v1/aliases", {"set": {"cast": "team.rows@1"}}).status, 200)
        self.addCleanup(self.ask, ADMIN, "POST", "/v1/aliases", {"set": {"cast": None}})
        for model in ("einsum", "top_k", "cast"):
            path = f"/v2/models/{model}/versions/1"
            self.assertEqual([self.ask(token, "GET", path).json()["platform"] for token in (READ, TEAM)], ["tensord_table", "tensord_op"])

    def test_a_model_outside_the_prefixes_is_not_suggested(self):
        self.put("teamx", [1])
        self.assertNotIn("teamx", self.ask(TEAM, "GET", "/v2/models/team.").body.decode())
        self.assertIn("teamx", self.ask(ADMIN, "GET", "/v2/models/team.").body.decode())

    def sweep(self, name):
        """requests about a name on all routes that take one, and in all other places"""
        ref, path = {"ref": name}, f"/v1/tensors/{name}"
        yield from (way[1:] for way in self.ways(name))
        for tail in ("/keys", "/statistics", "?response=flat", "/keys?response=flat"):
            for headers in ({}, {"If-Match": '"x"'}, {"If-None-Match": "*"}):
                yield "GET", path + tail, None, headers
        for headers in ({"If-Match": "*"}, {"If-None-Match": "*"}, {"Expect": "100-continue"}):
            yield "PUT", path, [1, 2], headers
            yield "DELETE", path, None, headers
        yield "PUT", path + "/keys", [5, 6], {}
        yield "GET", path + "/keys", None, {}
        yield "POST", path + "/upsert", {"keys": [5], "rows": [1]}, {}
        yield "POST", path + "/remove", {"keys": [5]}, {}
        for op, body in (("gather", {"indices": {"keys": [5]}}), ("gather", {"indices": [0]}), ("lookup", {"queries": [5]}), ("find", {"queries": [5]}),
                         ("batch_gather", {"indices": [0]}), ("embedding_bag", {"indices": [0], "offsets": [0]}), ("gather", {})):
            yield "POST", f"{path}/{op}", body, {}
        yield "DELETE", path + "/keys", None, {}
        for body in ({"keys": ref, "queries": [5]}, {"keys": [5], "queries": ref}):
            yield "POST", "/v1/find", body, {}
        yield "POST", "/v1/gather", {"params": {"ref": "team.keyed"}, "indices": {"keys": ref}}, {}
        yield "POST", "/v1/dequantize", {"data": {"ref": "team.bytes"}, "scale": ref}, {}
        yield "POST", "/v1/dequantize", {"data": ref, "scale": 1.0}, {}
        yield "POST", "/v1/embedding_bag", {"params": ref, "indices": [0], "offsets": [0]}, {}
        yield "POST", "/v1/einsum/plan", {"equation": "i,i->i", "inputs": [[1, 2], ref]}, {}
        yield "POST", "/v1/programs/run", {"inputs": {"i": [0]}, "outputs": ["y"],
                                           "steps": [{"op": "gather", "params": ref, "indices": "$i", "as": "y"}]}, {}
        yield "POST", "/v1/programs/plan", {"inputs": {"i": [0]}, "outputs": ["y"],
                                            "steps": [{"op": "gather", "params": ref, "indices": "$i", "as": "y"}]}, {}
        yield "PUT", "/v1/programs/team.program", {"inputs": {"i": {"dtype": "int32", "shape": [1]}}, "outputs": ["y"],
                                                   "steps": [{"op": "gather", "params": ref, "indices": "$i", "as": "y"}]}, {}
        for aliases in ({"set": {name: "team.t@1"}}, {"set": {"team.alias": name}}, {"set": {}, "if": {name: None}}, {"set": {}, "if": {"team.alias": name}},
                        {"set": {name + ".scale": "team.scale@1"}}, {"set": {name: None}}):
            yield "POST", "/v1/aliases", aliases, {}
        yield "DELETE", path, None, {}

    def replies(self, put, set_aliases, requests):
        """what the token gets from a daemon with these tensors of others, "NAME" or "NAME+keys", and aliases"""
        def plain(reply):
            varied = ["Date", "X-Request-Id", "ETag", "traceparent"] + ["Content-Length"] * (b'"ns":' in reply.body)  # times of statistics
            headers = sorted((name, value) for name, value in reply.headers.items() if name not in varied)
            text = re.sub(r'"(request_id|instance)":"[^"]*"|"(ns|last_inference)":[0-9]+|\\?"[a-z]?[0-9a-f]{16}[^"]*"', "", reply.body.decode("latin-1"))
            return reply.status, headers, "ETag" in reply.headers, text
        with Daemon("--token-file", TOKENS) as daemon:
            daemon.at_start = None  # the tensors stay
            visible = ["team.t", "team.t@1", "team.keyed+keys", "team.known", "shared:w+keys", "team.scale@1"]
            for name in put + visible:
                name, keyed, _ = name.partition("+")
                self.assertIn(self.ask(ADMIN, "PUT", "/v1/tensors/" + name, [1, 2], daemon=daemon).status, (200, 201))
                status = self.ask(ADMIN, "PUT", f"/v1/tensors/{name}/keys", [5, 6], daemon=daemon).status if keyed else 200
                self.assertIn(status, (200, 201))
            self.assertStatus(self.ask(ADMIN, "PUT", "/v1/tensors/team.bytes", npy("int8", (2, 1), bytes(2)), {"Content-Type": "application/x-npy"}, daemon), 201)
            self.assertStatus(self.ask(ADMIN, "POST", "/v1/aliases", {"set": set_aliases}, daemon=daemon), 200)
            return [plain(self.ask(TEAM, *request, daemon=daemon)) for request in requests]

    def test_no_reply_tells_of_a_table_that_the_token_may_not_name(self):
        """one daemon with tables whose names are near those of the token, and one with others in their place"""
        names = [base + part + version for base in ("team", "shared", "shared:w", "team.t") for part in ("", ".keys", ".scale", ".offset", ":rows", ".keys.keys")
                 for version in ("", "@7")]
        names += ["einsum", "top_k", "top_k@7", "cast"]  # ops
        names += ["team@1", "team.keys@1", "team.", "team.knwn", "team.t@", "team.t.scale.keys", "teams", "team..keys", "team.scale.keys@7", "shared:rows.keys@7"]
        requests = [request for name in names for request in self.sweep(name)]
        requests += [("GET", path, None, {}) for path in ("/v1/tensors", "/v1/tensors?limit=1", "/v1/tensors?prefix=team", "/v1/aliases", "/v2/models/stats")]
        requests += [("POST", "/v2/repository/index", b"", {})]
        near = ["team@7", "team", "shared@7", "shared", "team:rows", "team:rows@7", "team@1", "team-knwn", "team-t@7", "shared.scale@7", "einsum", "top_k@7", "cast"]
        far = {name: f"zz{i}{name[name.find('@'):] if '@' in name else ''}" for i, name in enumerate(near)}
        for what, suffix, aliases in (("with keys", "+keys", {}), ("without keys", "", {}), ("an alias of a table of the token", "+keys", {"team": "team.t@1"}),
                                      ("an alias of another table", "+keys", {"team": "team@7"})):
            names = [name for name in near if name not in aliases]
            there = self.replies([name + suffix for name in names], aliases, requests)
            gone = self.replies([far[name] + suffix for name in names], {far[name]: far.get(target, target) for name, target in aliases.items()}, requests)
            self.assertLessEqual({200, 201, 204, 403, 404, 409, 412, 422}, {reply[0] for reply in there})  # it tries something
            for request, reply, other in zip(requests, there, gone):
                with self.subTest(what, request=request):
                    self.assertEqual(reply, other)

    def test_names_reach_the_store_in_one_file(self):
        folder = os.path.join(ROOT, "server/calls")
        for name in sorted(os.listdir(folder)):
            if name.endswith(".c") and name != "catalog.c":
                with open(os.path.join(folder, name), encoding="utf-8") as source:
                    found = re.findall(r"td_store_(?:get|knows|list|resolver|resolve)\(", source.read())
                self.assertEqual(found, [], name)


class Reloads(HttpTest):
    def setUp(self):
        self.path = token_file()
        self.daemon = Daemon("--token-file", self.path)
        self.addCleanup(self.daemon.stop)

    def reload(self, text, event):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
        before = sum(e.get("event") == event for e in self.daemon.events())
        self.daemon.send_signal(signal.SIGHUP)
        self.wait_until(lambda: sum(e.get("event") == event for e in self.daemon.events()) > before)

    def test_open_connections_see_the_new_tokens_and_a_bad_file_changes_none(self):
        with Client(self.daemon) as client:
            def status(token):
                return client.request("GET", "/v1/ops", None, bearer(token)).status
            self.assertEqual((status(READ), status("new-token-0123456789")), (200, 401))
            self.reload("read new-token-0123456789\n", "tokens_read")
            self.assertEqual((status(READ), status("new-token-0123456789")), (401, 200))
            self.reload("read new-token-0123456789\nread short\n", "tokens_kept")
            self.assertEqual((status(READ), status("new-token-0123456789")), (401, 200))
            kept = [e for e in self.daemon.events() if e.get("event") == "tokens_kept"][-1]
            self.assertIn(f"{self.path} line 2", kept["reason"])
            self.assertNotIn("short", kept["reason"])

    def test_requests_during_many_reloads_are_answered(self):
        done = threading.Event()
        statuses = []

        def ask():
            with Client(self.daemon) as client:
                while not done.is_set():
                    statuses.append(client.request("POST", "/v1/gather", GATHER, bearer(READ)).status)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for i in range(20):
                answered = len(statuses)
                self.reload(LINES + f"read more-{i:016}\n", "tokens_read")
                self.wait_until(lambda: len(statuses) > answered, "a reply")
        finally:
            done.set()
            for thread in threads:
                thread.join()
        self.assertEqual(set(statuses), {200})


class Starts(HttpTest):
    def check(self, path):
        done = subprocess.run([BINARY, "--check-config", "--listen", "127.0.0.1:0", "--token-file", path], env=environment(), capture_output=True, text=True, timeout=WAIT_LIMIT)
        return done.returncode, done.stdout + done.stderr

    def test_a_wrong_file_refuses_the_start(self):
        path = token_file("read short\n")
        status, output = self.check(path)
        self.assertEqual(status, 2, output)
        self.assertIn(f"{path} line 1", output)
        self.assertNotIn("short", output)
        self.assertEqual(self.check("/nowhere")[0], 2)
        self.assertEqual(self.check("/tmp")[0], 2)
        self.assertEqual(self.check(TOKENS)[0], 0)

    def test_a_prefix_of_no_tensor_is_a_warning(self):
        folder, path = temporary_folder(), token_file(f"read {READ} shop: shop.npy al w\n")
        arguments = [BINARY, "--check-config", "--listen", "127.0.0.1:0", "--token-file", path, "--data-dir", folder]
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            client.request("PUT", "/v1/tensors/shop:a@1?persist=1", [1])
            client.request("POST", "/v1/aliases?persist=1", {"set": {"alias": "shop:a@1"}})
        output = subprocess.run(arguments, env=environment(), capture_output=True, text=True, timeout=WAIT_LIMIT).stdout
        self.assertEqual([line for line in output.splitlines() if line.startswith("warning")],
                         [f"warning  token-file {path} line 1: no tensor or alias in the data folder has a name that starts with '{prefix}'" for prefix in ("shop.npy", "w")])

    def test_the_check_says_what_each_token_is_for(self):
        path = token_file(f"read {READ} name=my app\n# all\nadmin {ADMIN}\n")
        status, output = self.check(path)
        self.assertEqual(status, 0, output)
        self.assertIn(f"ok       token-file {path} line 1: my has the role read for tensors whose names start with 'app'\n", output)
        self.assertIn(f"ok       token-file {path} line 3: #3 has the role admin for every tensor\n", output)
        self.assertNotIn(READ, output)

    def test_the_daemon_keeps_no_token_in_its_memory(self):
        secret = "kept-nowhere-" + "0123456789abcdef" * 2
        path = token_file("# a comment\n" * 50 + "read " + secret + "\n")
        daemon = Daemon("--token-file", path)
        try:
            def is_in_memory(text):
                with open(f"/proc/{daemon.process.pid}/maps", encoding="utf-8") as maps, \
                        open(f"/proc/{daemon.process.pid}/mem", "rb", 0) as memory:
                    for line in maps:
                        begin, end = (int(n, 16) for n in line.split()[0].split("-"))
                        if line.split()[1].startswith("rw") and end - begin < 1 << 28:
                            memory.seek(begin)
                            if text.encode() in memory.read(end - begin):
                                return True
                return False
            try:
                self.assertTrue(is_in_memory("tokens_read") or is_in_memory(path))
            except PermissionError:
                self.skipTest("the memory of the daemon cannot be read")
            self.assertFalse(is_in_memory(secret))
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: sum(e.get("event") == "tokens_read" for e in daemon.events()) == 2)
            self.assertFalse(is_in_memory(secret))
        finally:
            daemon.stop()

    def test_a_file_that_others_can_read_gives_a_warning(self):
        with Daemon("--token-file", token_file(mode=0o644)) as daemon:
            daemon.at_start = None  # which would ask without a token
            self.assertTrue(any(e.get("event") == "token_file_exposed" for e in daemon.events()))


class Metrics(Guarded):
    def test_the_address_for_metrics_needs_no_token(self):
        with Daemon("--token-file", TOKENS, "--metrics-listen", "127.0.0.1:0") as daemon:
            daemon.at_start = None  # which would ask without a token
            address = daemon.wait_log(lambda e: e.get("event") == "metrics_listening")["address"]
            connection = http.client.HTTPConnection(*address.split(":"), timeout=WAIT_LIMIT)
            for path, status in (("/metrics", 200), ("/healthz", 200), ("/v1/tensors", 404)):
                connection.request("GET", path)
                reply = connection.getresponse()
                reply.read()
                self.assertEqual(reply.status, status)
            connection.close()


class Shares(Guarded):
    options = ("--token-file", TOKENS, "--client-requests", "1", "--workers", "2", "--inline-limit-us", "0")
    gated = True

    def test_a_token_is_a_client_wherever_it_comes_from(self):
        with self.daemon.gates.closed("compute") as gate, Client(self.daemon) as first:
            first.send("POST", "/v1/gather", json.dumps(GATHER), {**bearer(READ), "Content-Type": JSON})
            gate.arrival()
            gate.let_pass()
            self.assertProblem(self.ask(READ, "POST", "/v1/gather", GATHER), 429, "CLIENT_LIMIT")
            self.assertStatus(self.ask(WRITE, "POST", "/v1/gather", GATHER), 200)
            gate.open()
            self.assertStatus(first.receive(), 200)


class ReadOnly(Guarded):
    def setUp(self):
        self.folder = temporary_folder("tensord-read-only-")
        self.writer = Daemon("--data-dir", self.folder)
        self.addCleanup(self.writer.stop)
        self.daemon = GatedDaemon("--data-dir", self.folder, "--token-file", TOKENS, "--read-only")
        self.addCleanup(self.daemon.stop)

    def test_every_change_is_refused_and_a_scan_finds_new_tensors(self):
        for (methods, pattern), needed in ROUTES.items():
            if needed > MAY_READ:
                for method, path in requests_of(methods, pattern):
                    reply = self.ask(ADMIN, method, path, b"{}")
                    self.assertStatus(reply, 403)
                    self.assertIn("read-only", reply.body.decode())
        reply = self.ask(ADMIN, "POST", "/v1/gather", {**GATHER, "store": "t"})
        self.assertIn("read-only", self.assertProblem(reply, 403, "FORBIDDEN")["detail"])
        self.assertStatus(self.ask(READ, "POST", "/v1/gather", GATHER), 200)
        with Client(self.writer) as writer:
            self.assertStatus(writer.request("PUT", "/v1/tensors/t?persist=1", [1, 2]), 201)
        self.scan(self.daemon, "t")

    def scan(self, daemon, name):
        """lets the daemon look at its folder, and waits until it has found a new tensor there"""
        daemon.send_signal(signal.SIGHUP)
        self.wait_until(lambda: self.ask(READ, "GET", f"/v1/tensors/{name}", daemon=daemon).status == 200, f"{name} is found")

    def file(self, folder, name):
        """a file that is complete before it has its name"""
        with open(os.path.join(folder, name + ".part"), "wb") as file:
            file.write(npy("int32", (1,), pack("int32", [1])))
        os.rename(file.name, os.path.join(folder, name))

    def test_it_never_takes_the_lock(self):
        lock = os.path.join(self.folder, ".tensord.lock")
        self.assertTrue(os.path.exists(lock))
        with tempfile.TemporaryDirectory(prefix="tensord-read-only-") as folder:
            with Daemon("--data-dir", folder, "--read-only") as daemon:
                daemon.at_start = None  # the tensors stay
                self.file(folder, "t.npy")
                self.scan(daemon, "t")
                self.assertEqual(os.listdir(folder), ["t.npy"])
        self.writer.stop()
        for i in range(3):
            self.daemon.clock.advance(2)  # a daemon that wants the lock tries for it each second
            self.file(self.folder, f"t{i}.npy")
            self.scan(self.daemon, f"t{i}")
        with Daemon("--data-dir", self.folder) as writer, Client(writer) as client:
            writer.at_start = None  # the tensors stay
            self.assertStatus(client.request("PUT", "/v1/tensors/u?persist=1", [1]), 201)


class ReadOnlyWithoutTokens(Guarded):
    options = ("--read-only",)

    def test_changes_are_refused_without_tokens_too(self):
        self.assertProblem(self.request("PUT", "/v1/tensors/t", [1]), 403, "FORBIDDEN")
        self.assertProblem(self.post("/v1/gather?store=t", GATHER), 403, "FORBIDDEN")
        self.assertStatus(self.post("/v1/gather", GATHER), 200)

"""GET /openapi.json: every route and op, no other, references that resolve, examples that run."""
import gzip, re, urllib.parse
import route_table
from daemon import *


def references(part):
    """all values of $ref in a part of the document"""
    if isinstance(part, dict):
        yield from (value for name, value in part.items() if name == "$ref")
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references(value)


def resolved(document, part):
    """the part, or the component to which it refers"""
    while "$ref" in part:
        name = part["$ref"]
        part = document
        for step in name.removeprefix("#/").split("/"):
            part = part[step]
    return part


def values_of(document, schema):
    """the schema of a value, which may be that of the items of a list or one that others share"""
    schema = resolved(document, schema)
    if len(schema.get("anyOf", [])) == 1:
        schema = resolved(document, schema["anyOf"][0])
    return resolved(document, schema.get("items", schema))


def body_of(document, operation):
    """the schema of the JSON body of a request"""
    return resolved(document, operation["requestBody"]["content"]["application/json"]["schema"])


def routes():
    """method and pattern of each route"""
    for methods, pattern, _ in route_table.routes():
        for method in methods.split(" | "):
            yield method.lower(), pattern


class OpenApi(HttpTest):
    def document(self):
        reply = self.get("/openapi.json")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        return reply.json()

    def test_it_has_every_route_and_op_and_nothing_else(self):
        ops = [op["name"] for op in self.get("/v1/ops").json()["ops"]]
        lookups = [op for op in ops if self.post(f"/v1/tensors/x/{op}", {}).json()["code"] != "UNKNOWN_OP"]
        expected = set()
        for method, pattern in routes():
            names = {"/v1/{op}": ops, "/v1/tensors/{table}/{row_op}": lookups}.get(pattern, [""])
            expected |= {(method, re.sub(r"(?<=/)\{(op|row_op)\}$", name, pattern) if name else pattern) for name in names}
        paths = self.document()["paths"]
        self.assertEqual({(method, path) for path, item in paths.items() for method in item}, expected)
        self.assertGreater(len(expected), 50)

    def test_every_reference_leads_somewhere(self):
        document = self.document()
        found = set(references(document))
        self.assertGreater(len(found), 20)
        for reference in found:
            at = document
            for name in reference.removeprefix("#/").split("/"):
                self.assertIn(name, at, reference)
                at = at[name]

    def operations(self):
        """path, method and operation of each"""
        return [(path, method, operation) for path, item in self.document()["paths"].items() for method, operation in item.items()]

    def test_an_operation_has_a_readable_name_of_its_own(self):
        names = {(method, path): operation["operationId"] for path, method, operation in self.operations()}
        self.assertEqual(len(set(names.values())), len(names))
        self.assertEqual((names["post", "/v1/gather"], names["post", "/v1/tensors/{table}/gather"], names["put", "/v1/tensors/{name}"], names["get", "/v1/tensors"]),
                         ("gather", "gather_in_table", "put_tensor", "list_tensors"))
        self.assertEqual([path for (_, path), name in names.items() if path.startswith("/v1/") and "v1" in name], [])

    def test_ops_of_equal_inputs_and_attributes_share_their_description(self):
        """so a further op adds little to the document"""
        document = self.document()
        add, subtract = (document["paths"][f"/v1/{op}"]["post"] for op in ("add", "subtract"))
        self.assertEqual((add["parameters"], add["responses"]), (subtract["parameters"], subtract["responses"]))
        self.assertEqual(add["requestBody"]["content"][JSON]["schema"], subtract["requestBody"]["content"][JSON]["schema"])
        self.assertLess(len(json.dumps(subtract, separators=(",", ":"))), 1100)
        self.assertIn("$ref", document["paths"]["/v1/gather"]["post"]["parameters"][-1])
        for kind, suffix in (("parameters", ""), ("schemas", "Request"), ("schemas", "Reply"), ("responses", "Reply")):
            parts = [json.dumps(part, sort_keys=True) for name, part in document["components"][kind].items() if name.endswith(suffix)]
            self.assertEqual(len(parts), len(set(parts)), (kind, suffix))

    def test_each_route_has_a_summary(self):
        for path, method, operation in self.operations():
            self.assertRegex(operation["summary"], r"^[A-Z].*\.$", f"{method} {path}")

    def test_an_operation_has_errors_of_conditions_parts_and_the_protocol_only_if_it_can(self):
        paths = self.document()["paths"]
        for method, path, own in (("get", "/healthz", set()), ("get", "/v1/tensors/{name}", {"412", "416"}), ("put", "/v1/tensors/{name}", {"412"}),
                                  ("post", "/v1/gather", {"412"}), ("post", "/v1/aliases", {"412"}), ("post", "/v2/models/{model}/infer", {"501"})):
            with self.subTest(path, method=method):
                errors = {status for status in paths[path][method]["responses"] if status[0] in "45"}
                self.assertEqual(errors, own | {"4XX", "5XX"})

    def test_operations_are_in_groups_that_are_described(self):
        described = [tag["name"] for tag in self.document()["tags"]]
        tags = {(method, path): operation["tags"] for path, method, operation in self.operations()}
        self.assertEqual({tag for one in tags.values() for tag in one}, set(described))
        for at, tag in ((("post", "/v1/gather"), "Ops"), (("post", "/v1/tensors/{table}/gather"), "Resident tensors"), (("post", "/v1/aliases"), "Resident tensors"),
                        (("get", "/v1/ops"), "Server"), (("get", "/v2"), "Open Inference Protocol"), (("get", "/metrics"), "Server"), (("get", "/"), "Server")):
            self.assertEqual(tags[at], [tag], at)

    def test_generators_of_clients_find_what_they_need(self):
        """each is valid otherwise, too, and generated clients then cannot call an op"""
        def arrays(part):
            if isinstance(part, dict):
                if part.get("type") == "array":
                    yield part
                part = part.values()
            for value in part if not isinstance(part, str | int | float | bool | None) else ():
                yield from arrays(value)
        document = self.document()
        self.assertEqual([part for part in arrays(document) if "items" not in part], [])
        for path, method, operation in self.operations():
            with self.subTest(path, method=method):
                self.assertLess(int(next(iter(operation["responses"]))), 400)
                for name, parameter in self.query_of(document, operation).items():
                    self.assertNotIn("default", parameter["schema"], name)
                body = body_of(document, operation) if "requestBody" in operation else {}
                for name, member in body.get("properties", {}).items():
                    self.assertNotIn("default", resolved(document, member), name)  # a client would send it beside the value in the query string
                for body in (operation.get("requestBody", {}), *operation["responses"].values()):
                    body = resolved(document, body)
                    if "application/json" in body.get("content", {}):
                        self.assertEqual(next(iter(body["content"])), "application/json")
                        self.assertNotIn("allOf", json.dumps(body))

    def test_an_op_is_described_as_its_own_page_describes_it(self):
        document = self.document()
        for op in self.get("/v1/ops").json()["ops"]:
            page = self.get(f"/v1/ops/{op['name']}").json()
            operation = document["paths"][f"/v1/{op['name']}"]["post"]
            reply = resolved(document, operation["responses"]["200"])
            self.assertEqual(set(operation["requestBody"]["content"]), {JSON, SAFETENSORS, "application/x-npy"})
            self.assertEqual(set(reply["content"]), {JSON, SAFETENSORS, "application/x-npy"})
            schema = body_of(document, operation)
            with self.subTest(op["name"]):
                if len(page["outputs"]) > 1:
                    self.assertEqual(schema["properties"]["outputs"]["items"]["enum"], [one["name"] for one in page["outputs"]])
                arguments = page["inputs"] + page["attributes"]
                self.assertEqual(set(schema["properties"]), {a["name"] for a in arguments} | {"device", "response", "store", "timing", "output_dtype"} |
                                 ({"outputs"} if len(page["outputs"]) > 1 else set()))
                required = [i["name"] for i in page["inputs"] if not i["optional"]] + [a["name"] for a in page["attributes"] if a["required"]]
                self.assertEqual(schema.get("required", []), required)
                for argument in arguments:
                    self.assertTrue(schema["properties"][argument["name"]]["description"].startswith(argument["summary"]), argument["name"])
                outputs = resolved(document, reply["content"][JSON]["schema"])["properties"]
                named = outputs["outputs"]["properties"] if len(page["outputs"]) > 1 else outputs
                for output in page["outputs"]:
                    self.assertTrue(named[output["name"]]["description"].startswith(output["summary"]), output["name"])
                for attribute in page["attributes"]:
                    limits = values_of(document, schema["properties"][attribute["name"]])
                    for member, keyword in (("values", "enum"), ("minimum", "minimum"), ("maximum", "maximum")):
                        self.assertEqual(limits.get(keyword), attribute.get(member), attribute["name"])

    def test_bodies_of_routes_with_an_op_have_its_attributes(self):
        """scatter into a resident tensor takes every mode; a plan takes what einsum takes"""
        document = self.document()
        schema_of = lambda path: body_of(document, document["paths"][path]["post"])
        described, plan = schema_of("/v1/einsum")["properties"], schema_of("/v1/einsum/plan")
        for attribute in self.get("/v1/ops/einsum").json()["attributes"]:
            self.assertEqual(plan["properties"][attribute["name"]], described[attribute["name"]])
        self.assertEqual((plan["required"], set(plan["properties"])), (["equation", "shapes"], {"equation", "shapes", "dtype"}))
        bodies = {"scatter": {"indices": [[0]], "updates": [1]}, "upsert": {"keys": [1], "rows": [2]}, "remove": {"keys": [1]}}
        for name, body in bodies.items():
            schema = schema_of(f"/v1/tensors/{{name}}/{name}")
            properties = schema["properties"]
            self.assertEqual((schema["required"], set(properties) - {"mode"}), ([*body], {*body, "device", "timing"}))
            self.assertEqual(values_of(document, properties.get("mode", {})).get("enum"), ["set", "add", "mul", "min", "max"] if name == "scatter" else None)
            for member, value in [(member, value) for member in properties for value in values_of(document, properties[member]).get("enum", [])] + [("timing", True)]:
                with self.subTest(name, member=member, value=value):
                    self.assertIn(self.request("PUT", "/v1/tensors/of-members", b'{"tensor": [1, 2], "keys": [1, 2]}', {"Content-Type": JSON}).status, (200, 201))
                    reply = self.post(f"/v1/tensors/of-members/{name}", body | {member: value})
                    self.assertIn(reply.status, (200, 503) if value == "gpu" else (200,), str(reply))

    def test_the_body_of_a_lookup_in_a_table_is_one_object(self):
        """generators make no class of a body with anyOf; the description says what it would"""
        document = self.document()
        lookups = {path.rsplit("/", 1)[1]: item["post"] for path, item in document["paths"].items() if path.startswith("/v1/tensors/{table}/")}
        for op, named in (("gather", "indices"), ("embedding_bag", "indices"), ("lookup", "queries"), ("find", "queries")):
            schema = body_of(document, lookups[op])
            give = "If the table has keys, give" if op == "lookup" else "Give"  # keys of lookup are otherwise the keys of the rows
            self.assertEqual(schema["description"], f"{give} either {named} or keys, not both.")
            self.assertTrue(schema["properties"]["keys"]["description"].startswith("The keys to look up, if the table has keys."), op)
        for op, lookup in lookups.items():
            schema = body_of(document, lookup)
            self.assertEqual({"anyOf", "oneOf", "allOf"} & set(schema), set(), op)
        self.assertIn(self.request("PUT", "/v1/tensors/of-lookups", b'{"tensor": [1, 2], "keys": [1, 2]}', {"Content-Type": JSON}).status, (200, 201))
        for body, status in (({"indices": [0]}, 200), ({"keys": [1]}, 200), ({"indices": [0], "keys": [1]}, 400), ({}, 422)):
            self.assertStatus(self.post("/v1/tensors/of-lookups/gather", body), status)

    def test_aliases_have_the_members_that_are_sent(self):
        schemas = self.document()["components"]["schemas"]
        version = self.request("PUT", "/v1/tensors/of-aliases@1", b"[1]", {"Content-Type": JSON})
        self.assertStatus(version, 201)
        for schema, reply in (("ChangedAliases", self.post("/v1/aliases", {"set": {"of-aliases": "of-aliases@1"}})), ("Aliases", self.get("/v1/aliases"))):
            self.assertStatus(reply, 200)
            self.assertEqual(set(reply.json()), set(schemas[schema]["properties"]) - {"problems_not_listed"}, schema)
            self.assertEqual(set(reply.json()), set(schemas[schema]["required"]), schema)

    def test_an_inference_has_the_members_of_the_protocol(self):
        members = self.document()["components"]["schemas"]["Inference"]["properties"]
        self.assertEqual(set(members), {"id", "parameters", "inputs", "outputs"})
        self.assertEqual(set(members["inputs"]["items"]["properties"]), {"name", "shape", "datatype", "parameters", "data"})
        self.assertEqual(set(members["outputs"]["items"]["properties"]), {"name", "parameters"})

    def test_errors_of_the_protocol_have_the_members_of_problems(self):
        schemas = self.document()["components"]["schemas"]
        problem, error = set(schemas["Problem"]["properties"]), set(schemas["OipError"]["properties"])
        self.assertEqual(problem - error, {"type", "title", "status", "detail"})
        self.assertEqual(error - problem, {"error"})
        inputs = [{"name": name, "datatype": "INT32", "shape": [1], "data": [7]} for name in ("params", "indices")]
        reply = self.post("/v2/models/gather/infer", {"inputs": inputs})
        self.assertStatus(reply, 400)
        self.assertLessEqual({"input", "position", "index", "bound", "axis", "bad_count"}, set(reply.json()))
        self.assertLessEqual(set(reply.json()), error)

    def test_errors_of_the_protocol_are_there_by_the_status_that_it_has_for_them(self):
        """INDEX_OUT_OF_BOUNDS, 422 under /v1, is 400 under /v2"""
        document = self.document()
        responses, infer = document["components"]["responses"], document["paths"]["/v2/models/{model}/infer"]["post"]["responses"]
        self.assertEqual(infer["4XX"], {"$ref": "#/components/responses/OipError4XX"})
        described = responses["OipError4XX"]["description"]
        self.assertIn("\n- 400 INDEX_OUT_OF_BOUNDS: ", described)
        self.assertIn("\n- 429 MEMORY_EXHAUSTED: ", described)
        self.assertEqual(re.findall(r"^- (406|422) ", described, re.M), [])

    def test_conditions_of_an_op_say_that_they_count_with_store(self):
        document = self.document()
        self.assertStatus(self.request("PUT", "/v1/tensors/of-conditions@1", b"[1]", {"Content-Type": JSON}), 201)
        for path in ("/v1/tensors/{table}/gather", "/v1/gather"):
            found = [resolved(document, parameter) for parameter in document["paths"][path]["post"]["parameters"]]
            described = {parameter["name"]: parameter["description"] for parameter in found if parameter["in"] == "header"}
            for name in ("If-Match", "If-None-Match"):
                self.assertTrue(described[name].startswith("Only with store. "), described)
        for query, status in (("", 400), ("?store=of-conditions-not-there", 412)):
            self.assertStatus(self.post("/v1/tensors/of-conditions@1/gather" + query, {"indices": [0]}, {"If-Match": '"other"'}), status)

    def test_parts_and_created_tensors_are_described_with_their_headers(self):
        document = self.document()
        created = self.request("PUT", "/v1/tensors/of-parts@1", b"[1, 2]", {"Content-Type": JSON})
        part = self.get("/v1/tensors/of-parts@1?response=flat", {"Range": "bytes=0-4"})
        keys = self.request("PUT", "/v1/tensors/of-parts-with-keys", b"[1, 2]", {"Content-Type": JSON})
        keys = self.request("PUT", "/v1/tensors/of-parts-with-keys/keys", b"[1, 2]", {"Content-Type": JSON})
        part_of_keys = self.get("/v1/tensors/of-parts-with-keys/keys?response=flat", {"Range": "bytes=0-4"})
        for reply, status, method, path, header in ((created, 201, "put", "", "Location"), (keys, 201, "put", "/keys", "Location"),
                                                    (part, 206, "get", "", "Content-Range"), (part_of_keys, 206, "get", "/keys", "Content-Range")):
            with self.subTest(path, method=method):
                self.assertStatus(reply, status)
                operation = document["paths"]["/v1/tensors/{name}" + path][method]
                self.assertLessEqual({header, "ETag", "X-Request-Id"}, set(reply.headers.keys()))
                self.assertLessEqual({header, "ETag", "X-Request-Id"}, set(operation["responses"][str(status)]["headers"]))
                parameters = {parameter["$ref"].rsplit("/", 1)[1] for parameter in operation["parameters"] if "$ref" in parameter}
                self.assertEqual({"Range", "IfRange"} <= parameters, method == "get")
        self.assertNotIn("Location", document["paths"]["/v1/tensors/{name}"]["put"]["responses"]["200"]["headers"])

    def query_of(self, document, operation):
        """{name: schema} of its query parameters"""
        found = [resolved(document, parameter) for parameter in operation["parameters"]]
        names = [(parameter["in"], parameter["name"]) for parameter in found]
        self.assertEqual(len(names), len(set(names)))
        return {parameter["name"]: parameter for parameter in found if parameter["in"] == "query"}

    def test_query_parameters_are_those_that_are_accepted(self):
        document = self.document()
        ops = {op["name"]: self.get(f"/v1/ops/{op['name']}").json() for op in self.get("/v1/ops").json()["ops"]}
        attributes = {name: {a["name"] for a in page["attributes"]} for name, page in ops.items()}
        several = {name for name, page in ops.items() if len(page["outputs"]) > 1}
        options, changes = {"device", "response", "timing", "store", "store.ttl_s", "output_dtype"}, {"persist", "device", "timing"}
        for path, item in document["paths"].items():
            for method, operation in item.items():
                op = path.rsplit("/", 1)[1]
                expected = {("post", "/v1/einsum/plan"): attributes["einsum"], ("post", "/v1/tensors/{name}/scatter"): changes | {"mode"},
                            ("post", "/v1/tensors/{name}/upsert"): changes, ("post", "/v1/tensors/{name}/remove"): changes,
                            ("put", "/v1/tensors/{name}"): {"persist", "device"}, ("get", "/v1/tensors/{name}"): {"response"}, ("delete", "/v1/tensors/{name}"): set(),
                            ("put", "/v1/tensors/{name}/keys"): {"persist"}, ("delete", "/v1/tensors/{name}/keys"): {"persist"},
                            ("get", "/v1/tensors/{name}/keys"): {"response"}, ("post", "/v1/aliases"): {"persist"}}.get((method, path))
                if expected is None and path in (f"/v1/{op}", "/v1/tensors/{table}/" + op) and op in ops:
                    expected = attributes[op] | options | ({"outputs"} if op in several else set())
                if expected is None:
                    continue
                with self.subTest(path, method=method):
                    query = self.query_of(document, operation)
                    self.assertEqual(set(query), expected)
                    url = path.replace("{name}", "described").replace("{table}", "described").replace("{program}", "described")
                    for name, parameter in query.items():  # none is unknown, and no other is known
                        values = values_of(document, parameter["schema"]).get("enum")
                        value = values[0] if values else {"boolean": "false", "integer": "1", "number": "1", "array": "0,1"}.get(parameter["schema"]["type"], "x")
                        reply = self.request(method.upper(), f"{url}?{name}={value}" + ("&store=x" if name == "store.ttl_s" else ""), b"{}" if method != "get" else None, {"Content-Type": JSON})
                        self.assertNotIn(f'no query parameter \\"{name}', reply.body.decode())
                        self.assertFalse(reply.status == 400 and reply.json().get("attribute") == name and reply.json()["code"] == "MALFORMED_REQUEST", reply.body)
                    self.assertProblem(self.request(method.upper(), url + "?nothing=1", b"{}" if method != "get" else None, {"Content-Type": JSON}), 400, "MALFORMED_REQUEST")

    def test_attributes_of_examples_may_be_in_the_query_string(self):
        moved = 0
        for path, item in self.document()["paths"].items():
            query = self.query_of(self.document(), item["post"]) if "post" in item and "{" not in path else {}
            for body in self.examples_of(item.get("post", {})):
                moved += self.run_with_query(path, body, query)
        self.assertGreater(moved, 5)

    def examples_of(self, operation):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        return ([content["example"]] if "example" in content else []) + [example["value"] for example in content.get("examples", {}).values()]

    def run_with_query(self, path, body, query):
        """the number of members that are parameters, which give the same reply"""
        names = [name for name in body if name in query]
        if names:
            texts = {name: ",".join(map(str, body[name])) if isinstance(body[name], list) else json.dumps(body[name]).strip('"') for name in names}
            self.assertTrue(all(query[name].get("explode", True) is not isinstance(body[name], list) for name in names))
            rest = {name: value for name, value in body.items() if name not in names}
            with self.subTest(path):
                here, there = self.post(path, body), self.post(path + "?" + urllib.parse.urlencode(texts), rest)
                self.assertEqual((there.status, there.body), (200, here.body))
        return len(names)

    def test_every_example_runs(self):
        count = 0
        for path, item in self.document()["paths"].items():
            for method, operation in item.items():
                for body in self.examples_of(operation):
                    count += 1
                    reply = self.request(method.upper(), path.replace("{name}", "of-an-example").replace("{program}", "of-an-example"), json.dumps(body).encode(), {"Content-Type": "application/json"})
                    with self.subTest(path):
                        self.assertIn(reply.status, (200, 201), str(reply))
        self.assertGreater(count, 30)

    def test_every_problem_is_there_by_its_status(self):
        components = self.document()["components"]
        for code in components["schemas"]["Code"]["enum"]:
            page = self.get("/problems/" + code.lower().replace("_", "-"))
            if page.status != 200:
                continue  # INTERNAL and the like have other slugs
            status = str(page.json()["status"])
            described = components["responses"]["Problem" + (status if status in ("412", "416", "501") else status[0] + "XX")]
            self.assertEqual(described["content"]["application/problem+json"]["schema"], {"$ref": "#/components/schemas/Problem"})
            self.assertIn(f"- {status} {code}: {page.json()['explanation']}", described["description"].splitlines())

    def test_it_is_compressed_with_the_option(self):
        plain = self.get("/openapi.json", {"Accept-Encoding": "gzip"})
        with Daemon("--compress") as daemon, Client(daemon) as client:
            reply = client.request("GET", "/openapi.json", None, {"Accept-Encoding": "gzip"})
            self.assertEqual((reply.headers["Content-Encoding"], gzip.decompress(reply.body)), ("gzip", plain.body))
            self.assertLess(len(reply.body), len(plain.body) // 3)
            tag = reply.headers["ETag"]
            again = client.request("GET", "/openapi.json", None, {"Accept-Encoding": "gzip", "If-None-Match": tag})
            self.assertEqual((again.status, again.body, again.headers["ETag"]), (304, b"", tag))

    def test_a_client_that_has_it_gets_304(self):
        tag = self.get("/openapi.json").headers["ETag"]
        reply = self.request("GET", "/openapi.json", headers={"If-None-Match": tag})
        self.assertEqual((reply.status, reply.body, reply.headers["ETag"]), (304, b"", tag))
        self.assertStatus(self.request("GET", "/openapi.json", headers={"If-None-Match": '"other"'}), 200)
        self.assertProblem(self.request("GET", "/openapi.json", headers={"If-None-Match": "none"}), 400, "MALFORMED_REQUEST")

"""search over HTTP: keys in place of row numbers, keys in the reply, tables in the path, all formats. Which rows it finds is tested in
process: tests/conformance/test_cases.c, tests/kernels/search/."""
from oip_client import *
from test_tensors import *

ROWS = [[1, 0], [0.5, 1], [0, 1], [-1, 0]]
KEYS = ["king", "queen", "sea", "x"]


class SearchTest(TensorTest):
    def keyed(self, keys=KEYS):
        name, _ = self.resident({"dtype": "float32", "data": ROWS})
        self.assertStatus(self.request("PUT", f"/v1/tensors/{name}/keys", keys), 201)
        return name

    def search(self, name, **body):
        return self.post(f"/v1/tensors/{name}/search", body)

    def assertFound(self, reply, **wanted):
        self.assertStatus(reply, 200)
        self.assertEqual({name: output["data"] for name, output in reply.json()["outputs"].items()}, wanted)


class Keys(SearchTest):
    def test_keys_may_stand_for_the_rows_of_each_input(self):
        name = self.keyed()
        self.assertFound(self.search(name, rows={"keys": ["king"]}, k=2), scores=[[0.5, 0.0]], indices=[[1, 2]], keys=[["queen", "sea"]])
        self.assertFound(self.search(name, rows={"keys": "king"}, k=2, candidates={"keys": ["x", "sea"]}),
                         scores=[0.0, -1.0], indices=[2, 3], keys=["sea", "x"])
        self.assertFound(self.search(name, queries=[1, 1], k=3, exclude={"keys": ["queen", "x"]}),
                         scores=[1.0, 1.0, "-Infinity"], indices=[0, 2, -1], keys=["king", "sea", ""])
        self.assertFound(self.search(name, rows={"keys": ["king"]}, k=3, candidates={"keys": ["x", "sea", "queen"]}, exclude={"keys": ["x"]}),
                         scores=[[0.5, 0.0, "-Infinity"]], indices=[[1, 2, -1]], keys=[["queen", "sea", ""]])

    def test_keys_of_the_table_in_the_path_are_rows(self):
        name = self.keyed()
        self.assertFound(self.search(name, keys=["sea"], k=1), scores=[[1.0]], indices=[[1]], keys=[["queen"]])
        self.assertProblem(self.search(name, keys=["sea"], rows=[1], k=1), 400, "MALFORMED_REQUEST", input="rows",
                           detail="both rows and keys are given; expected only one of them")

    def test_a_key_that_does_not_exist_is_an_error_of_its_input(self):
        name = self.keyed()
        for given, body in (("rows", {"rows": {"keys": ["king", "kong"]}}), ("keys", {"keys": ["king", "kong"]}),
                            ("candidates", {"rows": [0], "candidates": {"keys": ["x", "kong"]}}),
                            ("exclude", {"rows": {"keys": ["king"]}, "exclude": {"keys": ["x", "kong"]}})):
            with self.subTest(given):
                self.assertProblem(self.search(name, **body, k=1), 422, "KEY_NOT_FOUND", input=given, position=[1], key="kong", bad_count=1,
                                   detail=f'{given}[1] = "kong" is not one of the keys; the first key is "king"')

    def test_a_row_number_that_does_not_exist_leads_to_keys(self):
        name = self.keyed()
        for given, hint in (("rows", '"keys": [...] instead'), ("exclude", '"exclude": {"keys": [...]}')):
            body = {"queries": [1, 1], "exclude": [4]} if given == "exclude" else {"rows": [4]}
            reply = self.search(name, **body, k=1)
            self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", input=given, position=[0], index=4, bound=4)
            self.assertIn(hint, reply.json()["detail"])

    def test_keys_as_queries_lead_to_rows(self):
        name, hint = self.keyed(), 'to refer to rows by their keys, give rows as {"keys": ["king"]}'
        self.assertIn(hint, self.search(name, queries=["king"], k=1).json()["detail"])
        self.assertNotIn("keys", self.search(name, queries=["king"], rows=[0], k=1).json()["detail"])

    def test_a_table_without_keys_finds_row_numbers(self):
        name, _ = self.resident({"dtype": "float32", "data": ROWS})
        self.assertFound(self.search(name, rows=[0], k=1), scores=[[0.5]], indices=[[1]])
        self.assertFound(self.search(name, rows=[0], k=1, keys=[5, 6, 7, 8]), scores=[[0.5]], indices=[[1]], keys=[[6]])
        self.assertProblem(self.search(name, rows={"keys": ["king"]}, k=1), 422, "INVALID_ARGUMENT", input="rows")

    def test_integers_as_keys_in_every_format(self):
        name = self.keyed([70, 80, 90, 2**40])
        self.assertFound(self.search(name, rows={"keys": ["70"]}, k=1), scores=[[0.5]], indices=[[1]], keys=[[80]])
        tensors = {"rows.keys": ("int64", (1,), pack("int64", [70])), "exclude.keys": ("int64", (2,), pack("int64", [80, 2**40]))}
        reply = self.post(f"/v1/tensors/{name}/search?k=2", safetensors(tensors), {"Content-Type": SAFETENSORS})
        self.assertStatus(reply, 200)
        outputs = read_safetensors(reply.body)[0]
        self.assertEqual(outputs["keys"], ("int64", [1, 2], pack("int64", [90, 0])))
        self.assertEqual(outputs["indices"], ("int64", [1, 2], pack("int64", [2, -1])))


    def test_a_result_with_keys_is_stored_without_them(self):
        name = self.keyed()
        reply = self.search(name, keys=["king"], k=1, store="best")
        self.assertProblem(reply, 422, "INVALID_ARGUMENT")
        self.assertIn("leave the output out with the member outputs", reply.json()["detail"])
        self.assertStatus(self.search(name, keys=["king"], k=1, store="best", outputs=["indices"]), 200)
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": "best.indices"}, "indices": [0]}), "int64", [1, 1], [[1]])
        self.request("DELETE", "/v1/tensors/best.indices")


class Queued(SearchTest):
    options = ("--inline-limit-us", "0")

    def test_a_worker_finds_the_same(self):
        name = self.keyed()
        self.assertFound(self.search(name, rows={"keys": ["king"]}, k=2), scores=[[0.5, 0.0]], indices=[[1, 2]], keys=[["queen", "sea"]])
        self.assertProblem(self.search(name, rows=[9], k=2), 422, "INDEX_OUT_OF_BOUNDS", input="rows")


class Infer(OipTest):
    def infer_search(self, keys=None, wanted_outputs=None, **attributes):
        inputs = [oip_input("params", "FP32", [4, 2], pack("float32", [value for row in ROWS for value in row])),
                  oip_input("queries", "FP32", [1, 2], pack("float32", [1, 0]))]
        if keys:
            inputs.append(oip_input("keys", "INT64", [4], pack("int64", keys)))
        return self.infer("search", inputs, wanted_outputs, parameters=attributes)

    def test_the_output_keys_is_present_if_there_are_keys(self):
        document, _ = read_reply(self.infer_search(k=2))
        self.assertEqual([(o["name"], o["shape"], o["data"]) for o in document["outputs"]],
                         [("scores", [1, 2], [1.0, 0.5]), ("indices", [1, 2], [0, 1])])
        document, _ = read_reply(self.infer_search(keys=[5, 6, 7, 8], k=1))
        self.assertEqual([o["name"] for o in document["outputs"]], ["scores", "indices", "keys"])
        self.assertEqual(document["outputs"][2]["data"], [5])

    def test_outputs_can_be_chosen(self):
        document, _ = read_reply(self.infer_search(keys=[5, 6, 7, 8], wanted_outputs=[wanted("keys")], k=1))
        self.assertEqual([(o["name"], o["data"]) for o in document["outputs"]], [("keys", [5])])
        self.assertError(self.infer_search(wanted_outputs=[wanted("keys")], k=1), 400, "keys")

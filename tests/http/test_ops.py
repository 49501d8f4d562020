"""What HTTP and the store add to the ops: query strings, content types, devices, resident tables as inputs. The ops themselves, and
JSON in every spelling and dtype, are tested in process: tests/conformance/test_cases.c, tests/api/json/."""
import json, os
from daemon import *

TABLES = temporary_folder()
LETTERS = {"params": [["a", "b"], ["c", "d"]], "indices": [1, 0]}


def setUpModule():
    with open(os.path.join(TABLES, "table.npy"), "wb") as f:
        f.write(npy("float32", (3, 2), pack("float32", [1, 2, 3, 4, 5, 6])))
    with open(os.path.join(TABLES, "model.safetensors"), "wb") as f:
        f.write(safetensors({"w": ("int16", (4,), pack("int16", [10, 20, 30, 40])),
                             "ids": ("int32", (2,), pack("int32", [3, 1]))}))


class Gather(HttpTest):
    def test_the_example_of_the_documentation_has_exactly_this_reply(self):
        reply = self.request("POST", "/v1/gather", json.dumps(LETTERS).encode(),
                             {"Content-Type": "application/x-www-form-urlencoded"})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.body.strip(), b'{"output":{"dtype":"string","shape":[2,2],"data":[["c","d"],["a","b"]]}}')

    def test_attributes_may_be_in_the_query_string(self):
        reply = self.post("/v1/gather?axis=1", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [2, 0]})
        self.assertOutput(reply, "int32", [2, 2], [[3, 1], [6, 4]])
        reply = self.post("/v1/gather?axis=-1&bounds=clip&response=flat",
                          {"params": [[1, 2, 3], [4, 5, 6]], "indices": [9, 0]})
        self.assertOutput(reply, "int32", [2, 2], [3, 1, 6, 4])

    def test_query_strings_are_percent_decoded(self):
        reply = self.post("/v1/gather?%61xis=%31", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [2, 0]})
        self.assertOutput(reply, "int32", [2, 2], [[3, 1], [6, 4]])


class Device(HttpTest):
    BODY = {"params": [1, 2], "indices": [1]}

    def test_cpu_and_auto_are_computed(self):
        for device in ("cpu", "auto"):
            self.assertOutput(self.post("/v1/gather", {**self.BODY, "device": device}), "int32", [1], [2])

    def test_gpu_is_unavailable_without_one(self):
        self.assertProblem(self.post("/v1/gather", {**self.BODY, "device": "gpu"}), 503, "DEVICE_UNAVAILABLE")
        self.assertProblem(self.post("/v1/gather?device=gpu", self.BODY), 503, "DEVICE_UNAVAILABLE")


class Refs(HttpTest):
    """resident tables as inputs"""

    @property
    def options(self):
        return ("--data-dir", TABLES)

    def test_a_npy_file_is_a_table_by_its_name(self):
        reply = self.post("/v1/gather", {"params": {"ref": "table"}, "indices": [2, 0]})
        self.assertOutput(reply, "float32", [2, 2], [[5, 6], [1, 2]])

    def test_a_safetensors_entry_is_a_table_by_file_and_name(self):
        reply = self.post("/v1/gather", {"params": {"ref": "model:w"}, "indices": [3]})
        self.assertOutput(reply, "int16", [1], [40])

    def test_any_input_may_be_a_ref(self):
        reply = self.post("/v1/gather", {"params": {"ref": "model:w"}, "indices": {"ref": "model:ids"}})
        self.assertOutput(reply, "int16", [2], [40, 20])

    def test_gather_nd_and_batch_gather_take_refs(self):
        reply = self.post("/v1/gather_nd", {"params": {"ref": "table"}, "indices": [[2, 1]]})
        self.assertOutput(reply, "float32", [1], [6])
        reply = self.post("/v1/batch_gather", {"params": {"ref": "table"}, "indices": [[1], [0], [1]]})
        self.assertOutput(reply, "float32", [3, 1], [[2], [3], [6]])

    def test_an_unknown_table_is_404_with_a_suggestion(self):
        reply = self.post("/v1/gather", {"params": {"ref": "tabl"}, "indices": [0]})
        self.assertProblem(reply, 404, "TENSOR_NOT_FOUND", did_you_mean="table")

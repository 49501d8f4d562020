"""The scale and offset beside a quantised table: a request does not leave them out without saying so."""
import os, struct
from daemon import *
from oip_client import oip_input
from test_tensors import TensorTest

ROWS, FACTORS, OFFSET = [[0, 10], [20, 30]], [0.5, 2.0], [1.0, -1.0]


class Companions(TensorTest):
    def store(self, name, dtype, data):
        self.assertStatus(self.request("PUT", "/v1/tensors/" + name, {"dtype": dtype, "data": data}), 201)
        self.addCleanup(self.delete, name)
        return name

    def table(self, shift="offset", version="", dtype="uint8"):
        name = self.name()
        self.store(name + version, dtype, ROWS)
        self.store(name + ".scale" + version, "float32", FACTORS)
        if shift:
            self.store(f"{name}.{shift}{version}", "float32" if shift == "offset" else "int32", OFFSET if shift == "offset" else [3, 4])
        return name

    def requests(self, name, **more):
        """a request to each op and route that scales rows of the table"""
        body = {"scale": {"ref": name + ".scale"}, **more}
        return (("/v1/dequantize", {"params": {"ref": name}, **body}), ("/v1/embedding_bag", {"params": {"ref": name}, "indices": [[0], [1]], **body}),
                (f"/v1/tensors/{name}/embedding_bag", {"indices": [[0], [1]], **body}))

    def test_a_shift_that_is_left_out_is_asked_for(self):
        for shift, dtype in (("offset", "uint8"), ("offset", "int8"), ("zero_point", "uint8")):
            name = self.table(shift, dtype=dtype)
            for path, body in self.requests(name):
                with self.subTest(path, shift=shift):
                    self.assertProblem(self.post(path, body), 422, "INVALID_ARGUMENT", input=shift,
                                       detail=f"{shift} is missing, but '{name}' has '{name}.{shift}' beside it; give \"{shift}\": {{\"ref\": \"{name}.{shift}\"}}, or {shift} = 0 if the rows have none")

    def test_both_ways_out_work(self):
        name = self.table()
        for shift, rows in (({"offset": {"ref": name + ".offset"}}, [[1, 6], [39, 59]]), ({"offset": 0}, [[0, 5], [40, 60]]), ({"zero_point": 0}, [[0, 5], [40, 60]])):
            for path, body in self.requests(name, **shift):
                with self.subTest(path, shift=shift):
                    self.assertOutput(self.post(path, body), "float32", [2, 2], rows)

    def test_without_one_beside_the_table_nothing_is_asked(self):
        for path, body in self.requests(self.table(shift=None)):
            self.assertOutput(self.post(path, body), "float32", [2, 2], [[0, 5], [40, 60]])
        self.assertStatus(self.post("/v1/dequantize", {"params": {"dtype": "uint8", "data": ROWS}, "scale": 0.5}), 200)

    def test_a_part_of_another_table_or_another_part_is_refused(self):
        name, other = self.table(), self.table()
        for wrong in name + ".offset", other + ".scale":
            for path, body in self.requests(name, scale={"ref": wrong}, offset=0):
                self.assertProblem(self.post(path, body), 422, "INVALID_ARGUMENT", input="scale",
                                   detail=f"scale is '{wrong}', but '{name}' has '{name}.scale' beside it; give \"scale\": {{\"ref\": \"{name}.scale\"}}, "
                                          "or store the other tensor under a name that is not the name of a part")
        bare = self.store(self.name(), "uint8", ROWS)
        self.assertStatus(self.post("/v1/dequantize", {"params": {"ref": bare}, "scale": {"ref": name + ".scale"}}), 200)
        free = self.store(self.name(), "float32", FACTORS)
        for path, body in self.requests(name, scale={"ref": free}, offset=0):
            self.assertStatus(self.post(path, body), 200)

    def test_the_scale_of_another_version_is_refused(self):
        name = self.table(version="@1")
        self.store(name + ".scale@2", "float32", FACTORS)
        self.addCleanup(self.post, "/v1/aliases", {"set": {name: None, name + ".scale": None, name + ".offset": None}})
        self.assertStatus(self.post("/v1/aliases", {"set": {name: name + "@1", name + ".scale": name + ".scale@1", name + ".offset": name + ".offset@1"}}), 200)
        body = {"params": {"ref": name}, "scale": {"ref": name + ".scale"}, "offset": {"ref": name + ".offset"}}
        self.assertStatus(self.post("/v1/dequantize", body), 200)
        self.assertIn(f"scale is '{name}.scale@2', but '{name}' has '{name}.scale' beside it",
                      self.assertProblem(self.post("/v1/dequantize", {**body, "scale": {"ref": name + ".scale@2"}}), 422, "INVALID_ARGUMENT")["detail"])

    def test_rows_with_scales_beside_them_have_none_of_their_own(self):
        """layout = byte_rowwise takes the last 8 bytes of each row for its scale and offset."""
        row = list(struct.pack("<ff", 0.5, 0.0))
        body = {"indices": [[0]], "layout": "byte_rowwise"}
        name = self.store(self.name(), "uint8", [[4, *row]])
        self.assertOutput(self.post("/v1/embedding_bag", {"params": {"ref": name}, **body}), "float32", [1, 1], [[2]])
        self.store(name + ".scale", "float32", [0.5])
        for path, given in (("/v1/embedding_bag", {"params": {"ref": name}, **body}), (f"/v1/tensors/{name}/embedding_bag", body)):
            self.assertProblem(self.post(path, given), 422, "INVALID_ARGUMENT", input="scale",
                               detail=f"scale is missing, but '{name}' has '{name}.scale' beside it, so its rows have no scales of their own; "
                                      f"give \"scale\": {{\"ref\": \"{name}.scale\"}}, and no layout with scales in the rows")

    def test_the_names_are_those_of_the_request_or_of_the_version(self):
        name = self.table(version="@7")
        alias = self.name()
        self.assertStatus(self.post("/v1/aliases", {"set": {alias: name + "@7", alias + ".scale": name + ".scale@7", alias + ".offset": name + ".offset@7"}}), 200)
        body = {"params": {"ref": alias}, "scale": {"ref": alias + ".scale"}}
        self.assertIn(f'"offset": {{"ref": "{alias}.offset"}}', self.assertProblem(self.post("/v1/dequantize", body), 422, "INVALID_ARGUMENT")["detail"])
        self.assertStatus(self.post("/v1/aliases", {"set": {alias + ".offset": None}}), 200)
        self.assertIn(f'"offset": {{"ref": "{name}.offset@7"}}', self.assertProblem(self.post("/v1/dequantize", body), 422, "INVALID_ARGUMENT")["detail"])
        self.assertStatus(self.post("/v1/aliases", {"set": {alias: None, alias + ".scale": None}}), 200)

    def test_other_formats_are_asked_for_their_ref(self):
        name = self.table()
        refs = {"params.ref": name, "scale.ref": name + ".scale"}
        want = f'give "offset.ref": "{name}.offset", or offset = 0 if the rows have none'
        reply = self.post("/v1/dequantize", safetensors({}, refs), {"Content-Type": SAFETENSORS})
        self.assertIn(want, self.assertProblem(reply, 422, "INVALID_ARGUMENT", input="offset")["detail"])
        reply = self.post("/v2/models/dequantize/infer", {"inputs": [], "parameters": refs})
        self.assertIn(want, reply.json()["error"])
        reply = self.post("/v2/models/dequantize/infer", {"inputs": [oip_input("zero_point", "INT32", [], [0])], "parameters": refs})
        self.assertEqual(reply.json()["outputs"][0]["data"], [0, 5, 40, 60])

    def test_a_zero_point_of_the_version_is_found_by_an_alias(self):
        name, alias = self.table("zero_point", version="@7"), self.name()
        self.assertStatus(self.post("/v1/aliases", {"set": {alias: name + "@7"}}), 200)
        detail = self.assertProblem(self.post("/v1/dequantize", {"params": {"ref": alias}, "scale": 0.5}), 422, "INVALID_ARGUMENT", input="zero_point")["detail"]
        self.assertIn(f"'{name}@7' has '{name}.zero_point@7' beside it", detail)
        self.assertStatus(self.post("/v1/aliases", {"set": {alias: None}}), 200)

    def test_a_scale_that_is_left_out_is_named(self):
        name = self.table()
        for path, body in (("/v1/dequantize", {"params": {"ref": name}}), ("/v1/embedding_bag", {"params": {"ref": name}, "indices": [[0]]}),
                           (f"/v1/tensors/{name}/embedding_bag", {"indices": [[0]]})):
            detail = self.assertAnyProblem(self.post(path, body))["detail"]
            self.assertIn(f"; '{name}' has '{name}.scale' beside it: give \"scale\": {{\"ref\": \"{name}.scale\"}}", detail)


class Unreadable(HttpTest):
    """what may belong to the table and cannot be looked at is not taken for a tensor that is not there"""

    def assertRefused(self, ask, table, status, code, *details):
        """with the table's scale alone; offset = 0 leads on"""
        body = {"params": {"ref": table}, "scale": [0.5, 2.0]}
        for path, more in (("/v1/dequantize", {}), ("/v1/embedding_bag", {"indices": [[0], [1]]})):
            with self.subTest(path):
                detail = self.assertProblem(ask(path, {**body, **more}), status, code, input="offset")["detail"]
                for text in (*details, "offset is missing", "offset = 0"):
                    self.assertIn(text, detail)
                self.assertOutput(ask(path, {**body, **more, "offset": 0}), "float32", [2, 2], [[0, 5], [40, 60]])

    def test_an_offset_whose_file_is_truncated(self):
        folder = temporary_folder()
        for name, dtype, raw in (("q", "uint8", pack("uint8", sum(ROWS, []))), ("q.offset", "float32", struct.pack("<2f", *OFFSET))):
            with open(os.path.join(folder, name + ".npy"), "wb") as file:
                file.write(npy(dtype, (2, 2) if name == "q" else (2,), raw))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            os.truncate(os.path.join(folder, "q.offset.npy"), 100)
            self.assertRefused(client.post, "q", 503, "DEVICE_UNAVAILABLE", "q.offset.npy")

    def test_an_offset_that_cannot_be_served_since_the_start(self):
        """damaged, a link that leads nowhere, or readable but with keys that are not distinct"""
        folder = temporary_folder()
        path = os.path.join(folder, "q.offset.npy")
        offset, keys = npy("float32", (2,), struct.pack("<2f", *OFFSET)), npy("int64", (2,), struct.pack("<2q", 5, 5))
        def damage():
            with open(path, "wb") as file:
                file.write(offset[:-3])
        def repeat_keys():
            os.unlink(path)
            for name, content in (("q.offset.npy", offset), ("q.offset.keys.npy", keys)):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(content)
        def lead_nowhere():
            os.unlink(path)
            os.symlink("nothing", path)
        with open(os.path.join(folder, "q.npy"), "wb") as file:
            file.write(npy("uint8", (2, 2), pack("uint8", sum(ROWS, []))))
        for spoil in (damage, lead_nowhere, repeat_keys):
            spoil()
            with self.subTest(spoil.__name__), Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
                daemon.at_start = None  # the problem stays
                self.assertRefused(client.post, "q", 503, "DEVICE_UNAVAILABLE", "q.offset.npy")

    def test_an_alias_whose_version_is_gone(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            daemon.at_start = None  # the tensors stay
            for name, dtype, data in (("q@1", "uint8", ROWS), ("q.offset@1", "float32", OFFSET)):
                self.assertStatus(client.request("PUT", f"/v1/tensors/{name}?persist=1", {"dtype": dtype, "data": data}), 201)
            self.assertStatus(client.post("/v1/aliases?persist=1", {"set": {"live": "q@1", "live.offset": "q.offset@1"}}), 200)
        os.unlink(os.path.join(folder, "q.offset@1.tensord"))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            daemon.at_start = None
            self.assertRefused(client.post, "live", 503, "DEVICE_UNAVAILABLE", "the alias 'live.offset' names 'q.offset@1'")

    def test_a_token_that_is_not_for_the_version_of_the_offset(self):
        """learns as much as by naming the alias. The prefix of a table is also that of its parts"""
        token, tokens = "t" * 16, os.path.join(temporary_folder(), "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"admin {'a' * 16}\nread {token} q live\n")
        os.chmod(tokens, 0o600)
        with Daemon("--token-file", tokens) as daemon, Client(daemon) as client:
            daemon.at_start = None  # the tensors stay
            admin = {"Authorization": "Bearer " + "a" * 16}
            ask = lambda path, body: client.post(path, body, {"Authorization": "Bearer " + token})
            for name, dtype, data in (("q@1", "uint8", ROWS), ("other@1", "float32", OFFSET)):
                self.assertStatus(client.request("PUT", "/v1/tensors/" + name, {"dtype": dtype, "data": data}, admin), 201)
            self.assertOutput(ask("/v1/dequantize", {"params": {"ref": "q@1"}, "scale": 0.5}), "float32", [2, 2], [[0, 5], [10, 15]])
            self.assertStatus(client.post("/v1/aliases", {"set": {"live": "q@1", "live.offset": "other@1"}}, admin), 200)
            self.assertRefused(ask, "live", 403, "FORBIDDEN", "the token does not allow the version that 'live.offset' names")
            for request in ({"params": {"ref": "live"}, "scale": 0.5}, {"params": {"ref": "live"}, "scale": 0.5, "offset": {"ref": "live.offset"}}):
                reply = ask("/v1/dequantize", request)
                self.assertStatus(reply, 403)
                self.assertNotIn("other", reply.body.decode())

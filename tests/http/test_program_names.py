"""NAME.program is the name of the program NAME: no request takes it for a tensor, and no list shows it."""
import os, struct
from oip_client import *

TEXT = b'{"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "steps": [{"op": "exp", "x": "$x", "as": "y"}], "outputs": ["y"]}'


class ProgramNames(HttpTest):
    folder = temporary_folder()
    options = ("--data-dir", folder)

    @classmethod
    def setUpClass(cls):
        for file in ("score.program.json", "score@1.program.json", "old@1.program.json", "score.program.npy", "run.program.json", "plan@1.program.json",
                     "stats.program.json", "gelu.program.json", "tanh@1.program.json"):
            with open(os.path.join(cls.folder, file), "wb") as out:
                out.write(npy("<f4", (2,), struct.pack("<2f", 1, 2)) if file.endswith(".npy") else TEXT)
        super().setUpClass()

    def setUp(self):
        with Client(shared(*self.options)) as client:  # compiles the programs of the folder, which then stay in memory
            client.request("POST", "/v2/repository/index", b"")
            client.request("GET", "/v1/programs/stats")  # not in the index
        super().setUp()

    def test_no_route_takes_it_for_a_tensor(self):
        name, files = "score.program", os.listdir(self.folder)
        for method, path, body in (("GET", f"/v1/tensors/{name}", None), ("GET", f"/v1/tensors/{name}@1", None),
                                   ("GET", f"/v1/tensors/{name}.keys", None), ("GET", f"/v1/tensors/{name}/statistics", None),
                                   ("PUT", f"/v1/tensors/{name}", [1]), ("PUT", "/v1/tensors/another.program", [1]),
                                   ("DELETE", f"/v1/tensors/{name}", None), ("PUT", f"/v1/tensors/{name}/keys", [1]),
                                   ("DELETE", f"/v1/tensors/{name}/keys", None),
                                   ("POST", f"/v1/tensors/{name}/gather", {"indices": [0]}),
                                   ("POST", f"/v1/tensors/{name}/scatter", {"indices": [[0]], "updates": [5]}),
                                   ("POST", f"/v1/tensors/{name}/upsert", {"keys": [1], "rows": [5]}),
                                   ("POST", "/v1/gather", {"params": {"ref": name}, "indices": [0]}),
                                   ("POST", "/v1/gather", {"params": [1, 2], "indices": [0], "store": name}),
                                   ("POST", "/v1/programs/run", {"inputs": {"x": {"ref": name}}, "outputs": ["y"],
                                                                 "steps": [{"op": "negative", "x": "$x", "as": "y"}]}),
                                   ("GET", f"/v2/models/{name}", None), ("GET", f"/v2/models/{name}/versions/1", None)):
            with self.subTest(method=method, path=path):
                reply = self.request(method, path, body)
                self.assertStatus(reply, 422 if path.startswith("/v1") else 400)
                text = reply.body.decode()
                self.assertRegex(text, r"'(score|another)\.program(@1)?' is the name of the program '(score|another)(@1)?', not of a tensor; "
                                       r"use /v1/programs/(score|another)(@1)?")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(files))

    def test_no_list_shows_it(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/scores", [1]), 201)
        self.assertEqual([t["name"] for t in self.get("/v1/tensors").json()["tensors"]], ["scores"])
        models = {m["name"] for m in self.request("POST", "/v2/repository/index", b"").json()}
        self.assertIn("scores", models)
        self.assertFalse({m for m in models if "program" in m})
        # Nor does an error suggest it.
        problem = self.assertProblem(self.get("/v1/tensors/score"), 404, "TENSOR_NOT_FOUND")
        self.assertEqual(problem["did_you_mean"], "scores")

    def test_another_file_of_the_name_is_a_problem(self):
        problems = self.get("/v1/aliases").json()["problems"]
        reasons = {p["source"]: p["reason"] for p in problems}
        self.assertEqual(sorted(reasons), ["plan@1.program.json", "run.program.json", "score.program.npy"])
        self.assertIn("'score.program' is the name of the program 'score', not of a tensor; a program is read from its text in score.program.json",
                      reasons["score.program.npy"])

    def test_a_program_that_no_call_can_reach_is_a_problem(self):
        reasons = {p["source"]: p["reason"] for p in self.get("/v1/aliases").json()["problems"]}
        for name in ("run", "plan@1"):
            self.assertIn(f"no program can have the name '{name}', because POST /v1/programs/run and /v1/programs/plan take a program in their body",
                          reasons[f"{name}.program.json"])
            self.assertIn(self.get(f"/v2/models/{name}").status, (400, 404, 503))
        self.assertEqual([p["name"] for p in self.get("/v1/programs").json()["programs"]], ["gelu", "old@1", "score", "score@1", "stats", "tanh@1"])

    def test_the_statistics_of_all_models_keep_their_path(self):
        self.assertIn("model_stats", self.get("/v2/models/stats").json())
        for path in ("/ready", "/versions/1", "/versions/2"):
            reply = self.get(f"/v2/models/stats{path}")
            self.assertEqual((reply.status, reply.json()["code"]), (404, "UNKNOWN_OP"))
        self.assertStatus(self.post("/v1/programs/stats", {"x": [0, 0]}), 200)

    def test_the_log_names_the_programs_at_the_start(self):
        named = [(event["event"], event["program"]) for event in self.daemon.events() if event["event"].startswith("program_")]
        self.assertEqual(named, [("program_replaces_op", "gelu"), ("program_is_no_model", "stats")])

    def test_an_alias_names_a_version_of_a_program(self):
        reply = self.post("/v1/aliases", {"set": {"new.program": "old.program@1"}})
        self.assertStatus(reply, 200)
        self.assertEqual(self.get("/v1/aliases").json()["aliases"], {"new.program": "old.program@1"})
        self.assertNotIn("new.program", [m["name"] for m in self.request("POST", "/v2/repository/index", b"").json()])
        for name, target in (("new", "old.program@1"), ("new.program", "old@1")):
            problem = self.assertProblem(self.post("/v1/aliases", {"set": {name: target}}), 422, "INVALID_ARGUMENT")
            self.assertIn("an alias of a program has a name ALIAS.program", problem["detail"])
        self.assertStatus(self.post("/v1/aliases", {"set": {"new.program": None}}), 200)

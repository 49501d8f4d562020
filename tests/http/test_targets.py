"""What the request line asks for: percent-encoding in paths and queries."""
from daemon import *

GATHER = b'{"params":[1,2],"indices":[1]}'


class Encoding(HttpTest):
    def test_an_encoded_slash_is_no_slash(self):
        for path in ("/v1%2fgather", "/v1%2Fgather", "%2fv1/gather", "/v1/tensors%2ft", "/v2%2fmodels/gather/infer"):
            self.assertStatus(self.post(path, GATHER), 404)
        self.assertProblem(self.post("/v1/%2fgather", GATHER), 404, "UNKNOWN_OP")

    def test_only_names_have_another_spelling(self):
        self.assertOutput(self.post("/v1/g%61ther", GATHER), "int32", [1], [2])
        for path in ("/%76%31/gather", "/%761/gather", "/v1/%74ensors/x/scatter"):
            self.assertProblem(self.post(path, GATHER), 404, "NOT_FOUND")

    def test_a_broken_escape_in_a_path_is_malformed_and_shown(self):
        for path, escape in (("/v1/gather%", "%"), ("/v1/gather%4", "%4"), ("/v1/%zzgather", "%zz"), ("/nowhere%g1", "%g1"),
                             ("/v1/tensors/%%41", "%%4"), ("/healthz%/x", "%/x")):
            with self.subTest(path=path):
                problem = self.assertProblem(self.post(path, GATHER), 400, "MALFORMED_REQUEST")
                self.assertIn(f"'{escape}'", problem["detail"])
        answer = self.get("/v2/models/%zz")
        self.assertEqual((answer.status, answer.type), (400, JSON))
        self.assertIn("%zz", answer.json()["error"])

    def test_a_refused_path_keeps_the_connection(self):
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather%", GATHER) + http_request("GET", "/v1/tensors/t%00") + http_request("GET", "/healthz"))
            self.assertEqual([raw.answer().status for _ in range(3)], [400, 400, 200])

    def test_arguments_of_a_query_are_decoded(self):
        for query in ("?axis=%30", "?%61xis=0", "?ax%69s=%30&device=c%70u", "?axis=%2b0"):
            self.assertOutput(self.post("/v1/gather" + query, GATHER), "int32", [1], [2])
        self.assertProblem(self.post("/v1/gather?axis=+0", GATHER), 400, "MALFORMED_REQUEST")  # a blank
        for query in ("?axis=0%00", "?axis%00=0", "?%00axis=0"):
            self.assertProblem(self.post("/v1/gather" + query, GATHER), 400, "MALFORMED_REQUEST")
        self.assertStatus(self.ask("PUT", "/v1/tensors/a:b", [1]), 201)
        for query in ("response=fl%61t", "%72esponse=flat"):
            self.assertEqual(self.get("/v1/tensors/a:b?" + query).json()["data"], [1])
        for query in ("response=fl%2561t", "response%3dflat", "response=flat%26x"):
            self.assertProblem(self.get("/v1/tensors/a:b?" + query), 400, "MALFORMED_REQUEST")

    def test_a_broken_escape_in_a_query_is_malformed_too(self):
        for query, escape in (("response=%zz", "%zz"), ("response=flat%4", "%4"), ("%=flat", "%"), ("response=%", "%")):
            problem = self.assertProblem(self.get("/v1/tensors/any?" + query), 400, "MALFORMED_REQUEST")
            self.assertIn(f"'{escape}'", problem["detail"])
        self.assertIn("'%zz'", self.post("/v1/gather?axis=%zz", GATHER).json()["detail"])

    def test_the_log_has_the_path_as_it_was_sent(self):
        with Daemon("--log-level", "debug") as daemon, Client(daemon) as client:
            client.ask("GET", "/v1/tensors/a%0a%2fb")
            daemon.wait_log(lambda e: e.get("path") == "/v1/tensors/a%0a%2fb")

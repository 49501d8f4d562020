"""Names of tensors beyond ASCII: letters, marks and digits in normalisation form C, percent-encoded in paths and headers."""
import hashlib, random, tempfile, unicodedata
from urllib.parse import quote
from oip_client import *

TABLE = "X-Tensord-Table"
NAMES = ("café", "東京", "жизнь", "한글", "हिंदी", "ที่", "עברית", "𠮷野家:行", "Việt_Nam.2", "アイ・ウ", "x\u0301")
DECOMPOSED = "cafe\u0301"
TOKEN, ADMIN = "team-token-0123456789", "admin-token-0123456789"


def path(name, rest=""):
    return f"/v1/tensors/{quote(name, safe=':@')}{rest}"


class NameTest(OipTest):
    def delete(self, path):
        return self.request("DELETE", path)

    def put(self, name, body, query=""):
        reply = self.request("PUT", path(name, query), body)
        self.addCleanup(self.delete, path(name))
        return reply

    def resident(self, name, body):
        reply = self.put(name, body)
        self.assertStatus(reply, 201)
        return reply.json()


class Tensors(NameTest):
    def test_put_get_and_delete(self):
        for name in NAMES:
            with self.subTest(name):
                reply = self.put(name, [[1, 2], [3, 4]])
                self.assertStatus(reply, 201)
                self.assertEqual((reply.json()["name"], reply.headers["Location"]), (name, path(name)))
                self.assertEqual(self.get(reply.headers["Location"]).json(), reply.json())
                self.assertEqual(self.get(path(name, "?response=nested")).json()["data"], [[1, 2], [3, 4]])
                self.assertStatus(self.delete(path(name)), 204)
                self.assertProblem(self.get(path(name)), 404, "TENSOR_NOT_FOUND")

    def test_a_path_may_hold_utf_8_as_it_is_and_escapes_in_lower_case(self):
        self.resident("café", [1])
        with Raw(self.daemon) as connection:
            connection.send("GET /v1/tensors/café HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertStatus(connection.reply(), 200)
        self.assertStatus(self.get("/v1/tensors/caf%c3%a9"), 200)

    def test_references_and_results(self):
        self.resident("東京", [[1, 2], [3, 4]])
        indices = safetensors({"indices": ("int64", (1,), pack("int64", [1]))}, {"params.ref": "東京"})
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": "東京"}, "indices": [1]}), "int32", [1, 2], [[3, 4]])
        self.assertBinary(self.post("/v1/gather", indices, {"Content-Type": SAFETENSORS}), "int32", [1, 2], pack("int32", [3, 4]))
        self.addCleanup(self.delete, path("大阪"))
        for given in ({"body": {"store": "大阪"}}, {"query": "?store=" + quote("大阪")}):
            reply = self.post("/v1/gather" + given.get("query", ""), {"params": {"ref": "東京"}, "indices": [0], **given.get("body", {})})
            self.assertEqual(reply.json()["output"]["name"], "大阪")
        self.assertEqual(self.get(path("大阪", "?response=nested")).json()["data"], [[1, 2]])

    def test_results_of_the_longest_names(self):
        """of several outputs, whose names all have as many bytes as a name may have"""
        name = "行" * 42
        for part in ("values", "indices"):
            self.addCleanup(self.delete, path(f"{name[:38]}.{part}"))
        reply = self.post("/v1/top_k", {"x": [1, 3, 2], "k": 1, "store": name[:38]})
        self.assertStatus(reply, 200)
        self.assertEqual({output["name"] for output in reply.json()["outputs"].values()}, {f"{name[:38]}.values", f"{name[:38]}.indices"})
        self.resident(name, [1])
        self.assertEqual(self.get(path(name)).json()["name"], name)

    def test_keys_updates_and_lookups(self):
        found = self.resident("行", {"tensor": [[1, 2], [3, 4]], "keys": ["a", "b"]})
        reply = self.post(path("行", "/gather"), {"indices": {"keys": ["b"]}})
        self.assertOutput(reply, "int32", [1, 2], [[3, 4]])
        self.assertEqual(reply.headers[TABLE], f"%E8%A1%8C@{found['version']}")
        self.assertStatus(self.request("PUT", path("行", "/keys"), ["c", "d"]), 200)
        self.assertEqual(self.get(path("行", "/keys?response=nested")).json()["data"], ["c", "d"])
        self.assertStatus(self.post(path("行", "/upsert"), {"keys": ["e"], "rows": [[5, 6]]}), 200)
        self.assertEqual(self.get(path("行.keys", "?response=nested")).json()["data"], ["c", "d", "e"])
        self.assertIn('tensord_table_rows_read_total{table="行"} 1', self.get("/metrics").body.decode())
        self.resident("列", [1])
        reply = self.request("PUT", path("列", "/keys"), ["k"])
        self.assertEqual((reply.status, reply.headers["Location"]), (201, path("列", "/keys")))

    def test_lists_are_sorted_by_bytes_and_have_prefixes(self):
        for name in ("é-1", "é-2", "z", "東"):
            self.resident(name, [1])
        names = [tensor["name"] for tensor in self.get("/v1/tensors").json()["tensors"]]
        self.assertEqual(names, sorted(names, key=str.encode))
        page = self.get(f"/v1/tensors?limit=1&prefix={quote('é-')}").json()
        self.assertEqual(([tensor["name"] for tensor in page["tensors"]], page["next"]), (["é-1"], "é-1"))
        page = self.get(f"/v1/tensors?prefix={quote('é-')}&after={quote(page['next'])}").json()
        self.assertEqual([tensor["name"] for tensor in page["tensors"]], ["é-2"])

    def test_case_is_not_folded(self):
        self.resident("É", [1])
        self.assertProblem(self.get(path("é")), 404, "TENSOR_NOT_FOUND")
        self.resident("é", [2])
        self.assertEqual(self.get(path("É", "?response=nested")).json()["data"], [1])

    def test_a_name_that_is_almost_right_is_suggested(self):
        self.resident("préférences", [1])
        self.assertProblem(self.get(path("preférences")), 404, "TENSOR_NOT_FOUND", did_you_mean="préférences")

    def test_aliases(self):
        self.resident("映画@1", [[1, 2]])
        self.assertStatus(self.post("/v1/aliases", {"set": {"ciné": "映画@1"}}), 200)
        self.addCleanup(self.post, "/v1/aliases", {"set": {"ciné": None}})
        self.assertEqual(self.get("/v1/aliases").json()["aliases"], {"ciné": "映画@1"})
        reply = self.post(path("ciné", "/gather"), {"indices": [0]})
        self.assertEqual(reply.headers[TABLE], quote("映画@1", safe="@"))
        self.assertEqual(self.get(path("ciné")).json()["name"], "映画@1")

    def test_models_of_v2(self):
        self.resident("映画@2", [[1, 2], [3, 4]])
        for model in (quote("映画@2", safe="@"), quote("映画") + "/versions/2"):
            self.assertEqual(self.get(f"/v2/models/{model}").json()["name"].partition("@")[0], "映画")
            reply = self.post(f"/v2/models/{model}/infer", {"inputs": [oip_input("indices", "INT64", [1], [1])]})
            self.assertStatus(reply, 200)
            self.assertEqual((reply.json()["outputs"][0]["data"], reply.headers[TABLE]), ([3, 4], quote("映画@2", safe="@")))
        self.assertIn("映画", "".join(model["name"] for model in self.post("/v2/repository/index", b"").json()))
        error = self.assertError(self.get(f"/v2/models/{quote(DECOMPOSED)}"), 404)
        self.assertIn("expected 'café', in a path caf%C3%A9", json.dumps(error, ensure_ascii=False))


class Refusals(NameTest):
    def test_a_name_that_is_not_in_nfc(self):
        expected = "it is not in Unicode normalisation form C (NFC); expected 'café', in a path caf%C3%A9"
        self.resident("café", [1])
        self.resident("v@1", [1])
        version = "expected 'café@1', in a path caf%C3%A9@1"
        for reply in (self.put(DECOMPOSED + "@1", [1]), self.post("/v1/aliases", {"set": {"a": DECOMPOSED + "@1"}})):
            self.assertIn(version, self.assertProblem(reply, 422, "INVALID_ARGUMENT")["detail"])
        self.assertIn(version, self.assertProblem(self.get(path(DECOMPOSED + "@1")), 404, "TENSOR_NOT_FOUND")["detail"])
        for reply, status, code in ((self.put(DECOMPOSED, [1]), 422, "INVALID_ARGUMENT"),
                                    (self.delete(path(DECOMPOSED)), 422, "INVALID_ARGUMENT"),
                                    (self.get(path(DECOMPOSED)), 404, "TENSOR_NOT_FOUND"),
                                    (self.post(path(DECOMPOSED, "/gather"), {"indices": [0]}), 404, "TENSOR_NOT_FOUND"),
                                    (self.post("/v1/gather", {"params": {"ref": DECOMPOSED}, "indices": [0]}), 404, "TENSOR_NOT_FOUND"),
                                    (self.post("/v1/gather", {"params": [1], "indices": [0], "store": DECOMPOSED}), 422, "INVALID_ARGUMENT"),
                                    (self.post("/v1/aliases", {"set": {DECOMPOSED: "v@1"}}), 422, "INVALID_ARGUMENT")):
            problem = self.assertProblem(reply, status, code)
            self.assertIn(expected, problem["detail"])

    def test_other_characters_and_bytes(self):
        for name in ("é b", "a\u202eb", "a\u200db", "a\u200b", "\ufeffa", "字\ufe00", "\u3164", "\ue000", "\U0002fff0", "é/b", "é?", "é#", "é%", "é\"", "é\\",
                     "\u0301", "😀", "a\u00a0b", "a\u0085", ".é", "a@é", "é@", "行" * 43):
            with self.subTest(name.encode("unicode_escape")):
                problem = self.assertProblem(self.request("PUT", f"/v1/tensors/{quote(name, safe='@')}", [1]), 422, "INVALID_ARGUMENT")
                self.assertIn("is not a valid tensor name: ", problem["detail"])
        for name in ("caf%E9", "%C3", "%C0%AF", "%ED%A0%80", "%C3%A9%FF"):
            problem = self.assertProblem(self.request("PUT", f"/v1/tensors/{name}", [1]), 422, "INVALID_ARGUMENT")
            self.assertIn("is not valid UTF-8", problem["detail"])

    def test_verdicts_are_those_of_unicodedata(self):
        """for characters that every version of Unicode since 3.2 has"""
        assigned = [chr(c) for c in range(0xa1, 0x110000) if not 0xd800 <= c < 0xf900 and unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"]
        invisible = set("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u3164\uffa0") | set(map(chr, range(0xfe00, 0xfe10)))
        inside = set("\u00b7\u05f3\u05f4\u0f0b\u30fb")
        marks = [c for c in assigned if unicodedata.category(c)[0] == "M"]

        def valid(name):
            letters = [c in inside or (unicodedata.category(c)[0] in "LMN" and c not in invisible) for c in name]
            return all(letters) and unicodedata.is_normalized("NFC", name)
        chosen = random.Random(20261126)
        verdicts = set()
        for _ in range(1500):
            name = chosen.choice("aeoun") + "".join(chosen.choice(marks if chosen.random() < 0.4 else assigned) for _ in range(chosen.randrange(1, 4)))
            if any(before in inside and unicodedata.category(mark)[0] == "M" for before, mark in zip(name, name[1:])):
                continue
            status = self.request("PUT", path(name), b"1").status
            self.assertEqual(status in (200, 201), valid(name), f"{status} for {name.encode('unicode_escape')}")
            verdicts.add(valid(name))
            if status in (200, 201):
                self.delete(path(name))
        self.assertEqual(verdicts, {True, False})


class Folders(HttpTest):
    def test_files_and_aliases_survive_a_restart(self):
        folder = temporary_folder()
        member = {"重み": ("int32", (1,), pack("int32", [7]))}
        for file, content in (("東京.npy", npy("int32", (1,), pack("int32", [1]))), ("modèle@1.safetensors", safetensors(member)),
                              (DECOMPOSED + ".npy", npy("int32", (1,), pack("int32", [2])))):
            with open(os.path.join(folder, file), "wb") as out:
                out.write(content)
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            names = [tensor["name"] for tensor in client.request("GET", "/v1/tensors").json()["tensors"]]
            self.assertEqual(names, ["modèle:重み@1", "東京"])
            event = daemon.wait_log(lambda event: event.get("event") == "table_skipped")
            self.assertEqual((event["file"], event["tensor"]), (DECOMPOSED + ".npy", DECOMPOSED))
            self.assertIn("expected 'café'", event["reason"])
            self.assertStatus(client.request("PUT", path("行@1", "?persist=1"), {"tensor": [[1]], "keys": ["k"]}), 201)
            self.assertTrue(os.path.exists(os.path.join(folder, "行@1.tensord")))
            self.assertStatus(client.request("POST", "/v1/aliases?persist=1", {"set": {"現在": "行@1", "poids": "modèle:重み@1"}}), 200)
            self.assertStatus(client.request("DELETE", path("東京")), 204)
            self.assertFalse(os.path.exists(os.path.join(folder, "東京.npy")))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {"poids": "modèle:重み@1", "現在": "行@1"})
            self.assertEqual(client.request("GET", path("poids", "?response=nested")).json()["data"], [7])
            reply = client.request("POST", path("現在", "/gather"), {"indices": {"keys": ["k"]}})
            self.assertEqual(reply.json()["output"]["data"], [[1]])

    def test_a_folder_of_versions(self):
        folder = temporary_folder()
        os.mkdir(os.path.join(folder, ".new"))
        body = npy("int32", (1,), pack("int32", [5]))
        with open(os.path.join(folder, ".new", "映画.npy"), "wb") as file:
            file.write(body)
        with open(os.path.join(folder, ".new", "manifest.json"), "w", encoding="utf-8") as file:
            json.dump({"files": {"映画.npy": {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}}, "aliases": {"ciné": "映画@7"}}, file)
        os.rename(os.path.join(folder, ".new"), os.path.join(folder, "7"))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(client.request("GET", path("ciné", "?response=nested")).json()["data"], [5])


class Tokens(HttpTest):
    def test_a_token_has_prefixes_of_names(self):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="tensord-tokens-") as file:
            file.write(f"admin {ADMIN}\nwrite {TOKEN} équipe.\n")
            file.flush()
            with Daemon("--token-file", file.name) as daemon, Client(daemon) as client:
                daemon.at_start = None  # the tensors stay
                team, admin = ({"Authorization": "Bearer " + token} for token in (TOKEN, ADMIN))
                self.assertStatus(client.request("PUT", path("équipe.a"), [1], team), 201)
                self.assertStatus(client.request("PUT", path("autre"), [1], admin), 201)
                self.assertProblem(client.request("PUT", path("autre"), [1], team), 403, "FORBIDDEN")
                self.assertProblem(client.request("PUT", path("équip"), [1], team), 403, "FORBIDDEN")
                names = [tensor["name"] for tensor in client.request("GET", "/v1/tensors", None, team).json()["tensors"]]
                self.assertEqual(names, ["équipe.a"])

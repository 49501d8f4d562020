"""tensord serves what the import wrote: the names, dtypes and rows that it said."""
import base64, signal, struct
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daemon import Client, Daemon
from importing import ImportTest
import names  # of deploy/import


def rows(client, name, indices):
    """the rows of a table, as bytes"""
    reply = client.request("POST", "/v1/gather?response=base64", {"params": {"ref": name}, "indices": indices})
    assert reply.status == 200, reply
    return base64.b64decode(reply.json()["output"]["base64"])


class Served(ImportTest):
    def test_rows_keys_scales_and_offsets_are_resident(self):
        values = np.random.default_rng(1).standard_normal((1000, 16)).astype("f4")
        pq.write_table(pa.table({"title": [f"Film {i}" for i in range(1000)], "embedding": list(values)}), self.work / "movies.parquet")
        self.imported(self.work / "movies.parquet", "--keys", "title", "--dtype", "uint8")
        self.imported(self.work / "movies.parquet", "--name", "exact")
        with Daemon("--data-dir", str(self.data)) as daemon, Client(daemon) as client:
            listed = {t["name"]: (t["dtype"], t["shape"]) for t in client.request("GET", "/v1/tensors").json()["tensors"]}
            self.assertEqual(listed, {
                "exact:embedding": ("float32", [1000, 16]), "movies:embedding": ("uint8", [1000, 16]),
                "movies:embedding.offset": ("float32", [1000]), "movies:embedding.scale": ("float32", [1000])})
            self.assertEqual(rows(client, "exact:embedding", [999, 0]), values[[999, 0]].tobytes())
            found = client.post("/v1/find", {"keys": {"ref": "movies:embedding.keys"}, "queries": ["Film 7", "Film", "Film 999"]})
            self.assertEqual(found.json()["output"]["data"], [7, -1, 999])
            self.assertEqual(rows(client, "movies:embedding.offset", [5]), values[5].min().tobytes())

    def test_names_are_in_any_script(self):
        np.savez(self.work / "\u6620\u753b.npz", **{"\u91cd\u307f": np.array([[1, 2]], "f4")})
        self.imported(self.work / "\u6620\u753b.npz", "--version", "1", "--alias", "cin\u00e9=\u91cd\u307f")
        self.assertIn("(NFC); expected 'caf\u00e9'", self.refused(self.work / "\u6620\u753b.npz", "--tensor", "\u91cd\u307f=cafe\u0301"))
        with Daemon("--data-dir", str(self.data)) as daemon, Client(daemon) as client:
            self.assertEqual([t["name"] for t in client.request("GET", "/v1/tensors").json()["tensors"]], ["\u6620\u753b:\u91cd\u307f@1"])
            self.assertEqual(rows(client, "cin\u00e9", [0]), struct.pack("<2f", 1, 2))

    def test_tensord_has_the_same_verdict_on_names(self):
        candidates = ("a", "caf\u00e9", "cafe\u0301", "\u0301", "x\u0301", "a.\u0301", "\u30a2\u30fb\u30a4", "l\u00b7\u0301", "a b", "a\u200d", "\u3164", "a\ufe00",
                      "\u20ac", "\ue000", "a:b", "\u212b", "\u2163", "a\u0660", "\U00020bb7", "e\u0323\u0302", "e\u0302\u0323", "a/b", "a\u00ad")
        with Daemon() as daemon, Client(daemon) as client:
            for name in candidates:
                with self.subTest(ascii(name)):
                    status = client.request("PUT", "/v1/tensors/n:" + quote(name, safe=""), b"1").status
                    if status == 201:
                        client.request("DELETE", "/v1/tensors/n:" + quote(name, safe=""))
                    self.assertEqual(status in (200, 201), names.fault_of(name, names.IN_TENSOR_NAMES) is None)

    def test_a_running_daemon_gets_a_replaced_table_by_sighup(self):
        for value in 1, 2:
            np.savez(self.work / "m.npz", w=np.full((2, 2), value, "f4"))
            self.imported(self.work / "m.npz")
            if value == 1:
                daemon = Daemon("--data-dir", str(self.data))
        with daemon, Client(daemon) as client:
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda e: e.get("replaced") == 1, what="a scan that replaces a table")
            self.assertEqual(rows(client, "m:w", [1]), struct.pack("<2f", 2, 2))

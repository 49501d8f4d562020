"""tensord serves what the import wrote: the names, dtypes and rows that it said."""
import base64, signal, struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daemon import Client, Daemon
from importing import ImportTest


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

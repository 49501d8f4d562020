"""Measures the gain from batching on a device with slow launches, and the cost of a device that is not used."""
import statistics
from turns import report, row, take_turns, wrk_turn
import daemon
from daemon import SAFETENSORS
from inputs import (Broken, LOOKUP_IDS, SMALL_INDICES, SMALL_JSON, SMALL_PARAMS, TABLE_WIDTH, Request, check_binary, check_json, ints,
                    rows_of_range)

LAUNCH_US = 1000
CLIENTS = 64
DEVICE_LOOKUP = Request("/v1/gather?device=gpu", daemon.safetensors(
    {"indices": ("int32", [len(LOOKUP_IDS)], ints(LOOKUP_IDS).tobytes())}, {"params.ref": "table"}), SAFETENSORS)


MEANS = {"inputs": {"ids": {"dtype": "int32", "shape": ["b", len(LOOKUP_IDS)]}},
         "steps": [{"op": "gather", "params": {"ref": "table"}, "indices": "$ids", "as": "rows"},
                   {"op": "reduce_mean", "x": "$rows", "axes": [1], "as": "means"},
                   {"op": "l2_normalize", "x": "$means", "as": "result"}], "outputs": ["result"]}


class DeviceCases:
    def batches(self):
        """lookups of 64 clients on a device whose launch takes a millisecond: batched, and one per launch"""
        raw, file = rows_of_range(LOOKUP_IDS, TABLE_WIDTH), self.body_file(DEVICE_LOOKUP)
        slow = ("--gpu", f"reference:launch_us={LAUNCH_US}")
        with self.tensord(*slow) as merged, self.tensord(*slow, "--batch-limit", "1") as single:
            for server in (merged, single):
                check_binary(server, DEVICE_LOOKUP, [len(LOOKUP_IDS), TABLE_WIDTH], raw)
            pairs = take_turns(lambda s: wrk_turn(s, DEVICE_LOOKUP, file, self.args.seconds, CLIENTS), merged, single,
                               self.args.rounds)
        report("batches", pairs, "req/s", 1, "at least 20")
        p99 = statistics.median(a.p99 for a, _ in pairs)
        row("batches, p99", f"{p99:,.0f} us", f"{LAUNCH_US} us", f"{p99 / LAUNCH_US:5.2f}", "at most 3")

    def program_batches(self):
        """calls of a stored program by 64 clients on a device whose launch takes a millisecond: batched, and one call per launch"""
        request = Request("/v1/programs/means?device=gpu", daemon.safetensors({"ids": ("int32", [1, len(LOOKUP_IDS)], ints(LOOKUP_IDS).tobytes())}), SAFETENSORS)
        slow, file = ("--gpu", f"reference:launch_us={LAUNCH_US}"), self.body_file(request)
        with self.tensord(*slow) as merged, self.tensord(*slow, "--batch-limit", "1") as single:
            for server in (merged, single):
                with daemon.Client(server) as client:
                    client.request("PUT", "/v1/programs/means", MEANS)
                    if client.request("POST", request.path, request.body, {"Content-Type": SAFETENSORS}).status != 200:
                        raise Broken("the program cannot be called")
            pairs = take_turns(lambda s: wrk_turn(s, request, file, self.args.seconds, CLIENTS), merged, single, self.args.rounds)
        report("program_batches", pairs, "req/s", 1, "at least 10")

    def beside_a_device(self):
        """small requests on the CPU, with and without a device"""
        file = self.body_file(SMALL_JSON)
        with self.tensord("--gpu", "reference") as there, self.tensord("--gpu", "off") as absent:
            for server in (there, absent):
                check_json(server, SMALL_JSON, [SMALL_PARAMS[i] for i in SMALL_INDICES])
            pairs = take_turns(lambda s: wrk_turn(s, SMALL_JSON, file, self.args.seconds), there, absent, self.args.rounds)
        report("beside a device", pairs, "req/s", 1, "at least 0.97")

#!/usr/bin/env python3
"""Serves the table of a sentence-embedding model with tensord and looks up words in it, as an application would.

    check.py MODEL_FOLDER        (model.safetensors and vocab.txt; run.sh fetches them)

Sentences are converted to token ids by the model's vocabulary, the ids are looked up over HTTP in every format, and
every byte is compared with the file, which is read directly.
"""
import base64, json, math, mmap, os, struct, sys, tempfile, time, unicodedata

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from daemon import SAFETENSORS, Client, Daemon, pack, read_safetensors, safetensors

TABLE = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
SENTENCES = [
    "A cat sits on the mat.",
    "A kitten is resting on the carpet.",
    "The stock market fell sharply on Monday.",
    "Tensors travel over HTTP, unbelievably quickly!",
    "Ünïcödé café: 北京 is a city.",
]


# ---------------------------------------------------------------- the model's files
class File:
    """a mapped safetensors file, with a reader that is independent of tensord"""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        length = struct.unpack_from("<Q", self.map)[0]
        self.header = json.loads(self.map[8:8 + length])
        self.begin = 8 + length

    def shape(self, name):
        return self.header[name]["shape"]

    def row(self, name, i):
        entry = self.header[name]
        width = 4 * math.prod(entry["shape"][1:])
        at = self.begin + entry["data_offsets"][0] + i * width
        return self.map[at:at + width]


class WordPiece:
    """the tokenizer of uncased BERT models: lower case, no accents, longest subwords first"""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.pieces = f.read().splitlines()
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    @staticmethod
    def words(text):
        text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        out = ""
        for c in text:
            alone = unicodedata.category(c).startswith("P") or (ord(c) < 128 and not c.isalnum() and not c.isspace())
            alone = alone or 0x4E00 <= ord(c) <= 0x9FFF
            out += f" {c} " if alone else c
        return out.split()

    def split(self, word):
        out, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = ("##" if at else "") + word[at:end]
                if piece in self.ids:
                    out.append(piece)
                    at = end
                    break
            else:
                return ["[UNK]"]
        return out

    def __call__(self, text):
        return ["[CLS]", *(p for word in self.words(text) for p in self.split(word)), "[SEP]"]


# ---------------------------------------------------------------- the checks
def require(condition, what):
    if not condition:
        sys.exit(f"FAIL {what}")


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows)]


def gather(client, ref, ids, form):
    """rows of a resident table as bytes, requested in one of the formats"""
    if form == "JSON":
        output = client.post("/v1/gather", {"params": {"ref": ref}, "indices": ids})
        require(output.status == 200, str(output))
        output = output.json()["output"]
        require((output["dtype"], output["shape"][0]) == ("float32", len(ids)), f"a float32 tensor, not {output['dtype']} {output['shape']}")
        return b"".join(pack("float32", row) for row in output["data"])
    if form == "JSON, base64":
        output = client.post("/v1/gather", {"params": {"ref": ref}, "indices": ids, "response": "base64"})
        require(output.status == 200, str(output))
        return base64.b64decode(output.json()["output"]["base64"])
    if form == "JSON in, safetensors out":
        output = client.post("/v1/gather", {"params": {"ref": ref}, "indices": ids}, {"Accept": SAFETENSORS})
    else:
        body = safetensors({"indices": ("int32", (len(ids),), pack("int32", ids))}, {"params.ref": ref})
        output = client.post("/v1/gather", body, {"Content-Type": SAFETENSORS})
    require(output.status == 200, str(output))
    return read_safetensors(output.body)[0]["output"][2]


FORMS = ("JSON", "JSON, base64", "JSON in, safetensors out", "safetensors")


def main():
    folder = sys.argv[1]
    weights = os.path.join(folder, "model.safetensors")
    file, tokenize = File(weights), WordPiece(os.path.join(folder, "vocab.txt"))
    rows, width = file.shape(TABLE)
    with tempfile.TemporaryDirectory(prefix="tensord-real-") as data:
        os.symlink(os.path.abspath(weights), os.path.join(data, "minilm.safetensors"))
        began = time.monotonic()
        with Daemon("--data-dir", data) as daemon, Client(daemon) as client:
            ready = time.monotonic() - began
            tables = {t["name"]: t for t in client.request("GET", "/v1/tensors").json()["tensors"]}
            total = sum(t["bytes"] for t in tables.values())
            print(f"{len(tables)} tables, {total / 1e6:.1f} MB, served {1000 * ready:.0f} ms after the start")
            require(set(tables) == {"minilm:" + name for name in file.header if name != "__metadata__"}, "every tensor of the file is a table")
            words = tables["minilm:" + TABLE]
            require((words["dtype"], words["shape"], words["bytes"]) == ("float32", [rows, width], 4 * rows * width), str(words))

            compared, sentences = 0, []
            for text in SENTENCES:
                pieces = tokenize(text)
                ids = [tokenize.ids[p] for p in pieces]
                expected = b"".join(file.row(TABLE, i) for i in ids)
                for form in FORMS:
                    got = gather(client, "minilm:" + TABLE, ids, form)
                    require(got == expected, f"{form}: the rows of {text!r} are those of the file")
                    compared += len(got)
                values = struct.unpack(f"<{len(ids) * width}f", expected)
                sentences.append(mean([values[i * width:(i + 1) * width] for i in range(len(ids))]))
                print(f"  {' '.join(pieces)}\n    ids {ids[:8]}{'...' if len(ids) > 8 else ''} -> [{len(ids)},{width}], '{pieces[2]}' is "
                      f"{', '.join(f'{v:.4f}' for v in values[2 * width:2 * width + 4])}, ...")

            # A padded batch as the input of a model: ids [sentences, tokens] -> [sentences, tokens, width].
            longest = max(len(tokenize(t)) for t in SENTENCES)
            batch = [([tokenize.ids[p] for p in tokenize(t)] + [tokenize.ids["[PAD]"]] * longest)[:longest] for t in SENTENCES]
            flat = [i for ids in batch for i in ids]
            reply = client.post("/v1/gather", {"params": {"ref": "minilm:" + TABLE}, "indices": batch}, {"Accept": SAFETENSORS})
            require(reply.status == 200, str(reply))
            dtype, shape, raw = read_safetensors(reply.body)[0]["output"]
            require((dtype, shape) == ("float32", [len(batch), longest, width]), f"{dtype} {shape}")
            require(raw == b"".join(file.row(TABLE, i) for i in flat), "the padded batch is the file's rows")
            compared += len(raw)

            # Many random rows, and the position table.
            ids = [(i * 7919) % rows for i in range(20000)]
            for form in ("JSON in, safetensors out", "safetensors"):
                began = time.monotonic()
                got = gather(client, "minilm:" + TABLE, ids, form)
                seconds = time.monotonic() - began
                require(got == b"".join(file.row(TABLE, i) for i in ids), f"{form}: 20000 rows are those of the file")
                compared += len(got)
                print(f"20000 rows as {form}: {len(got) / 1e6:.1f} MB in {1000 * seconds:.0f} ms")
            got = gather(client, "minilm:" + POSITIONS, list(range(longest)), "safetensors")
            require(got == b"".join(file.row(POSITIONS, i) for i in range(longest)), "positions are those of the file")
            compared += len(got)

            reply = client.post("/v1/gather", {"params": {"ref": "minilm:" + TABLE}, "indices": [0, rows]})
            require(reply.status == 422 and reply.json()["bound"] == rows, f"an id beyond the vocabulary is refused: {reply}")
            reply = client.post("/v1/gather", {"params": {"ref": "minilm:" + TABLE[:-1]}, "indices": [0]})
            require(reply.status == 404 and reply.json()["did_you_mean"] == "minilm:" + TABLE, f"a misspelt table is named: {reply}")

            cat, kitten, market = (sentences[i] for i in range(3))
            print(f"mean word vectors: cat ~ kitten {cosine(cat, kitten):.3f}, cat ~ stock market {cosine(cat, market):.3f}")
            require(cosine(cat, kitten) > cosine(cat, market), "cats are nearer to kittens than to markets")
    print(f"passed: {compared / 1e6:.1f} MB compared, every byte as in the file")


if __name__ == "__main__":
    main()

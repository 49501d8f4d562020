#!/usr/bin/env python3
"""The word table of MiniLM, keyed by the strings of its vocabulary with deploy/import, so that "king" is found by its name.

    words.py MODEL_FOLDER        (model.safetensors, vocab.txt, tokenizer.json; run.sh fetches them, and NumPy)

The table is imported once as it is and once as a version in uint8, served, and compared with the model's file.
"""
import base64, os, struct, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
from check import TABLE, File, WordPiece, cosine, gather, require
from daemon import Client, Daemon, read_safetensors

IMPORT = os.path.join(HERE, "..", "..", "deploy", "import")
WORDS = ["king", "queen", "man", "woman", "[PAD]", "##ly", "北"]


def imported(model, keys, data, *options):
    """imports the word table with its keys; what the import printed"""
    command = [sys.executable, IMPORT, model, "--tensor", f"{TABLE}=words", "--keys-from", os.path.join(model, keys),
               "--name", "minilm", "--data-dir", data, *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    require(done.returncode == 0, f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def content(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def check_file(body, pieces, file):
    """the keys are the vocabulary, the rows those of the model"""
    tensors = read_safetensors(body)[0]
    offsets = struct.unpack(f"<{len(pieces) + 1}q", tensors["words.keys.offsets"][2])
    text = tensors["words.keys.bytes"][2]
    require([text[a:b].decode() for a, b in zip(offsets, offsets[1:])] == pieces, "the keys are the vocabulary")
    rows = b"".join(file.row(TABLE, i) for i in range(len(pieces)))
    require(tensors["words"] == ("float32", file.shape(TABLE), rows), "the rows are those of the model")


def main():
    model = sys.argv[1]
    file, vocabulary = File(os.path.join(model, "model.safetensors")), WordPiece(os.path.join(model, "vocab.txt"))
    with tempfile.TemporaryDirectory(prefix="tensord-words-") as data:
        print(imported(model, "tokenizer.json", data), end="")
        by_tokenizer = content(data, "minilm.safetensors")
        imported(model, "vocab.txt", data)
        body = content(data, "minilm.safetensors")
        require(body == by_tokenizer, "vocab.txt and tokenizer.json give the same keys")
        check_file(body, vocabulary.pieces, file)
        with Daemon("--data-dir", data) as daemon, Client(daemon) as client:
            ids = [vocabulary.ids[word] for word in WORDS]
            got = gather(client, "minilm:words", ids, "JSON, base64")
            require(got == b"".join(file.row(TABLE, i) for i in ids), "the rows of the words are those of the model")
            found = client.post("/v1/lookup", {"params": {"ref": "minilm:words"}, "keys": {"ref": "minilm:words.keys"},
                                               "queries": WORDS, "response": "base64"}).json()["outputs"]
            require(base64.b64decode(found["output"]["base64"]) == got, "a word's row is found by its name")
            width = len(got) // len(WORDS) // 4
            king, queen, man, woman = (struct.unpack_from(f"<{width}f", got, 4 * width * i) for i in range(4))
            print(f"king ~ queen {cosine(king, queen):.3f}, king ~ woman {cosine(king, woman):.3f}")
            require(cosine(king, queen) > cosine(king, woman), "a king is nearer to a queen than to a woman")
        print(imported(model, "vocab.txt", data, "--dtype", "uint8", "--version", "1", "--alias", "words=words"), end="")
    print(f"passed: {len(vocabulary.pieces)} words")


if __name__ == "__main__":
    main()

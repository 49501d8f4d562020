#!/usr/bin/env python3
"""Compares static word vectors with the sentence model from which deploy/distill.py made them.

    semantic.py MODEL_FOLDER WORDS.npy        (needs NumPy)

Sentences made by rule say the same in different words: "The doctor bought the car yesterday." and "Yesterday a physician
purchased an automobile." For each of 512 such pairs, the second sentence is searched among the 512 first ones, 21 of
which differ in one word only. The script prints how often the best sentence is the right one, how often the
right one is among the best ten, and the mean reciprocal rank.
"""
import itertools, os, re, sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy"))
from distill import Encoder

WHO = ("doctor", "physician"), ("child", "kid"), ("lawyer", "attorney"), ("teacher", "instructor"), ("thief", "burglar"), \
    ("policeman", "cop"), ("author", "writer"), ("boss", "manager")
DID = ("bought", "purchased"), ("repaired", "fixed"), ("chose", "selected"), ("built", "constructed"), ("found", "discovered"), \
    ("needed", "required"), ("watched", "observed"), ("demolished", "destroyed")
WHAT = ("car", "automobile"), ("picture", "image"), ("home", "house"), ("shop", "store"), ("stone", "rock"), ("ship", "boat"), \
    ("gift", "present"), ("road", "street")


def pairs():
    for who, did, what in itertools.product(WHO, DID, WHAT):
        article = "an" if what[1][0] in "aeiou" else "a"
        yield f"The {who[0]} {did[0]} the {what[0]} yesterday.", f"Yesterday a {who[1]} {did[1]} {article} {what[1]}."


def split(text, entries):
    """the numbers of the longest entries of the vocabulary that make up the words"""
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        begin = 0
        while begin < len(word):
            prefix = "##" if begin else ""
            end = next(end for end in range(len(word), begin, -1) if prefix + word[begin:end] in entries)
            yield entries[prefix + word[begin:end]]
            begin = end


def by_model(encoder, sentences):
    vectors = np.empty((len(sentences), encoder.config["hidden_size"]), "f4")
    lengths = np.array([len(sentence) for sentence in sentences])
    for length in set(lengths):  # without padding
        rows = np.flatnonzero(lengths == length)
        vectors[rows] = encoder(np.array([sentences[row] for row in rows]))
    return vectors


def by_words(words, sentences):
    return np.stack([words[sentence].mean(0) for sentence in sentences])


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def report(name, texts, queries):
    scores = unit(queries) @ unit(texts).T
    ranks = 1 + (scores > scores.diagonal()[:, None]).sum(1)
    print(f"{name}: first {(ranks == 1).mean():.3f}, among ten {(ranks <= 10).mean():.3f}, mean reciprocal rank {(1 / ranks).mean():.3f}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    encoder, words = Encoder(sys.argv[1]), np.load(sys.argv[2])
    entries = {entry: i for i, entry in enumerate(encoder.vocabulary)}
    texts, queries = ([list(split(sentence, entries)) for sentence in side] for side in zip(*pairs()))
    report("model", by_model(encoder, texts), by_model(encoder, queries))
    for columns in 64, 128, words.shape[1]:
        report(f"words, {columns} columns", by_words(words[:, :columns], texts), by_words(words[:, :columns], queries))


if __name__ == "__main__":
    main()

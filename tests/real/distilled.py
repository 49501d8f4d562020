#!/usr/bin/env python3
"""deploy/distill.py: its encoder finds sentences of the same meaning, and its tables are sorted and weighted as it says.

    distilled.py MODEL_FOLDER        (run.sh fetches the model, and NumPy)
"""
import os, sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "bench"), os.path.join(HERE, "..", "..", "deploy")]
import numpy as np
import semantic
from check import require
from distill import Encoder, distill

PAIRS, ENTRIES, COLUMNS = 32, 300, 16


def main():
    encoder = Encoder(sys.argv[1])
    entries = {entry: i for i, entry in enumerate(encoder.vocabulary)}
    chosen = list(semantic.pairs())[::512 // PAIRS]
    texts, queries = (semantic.by_model(encoder, [list(semantic.split(sentence, entries)) for sentence in side]) for side in zip(*chosen))
    scores = semantic.unit(queries) @ semantic.unit(texts).T
    require((scores.argmax(1) == np.arange(PAIRS)).mean() > 0.9, "the model finds the sentence that says the same")

    encoder.vocabulary = encoder.vocabulary[:ENTRIES]
    words, kept = distill(encoder, COLUMNS)
    require(words.shape == (ENTRIES, COLUMNS) and 0 < kept < 1, "a row of components for each entry")
    require((words[0] == 0).all(), "row i is multiplied by log(1 + i)")
    spread = (words[1:] / np.log1p(np.arange(1, ENTRIES))[:, None]).std(0)
    require((np.diff(spread) < 1e-3).all(), "the components are sorted by variance")
    print(f"passed: {PAIRS} sentences, {ENTRIES} entries")


if __name__ == "__main__":
    main()

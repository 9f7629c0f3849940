#!/usr/bin/env python3
"""Prepares the training text.

  prepare.py vocabulary TEXT...         learns training/vocabulary.json and checks it
  prepare.py tokens --out DIR TEXT...   encodes the text with it: DIR/tokens.bin (uint16)

TEXT files are xz-compressed UTF-8, stories separated by a line `<|end|>`.
"""

import argparse
import collections
import lzma
import multiprocessing
import os
import random
import re
import time

import numpy as np

import spm

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = os.path.join(HERE, "vocabulary.json")
VOCABULARY_SIZE = 4096
PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-"})
STUTTER = re.compile(r"\b(\w+) \1 \1\b")


def clean(story):
    """The story with plain quotes and single spaces, or None if it is unfinished or broken."""
    story = story.translate(PLAIN)
    story = re.sub(r" *\n[ \n]*", "\n", story)
    story = re.sub(r"  +", " ", story).strip()
    if not story or story[-1] not in '.!?"' or story.count('"') % 2 or STUTTER.search(story):
        return None
    return story


def read_stories(path):
    with lzma.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    kept = (clean(story) for story in text.split("\n<|end|>\n"))
    return [story for story in kept if story]


def count_words(path):
    counts = collections.Counter()
    stories = read_stories(path)
    for story in stories:
        counts.update(story.split(" "))
    return counts, len(stories), random.Random(7).sample(stories, min(300, len(stories)))


def encode_file(path):
    """uint16 ids of all stories of a file, each as <s> ... </s>."""
    vocabulary = spm.Vocabulary.load(VOCABULARY)
    known, table, order = {}, [], []
    known[None] = 0
    table.append([spm.EOS, spm.BOS])
    for story in read_stories(path):
        order.append(0)
        for word in story.split(" "):
            index = known.get(word)
            if index is None:
                index = known[word] = len(table)
                table.append(vocabulary.merge(spm.SPACE + word))
            order.append(index)
    order = np.asarray(order, dtype=np.int32)
    lengths = np.asarray([len(ids) for ids in table], dtype=np.int64)
    flat = np.asarray([i for ids in table for i in ids], dtype=np.uint16)
    offsets = np.cumsum(lengths) - lengths
    sizes = lengths[order]
    ends = np.cumsum(sizes)
    pick = np.repeat(offsets[order] - (ends - sizes), sizes) + np.arange(ends[-1])
    ids = flat[pick]
    return np.concatenate([ids[1:], np.asarray([spm.EOS], dtype=np.uint16)])


def learn(paths):
    start = time.time()
    with multiprocessing.Pool(min(len(paths), os.cpu_count())) as pool:
        parts = pool.map(count_words, paths)
    counts = collections.Counter()
    for part, _, _ in parts:
        counts.update(part)
    print(f"{sum(p[1] for p in parts)} stories, {sum(counts.values())} words, {len(counts)} distinct")
    vocabulary, segmented = spm.train(counts, VOCABULARY_SIZE)
    vocabulary.save(VOCABULARY)
    check(vocabulary, segmented, spm.pieces_of(counts), [s for p in parts for s in p[2]])
    print(f"{VOCABULARY}: {len(vocabulary.tokens)} tokens, {time.time() - start:.0f} s")


def check(vocabulary, segmented, counts, samples):
    """Greedy encoding must give the segmentation of training, and word by word the same ids as
    over a whole story."""
    different = [p for p, s in segmented.items()
                 if [vocabulary.tokens[i] for i in vocabulary.merge(p)] != s]
    share = sum(counts[p] for p in different) / sum(counts.values())
    print(f"pieces whose greedy encoding differs from training: {len(different)} of "
          f"{len(segmented)}, {100 * share:.4f} % of the text, e.g. {different[:5]}")
    if share > 0.001:
        raise SystemExit("greedy encoding does not reproduce the learned segmentation")
    letters = total = 0
    for story in samples:
        ids = vocabulary.encode(story)
        if ids != vocabulary.merge(spm.SPACE + story.replace(" ", spm.SPACE)):
            raise SystemExit("word by word encoding differs from whole-text encoding: " + story)
        if vocabulary.decode(ids) != story:
            raise SystemExit("decoding does not give the text back: " + story)
        letters += len(story)
        total += len(ids)
    print(f"{len(samples)} stories encoded whole and word by word alike and decoded back; "
          f"{letters / total:.2f} characters per token")


def encode(paths, out):
    start = time.time()
    with multiprocessing.Pool(min(len(paths), os.cpu_count())) as pool:
        ids = np.concatenate(pool.map(encode_file, paths))
    os.makedirs(out, exist_ok=True)
    ids.tofile(os.path.join(out, "tokens.bin"))
    print(f"{len(ids)} tokens, {int((ids == spm.BOS).sum())} stories, {time.time() - start:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("vocabulary", "tokens"))
    parser.add_argument("--out", default="build/training")
    parser.add_argument("text", nargs="+")
    args = parser.parse_args()
    if args.what == "vocabulary":
        learn(sorted(args.text))
    else:
        encode(sorted(args.text), args.out)


if __name__ == "__main__":
    main()

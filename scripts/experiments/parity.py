#!/usr/bin/env python3
"""parity.py [options] [FILE.gguf | FOLDER ...]: logits of onepass and llama.cpp against float64

Feeds the same tokens (10 prompts of 64) to onepass, to llama.cpp (f32 cache) and to float64_model.py and
prints, per file: the NMSE of both to float64, their ratio (at most 1.25), and how often the most likely
token differs, between the two and from float64. A difference between the two counts as wrong where the two
largest logits of either are further apart than six times the rms difference of the two logit vectors there;
the others may be at most 4 % of all positions. --random also makes small files of every architecture and
format.

"jumps": positions of each whose error is more than ten times its median, and the ratio without the positions
where either jumps. Where there are experts a near tie between two of them falls the other way there.

Folders of safetensors, which llama.cpp does not read, are compared with float64 alone: the NMSE is at most
1e-6, for quantized ones at most 1.25 times that of the float64 pass with activations rounded to 8 bits, and
tokens are compared with float64's. --quantize also checks the 4-bit form of a folder, in groups of 64.

Needs numpy, gguf and, for files, llama-cpp-python from PyPI.

    scripts/experiments/parity.py --onepass build/release/bin/onepass --random models/stories-12m-q8_0.gguf
    scripts/experiments/parity.py --quantize MODELS/stories260K-hf-f16 MODELS/*
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

import llama_bindings
import mlx_folder
import random_gguf
from float64_model import PLAIN, Float64Model

MAX_RATIO, MAX_PLAIN_NMSE, MAX_OTHER = 1.25, 1e-6, 0.04
GAP = 6.0
JUMP = 10.0
FORMATS = ("q4_0", "q8_0", "q4_k", "q6_k", "f16")
TEXT = """Once upon a time there was a girl called Mia who lived in a small house near the sea. Every \
morning she went down to the water to look for shells. One day she found a blue bottle with a letter in \
it. The letter said that a boat would come at noon and that nobody should be afraid. Mia ran home to tell \
her brother Tom. Tom did not believe her, but he put on his shoes and went with her. They sat on a big \
stone and waited. The sun was hot and the birds were loud. At noon a little white boat came around the \
rocks. An old man stood in it and waved his hat. "Good day," he said, "I have lost my dog. Have you seen \
him?" Mia shook her head, but Tom remembered a brown dog that slept behind the bakery. They all walked to \
the village together. The dog jumped up and barked when it saw the old man. He laughed and gave the \
children a bag of apples and a map of the islands. That night they read the map under the blanket and \
planned a long journey, and in the morning it was raining, so they stayed in bed and dreamed of boats."""
CHINESE = """请介绍一下你自己。我是一个人工智能助手，可以帮助你回答问题、提供信息和完成各种任务。如果你有任何\
问题，请随时告诉我。中国的首都是北京，它是一座历史悠久的城市，有许多著名的景点，例如故宫、天安门\
广场和长城。长江是中国最长的河流，也是世界第三长的河流，全长约六千三百公里。学习一门新的语言需要\
耐心和坚持，每天练习听说读写，可以帮助你更快地进步。健康的生活方式包括均衡的饮食、适量的运动和充\
足的睡眠。机器学习是人工智能的一个重要分支，它通过从数据中学习规律来完成预测和分类等任务。春天来\
了，花园里的花都开了，孩子们在草地上高兴地玩耍。他们放风筝，唱歌，跳舞，直到太阳下山才回家。妈妈\
做了一顿美味的晚餐，全家人坐在一起，谈论今天发生的有趣的事情。为什么天空是蓝色的？因为太阳光在进\
入大气层时，蓝色的光比其他颜色的光更容易被空气分子散射。水的化学式是什么？水的化学式是H2O，由\
两个氢原子和一个氧原子组成。如何学好数学？首先要理解基本概念，其次要多做练习，最后要总结错误，找\
到自己的不足之处并加以改进。读书可以开阔我们的视野，增长我们的知识，让我们的生活更加丰富多彩。"""


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("files", nargs="*", metavar="FILE.gguf | FOLDER")
    p.add_argument("--onepass", default="build/release/bin/onepass")
    p.add_argument("--llama", metavar="FOLDER", help="where the llama_cpp module is")
    p.add_argument("--random", action="store_true", help="also random files of every architecture")
    p.add_argument("--only", default="", help="of those, the ones whose name contains this")
    p.add_argument("--unshaped", action="store_true", help="those with weights of plain noise")
    p.add_argument("--quantize", action="append", default=[], metavar="FOLDER",
                   help="also its 4-bit form, in groups of 64")
    p.add_argument("--vocabulary", metavar="FILE.gguf", help="for prompts of folders without one")
    p.add_argument("--chinese", action="store_true", help="prompts in Chinese instead of English")
    p.add_argument("--prompts", type=int, default=10)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--threads", type=int, default=2)
    return p.parse_args()


def prompts_for(args, path, vocab, count):
    """Parts of the text, or random ids where there is no vocabulary."""
    text = CHINESE if args.chinese else TEXT
    ids = []
    for source in (path, args.vocabulary):
        if source and not ids:
            result = subprocess.run([args.onepass, "tokenize", "-m", source, text],
                                    capture_output=True, text=True, check=False)
            ids = [int(t) for t in result.stdout.split()]
    rng = random.Random(3)
    if not ids or max(ids) >= vocab:
        return [[rng.randrange(vocab) for _ in range(args.tokens)] for _ in range(count)]
    step = max(1, (len(ids) - args.tokens) // count)
    return [[1] + ids[i * step:i * step + args.tokens - 1] for i in range(count)]


def our_logits(args, path, tokens, vocab, folder):
    out = os.path.join(folder, "logits.f32")
    subprocess.run([args.onepass, "logits", "--device", "cpu", "-m", path, "--tokens", ",".join(map(str, tokens)),
                    "--all", "--kv", "f32", "--out", out, "-t", str(args.threads)],
                   check=True, capture_output=True)
    return np.fromfile(out, np.float32).reshape(len(tokens), vocab).astype(np.float64)


class Totals:
    """Over positions."""

    def __init__(self):
        self.parts = []  # of squared errors and squares [positions, (ours, theirs, reference)]
        self.wrong = self.other = 0
        self.our_misses = self.their_misses = 0  # another token than float64

    def add(self, ours, theirs, reference, named=None):
        """named: whose tokens ours are compared with, theirs unless told."""
        self.parts.append(np.stack([((ours - reference) ** 2).sum(axis=1),
                                    ((theirs - reference) ** 2).sum(axis=1),
                                    (reference ** 2).sum(axis=1)], axis=1))
        named = theirs if named is None else named
        gap = np.maximum(top_gap(ours), top_gap(named))
        rms = np.sqrt(np.mean((ours - named) ** 2, axis=1))
        differ = ours.argmax(axis=1) != named.argmax(axis=1)
        exact = reference.argmax(axis=1)
        self.our_misses += int((ours.argmax(axis=1) != exact).sum())
        self.their_misses += int((theirs.argmax(axis=1) != exact).sum())
        self.wrong += int((differ & (gap > GAP * rms)).sum())
        self.other += int((differ & (gap <= GAP * rms)).sum())

    def squares(self):
        return np.concatenate(self.parts)

    def without_jumps(self):
        """(jumps of ours, of theirs, ratio of what is left)"""
        squares = self.squares()
        relative = squares[:, :2] / squares[:, 2:]
        jumps = relative > JUMP * np.median(relative, axis=0)
        left = squares[~jumps.any(axis=1)].sum(axis=0)
        return *jumps.sum(axis=0), ratio_text(left[0], left[1])


def top_gap(logits):
    top = np.partition(logits, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def ratio_text(ours, theirs):
    return f"{ours / theirs:.2f}" if theirs else "–"  # no 8-bit activations in a plain folder


def check(args, path, folder, lib=None):
    """One line of the table; whether all is well. Without lib: a folder."""
    reference = Float64Model(path)
    llama = lib and llama_bindings.Model(lib, path, args.threads, args.tokens, batch=args.tokens,
                                         f32_cache=True)
    totals = Totals()
    for tokens in prompts_for(args, path, reference.vocab, args.prompts):
        ours = our_logits(args, path, tokens, reference.vocab, folder)
        exact = reference.logits(tokens)
        if lib:
            totals.add(ours, np.array(llama.logits(tokens), np.float64), exact)
        else:
            reference.int8 = True
            totals.add(ours, reference.logits(tokens), exact, named=exact)
            reference.int8 = False
    if lib:
        llama.close()
    return report(totals, reference, path, "llama.cpp's" if lib else "that of 8-bit activations")


def report(totals, reference, path, whose):
    squares = totals.squares()
    positions = len(squares)
    ours, theirs = squares[:, :2].sum(axis=0) / squares[:, 2].sum()
    plain = all(t in PLAIN for t in reference.types.values())
    ratio = ratio_text(ours, theirs)
    problems = []
    if theirs and not ours <= MAX_RATIO * theirs:
        problems.append(f"NMSE {ratio} times {whose}")
    if plain and not ours <= MAX_PLAIN_NMSE:
        problems.append(f"NMSE above {MAX_PLAIN_NMSE}")
    if totals.wrong:
        problems.append(f"{totals.wrong} wrong tokens")
    if totals.other > MAX_OTHER * positions:
        problems.append(f"{totals.other} other tokens of {positions}")
    name = os.path.basename(os.path.normpath(path)).removesuffix(".gguf")
    our_jumps, their_jumps, rest = totals.without_jumps()
    print(f"| {name} | {reference.arch} | {ours:.2e} | {theirs:.2e} | {ratio} | "
          f"{our_jumps}, {their_jumps}: {rest} | {totals.wrong} | {totals.other} of {positions} | "
          f"{totals.our_misses} | {totals.their_misses} | {'; '.join(problems) or 'ok'} |",
          flush=True)
    return not problems


def header(whose):
    print(f"| model | architecture | onepass NMSE | {whose} NMSE | ratio | jumps: ratio without | wrong | "
          f"other | onepass not float64's | {whose} not float64's | result |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")


def check_files(args, files, folder):
    lib = llama_bindings.load_bindings(args.llama)
    header("llama.cpp")
    good = all([check(args, path, folder, lib) for path in files])
    for preset in random_gguf.PRESETS if args.random else ():
        for quant in FORMATS:
            name = f"{preset}-{quant}"
            if args.only not in name:
                continue
            path = os.path.join(folder, name + ".gguf")
            random_gguf.make(preset, quant, path, () if args.unshaped else random_gguf.SHAPED)
            good &= check(args, path, folder, lib)
            os.remove(path)
    return good


def check_folders(args, folders, temporary):
    for path in args.quantize:
        name = os.path.basename(os.path.normpath(path)) + "-mlx-4bit"
        folders = [*folders, os.path.join(temporary, name)]
        mlx_folder.convert(path, folders[-1])
    header("8-bit activations")
    return all([check(args, path, temporary) for path in folders])


def main():
    args = parse_args()
    files = [path for path in args.files if not os.path.isdir(path)]
    folders = [path for path in args.files if os.path.isdir(path)]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if files or args.random:
            good &= check_files(args, files, folder)
        if folders or args.quantize:
            good &= check_folders(args, folders, folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

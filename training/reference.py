#!/usr/bin/env python3
"""Reads a GGUF file of arch llama (F32, F16 and Q8_0 tensors) and runs it in float64.

  reference.py MODEL.gguf --prompt TEXT --tokens N [--json FILE]   greedy continuation
  reference.py MODEL.gguf --weights WEIGHTS.npz...                 compare with the trained weights
"""

import argparse
import json
import struct

import numpy as np

import spm

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value[0] if len(value) == 1 else value

    def string(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take(SCALARS[kind])


def read_gguf(path):
    """Metadata and tensors as float64 arrays [rows, row length]."""
    with open(path, "rb") as file:
        data = file.read()
    reader = Reader(data)
    if reader.take("4s") != b"GGUF" or reader.take("I") != 3:
        raise SystemExit(f"{path}: not a GGUF file of version 3")
    tensors, entries = reader.take("Q"), reader.take("Q")
    meta = {}
    for _ in range(entries):
        key = reader.string()
        meta[key] = reader.value(reader.take("I"))
    infos = []
    for _ in range(tensors):
        name, rank = reader.string(), reader.take("I")
        shape = [reader.take("Q") for _ in range(rank)]
        infos.append((name, shape[::-1], reader.take("I"), reader.take("Q")))
    align = meta.get("general.alignment", 32)
    base = (reader.at + align - 1) // align * align
    return meta, {n: dequantize(data, base + at, s, kind) for n, s, kind, at in infos}


def dequantize(data, at, shape, kind):
    count = int(np.prod(shape))
    if kind in (0, 1):
        return np.frombuffer(data, ("<f4", "<f2")[kind], count, at).astype(np.float64).reshape(shape)
    if kind != 8:
        raise SystemExit(f"tensor type {kind} is not F32, F16 or Q8_0")
    blocks = np.frombuffer(data, np.uint8, count // 32 * 34, at).reshape(-1, 34)
    scale = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float64)
    return (np.ascontiguousarray(blocks[:, 2:]).view(np.int8) * scale).reshape(shape)


class Llama:
    """One sequence; step() takes one token and returns its logits."""

    def __init__(self, meta, tensors):
        get = lambda key, *other: meta.get("llama." + key, *other)
        self.w = tensors
        self.layers, self.heads = get("block_count"), get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.epsilon = get("attention.layer_norm_rms_epsilon")
        self.head_dim = get("embedding_length") // self.heads
        pair = np.arange(self.head_dim // 2)
        self.frequency = get("rope.freq_base", 10000.0) ** (-2.0 * pair / self.head_dim)
        self.head = tensors.get("output.weight", tensors["token_embd.weight"])
        self.keys = [[] for _ in range(self.layers)]
        self.values = [[] for _ in range(self.layers)]

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x) + self.epsilon) * self.w[name + ".weight"]

    def rotate(self, x, position):
        angle = position * self.frequency
        a, b = x[:, 0::2], x[:, 1::2]
        out = np.empty_like(x)
        out[:, 0::2] = a * np.cos(angle) - b * np.sin(angle)
        out[:, 1::2] = a * np.sin(angle) + b * np.cos(angle)
        return out

    def step(self, token):
        x = self.w["token_embd.weight"][token]
        position = len(self.keys[0])
        for i in range(self.layers):
            part = lambda name, h: self.w[f"blk.{i}.{name}.weight"] @ h
            h = self.norm(x, f"blk.{i}.attn_norm")
            q = self.rotate(part("attn_q", h).reshape(self.heads, -1), position)
            self.keys[i].append(self.rotate(part("attn_k", h).reshape(self.kv_heads, -1), position))
            self.values[i].append(part("attn_v", h).reshape(self.kv_heads, -1))
            group = self.heads // self.kv_heads
            keys = np.repeat(np.stack(self.keys[i]), group, axis=1)
            values = np.repeat(np.stack(self.values[i]), group, axis=1)
            score = np.einsum("hd,thd->ht", q, keys) / np.sqrt(self.head_dim)
            score = np.exp(score - score.max(1, keepdims=True))
            score /= score.sum(1, keepdims=True)
            x = x + part("attn_output", np.einsum("ht,thd->hd", score, values).ravel())
            h = self.norm(x, f"blk.{i}.ffn_norm")
            gate = part("ffn_gate", h)
            x = x + part("ffn_down", gate / (1 + np.exp(-gate)) * part("ffn_up", h))
        return self.head @ self.norm(x, "output_norm")


def vocabulary_of(meta):
    return spm.Vocabulary(*(meta["tokenizer.ggml." + k] for k in ("tokens", "scores", "token_type")))


def greedy(meta, tensors, prompt, count):
    """Prompt ids, greedy continuation and the logits after the prompt."""
    ids = [spm.BOS] + vocabulary_of(meta).encode(prompt)
    model = Llama(meta, tensors)
    for token in ids:
        logits = model.step(token)
    first, more = logits, []
    while len(more) < count:
        more.append(int(np.argmax(logits)))
        if more[-1] == spm.EOS:
            break
        logits = model.step(more[-1])
    return ids, more, first


def compare(meta, tensors, paths, prompt):
    """Prints how far the file is from the trained weights, in weights and in logits."""
    trained = {}
    for path in paths:
        with np.load(path) as part:
            trained.update({name: part[name].astype(np.float64) for name in part})
    if set(trained) != set(tensors):
        raise SystemExit(f"tensor names differ: {sorted(set(trained) ^ set(tensors))}")
    rms = lambda x: float(np.sqrt(np.mean(np.square(x))))
    worst = max(rms(trained[n] - tensors[n]) / rms(trained[n]) for n in trained)
    ours = greedy(meta, tensors, prompt, 1)[2]
    theirs = greedy(meta, trained, prompt, 1)[2]
    print(f"largest relative weight error {worst:.2e}; logits: rms {rms(theirs):.3f}, "
          f"rms difference {rms(ours - theirs):.2e}, largest {np.abs(ours - theirs).max():.2e}")
    if worst > 0.02 or rms(ours - theirs) > 0.05 * rms(theirs):
        raise SystemExit("the file does not hold the trained weights")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--json")
    parser.add_argument("--weights", nargs="+")
    args = parser.parse_args()
    meta, tensors = read_gguf(args.model)
    if args.weights:
        return compare(meta, tensors, args.weights, args.prompt)
    ids, more, logits = greedy(meta, tensors, args.prompt, args.tokens)
    print(vocabulary_of(meta).decode(ids + more))
    if args.json:
        best = np.argsort(-logits)[:10]
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"prompt": args.prompt, "ids": ids, "greedy": more,
                       "top": [[int(i), round(float(logits[i]), 6)] for i in best],
                       "rms": round(float(np.sqrt(np.mean(logits ** 2))), 6)}, file)


if __name__ == "__main__":
    main()

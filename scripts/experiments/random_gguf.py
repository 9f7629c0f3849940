#!/usr/bin/env python3
"""random_gguf.py PRESET QUANT OUT.gguf: a small model with random weights, one preset per architecture

The shapes of `onepass ... -m synthetic:PRESET:QUANT`. QUANT: f32 f16 q8_0 q4_0 q4_k q6_k; norms and
routers stay f32. For comparing logits; the file has no vocabulary.

Weights are shaped like trained ones in four ways (SHAPED), each of which make() can leave out: numbers of
4 bits lie around zero, scales and minima of q4_k fit each other, the embedding has deviation 1, and what is
added to the residual is smaller by the root of their count."""

import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter

# architecture, dim, layers, heads, kv heads, head dim, ffn, vocabulary, rope base, more keys
PRESETS = {
    "tiny-llama": ("llama", 256, 4, 8, 4, 32, 768, 4096, 1e4, {}),
    "tiny-qwen2": ("qwen2", 256, 4, 8, 4, 32, 768, 4096, 1e4, {}),
    "tiny-qwen3": ("qwen3", 256, 4, 8, 4, 64, 768, 4096, 1e6, {}),
    "tiny-qwen3moe": ("qwen3moe", 256, 4, 8, 4, 64, 768, 4096, 1e6,
                      {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 256}),
    "tiny-gemma2": ("gemma2", 256, 4, 8, 4, 32, 768, 4096, 1e4, {"attention.sliding_window": 32}),
    "tiny-gemma3": ("gemma3", 256, 6, 8, 4, 64, 768, 4096, 1e6, {"attention.sliding_window": 32}),
    "tiny-phi3": ("phi3", 256, 4, 8, 4, 32, 768, 4096, 1e4, {}),
}
# Few layers of a large model, hardly any vocabulary: for comparing speed
LAYERS = {f"llama8b-{n}-layers": ("llama", 4096, n, 32, 8, 128, 14336, 512, 5e5, {}) for n in (1, 3)}
# type, elements and bytes of a block, [(offset of an f16 scale, its size for weights of deviation 1)]
QUANTS = {
    "f32": (Type.F32, 1, 4, []),
    "f16": (Type.F16, 1, 2, []),
    "q8_0": (Type.Q8_0, 32, 34, [(0, 1 / 74)]),
    "q4_0": (Type.Q4_0, 32, 18, [(0, 1 / 4.6)]),
    "q4_k": (Type.Q4_K, 256, 144, [(0, 1 / 218), (2, 7.5 / 218)]),
    "q6_k": (Type.Q6_K, 256, 210, [(208, 1 / 1369)]),
}


SHAPED = ("centred", "fitted", "embedding", "residual")


class Maker:
    def __init__(self, preset, quant, path, shaped):
        self.shaped = shaped
        self.arch, self.dim, self.layers, self.heads, self.kv_heads, self.head_dim, self.ffn, \
            self.vocab, base, more = (PRESETS | LAYERS)[preset]
        self.quant = quant
        self.more = more
        self.rng = np.random.default_rng(7)
        self.writer = w = GGUFWriter(path, self.arch)
        w.add_name(f"random-{preset}-{quant}")
        w.add_tokenizer_model("no_vocab")
        w.add_vocab_size(self.vocab)
        w.add_context_length(8192)
        w.add_embedding_length(self.dim)
        w.add_block_count(self.layers)
        w.add_feed_forward_length(self.ffn)
        w.add_head_count(self.heads)
        w.add_head_count_kv(self.kv_heads)
        w.add_key_length(self.head_dim)
        w.add_value_length(self.head_dim)
        w.add_rope_dimension_count(self.head_dim)
        w.add_rope_freq_base(base)
        w.add_layer_norm_rms_eps(1e-5)
        for key, value in more.items():
            w.add_uint32(f"{self.arch}.{key}", value)

    def matrix(self, name, *shape, quant=None):
        """Random blocks of the format, deviation 1 / sqrt(columns)."""
        kind, elements, size, scales = QUANTS[quant or self.quant]
        deviation = 1.0 / np.sqrt(shape[-1])
        if "residual" in self.shaped and ("attn_output" in name or "ffn_down" in name):
            deviation /= np.sqrt(2 * self.layers)
        if "embedding" in self.shaped and name == "token_embd" and \
                not self.arch.startswith("gemma"):  # those multiply it
            deviation = 1.0
        if elements == 1:
            values = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
            self.writer.add_tensor(name + ".weight", values.astype(
                np.float16 if kind == Type.F16 else np.float32))
            return
        n = int(np.prod(shape)) // elements
        blocks = self.rng.integers(0, 256, size=(n, size), dtype=np.uint8)
        if kind == Type.Q4_0 and "centred" in self.shaped:  # its zero is 8: without 0 the mean of 4-bit values is that
            low, high = (self.rng.integers(1, 16, size=(n, size), dtype=np.uint8) for _ in range(2))
            blocks = low | (high << 4)
        if kind == Type.Q4_K and "fitted" in self.shaped:  # scales and minima of its parts from 32 to 63, as a fit gives them
            blocks[:, 4:12] |= 0xa0
        for offset, factor in scales:
            d = (deviation * factor * self.rng.uniform(0.8, 1.2, n)).astype(np.float16)
            blocks[:, offset:offset + 2] = d.view(np.uint8).reshape(n, 2)
        rows = blocks.reshape(*shape[:-1], shape[-1] // elements * size)
        self.writer.add_tensor(name + ".weight", rows, raw_dtype=kind)

    def vector(self, name, n, mean=1.0):
        values = mean + 0.05 * self.rng.standard_normal(n)
        self.writer.add_tensor(name, values.astype(np.float32))

    def layer(self, i):
        p, q, kv = f"blk.{i}.", self.heads * self.head_dim, self.kv_heads * self.head_dim
        norms = ["attn_norm", "ffn_norm"]
        if self.arch.startswith("gemma"):
            norms += ["post_attention_norm", "post_ffw_norm"]
        for name in norms:
            self.vector(p + name + ".weight", self.dim)
        if self.arch in ("qwen3", "qwen3moe", "gemma3"):
            self.vector(p + "attn_q_norm.weight", self.head_dim)
            self.vector(p + "attn_k_norm.weight", self.head_dim)
        if self.arch == "phi3":
            self.matrix(p + "attn_qkv", q + 2 * kv, self.dim)
        else:
            for name, n in (("attn_q", q), ("attn_k", kv), ("attn_v", kv)):
                self.matrix(p + name, n, self.dim)
                if self.arch == "qwen2":
                    self.vector(p + name + ".bias", n, 0.0)
        self.matrix(p + "attn_output", self.dim, q)
        if self.arch == "qwen3moe":
            experts, ffn = self.more["expert_count"], self.more["expert_feed_forward_length"]
            self.matrix(p + "ffn_gate_inp", experts, self.dim, quant="f32")
            self.matrix(p + "ffn_gate_exps", experts, ffn, self.dim)
            self.matrix(p + "ffn_up_exps", experts, ffn, self.dim)
            self.matrix(p + "ffn_down_exps", experts, self.dim, ffn)
        elif self.arch == "phi3":
            self.matrix(p + "ffn_up", 2 * self.ffn, self.dim)
            self.matrix(p + "ffn_down", self.dim, self.ffn)
        else:
            self.matrix(p + "ffn_gate", self.ffn, self.dim)
            self.matrix(p + "ffn_up", self.ffn, self.dim)
            self.matrix(p + "ffn_down", self.dim, self.ffn)

    def write(self):
        self.matrix("token_embd", self.vocab, self.dim)
        for i in range(self.layers):
            self.layer(i)
        self.vector("output_norm.weight", self.dim)
        if not self.arch.startswith("gemma"):  # theirs is the embedding
            self.matrix("output", self.vocab, self.dim)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def make(preset, quant, path, shaped=SHAPED):
    Maker(preset, quant, path, shaped).write()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in PRESETS | LAYERS or sys.argv[2] not in QUANTS:
        print(__doc__ + "\n\nPRESET: " + " ".join(PRESETS | LAYERS), file=sys.stderr)
        sys.exit(2)
    make(*sys.argv[1:])

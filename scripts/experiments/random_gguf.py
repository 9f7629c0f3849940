#!/usr/bin/env python3
"""random_gguf.py PRESET QUANT OUT.gguf: a model with random weights, without a vocabulary

Tiny ones have one preset per architecture, the shapes of `onepass ... -m synthetic:PRESET:QUANT`, for
comparing logits; the others have the shapes of real models, for comparing speed. Every type of GGUF is a
QUANT; a matrix whose rows are no whole number of blocks has the type that llama-quantize takes instead. Norms
and routers stay f32.

Weights are shaped like trained ones in four ways (SHAPED), each of which make() can leave out: numbers of
4 bits lie around zero, scales and minima of q4_k fit each other, the embedding has deviation 1, and what is
added to the residual is smaller by the root of their count."""

import sys

import gguf
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
SPEED = {
    "minimind2-small": ("llama", 512, 8, 8, 2, 64, 1408, 6400, 1e6, {}),
    "stories15m": ("llama", 288, 6, 6, 6, 48, 768, 32000, 1e4, {}),
    "smollm135m": ("llama", 576, 30, 9, 3, 64, 1536, 49152, 1e4, {}),
    "qwen3-0.6b": ("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 1e6, {}),
    "llama1b": ("llama", 2048, 16, 32, 8, 64, 8192, 128256, 5e5, {}),
}
ALL = PRESETS | LAYERS | SPEED


class Q2_0(int):  # not in the gguf package yet
    name = "Q2_0"


Type_Q2_0 = Q2_0(42)
gguf.GGML_QUANT_SIZES.setdefault(Type_Q2_0, (64, 18))


def f16_scale(offset, size):
    """Puts f16 scales at a byte of each block; size: for weights of deviation 1."""
    def put(blocks, deviation, rng):
        d = (deviation * size * rng.uniform(0.8, 1.2, len(blocks))).astype(np.float16)
        blocks[:, offset:offset + 2] = d.view(np.uint8).reshape(-1, 2)
    return put


def iq1_m_scale(blocks, deviation, rng):
    """The f16 scale's four digits are the upper ones of the four words of scales."""
    d = (deviation / 6 * rng.uniform(0.8, 1.2, len(blocks))).astype(np.float16).view(np.uint16)
    for i in range(4):
        high = (d >> (4 * i) & 15).astype(np.uint8) << 4
        blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | high


def mxfp4_scale(blocks, deviation, _rng):
    blocks[:, 0] = 127 + int(np.round(np.log2(deviation / 3)))


def nvfp4_scale(blocks, deviation, _rng):
    """Unsigned e4m3: four bits of exponent, bias 7."""
    exponent = int(np.round(np.log2(deviation / 3))) + 7
    blocks[:, :4] = max(exponent, 0) << 3 | blocks[:, :4] & 7


# type, what sets the scales of blocks for weights of deviation 1
QUANTS = {
    "f32": (Type.F32, []),
    "f16": (Type.F16, []),
    "bf16": (Type.BF16, []),
    "q8_0": (Type.Q8_0, [f16_scale(0, 1 / 74)]),
    "q4_0": (Type.Q4_0, [f16_scale(0, 1 / 4.6)]),
    "q4_1": (Type.Q4_1, [f16_scale(0, 1 / 4.6), f16_scale(2, -7.5 / 4.6)]),
    "q5_0": (Type.Q5_0, [f16_scale(0, 1 / 9.2)]),
    "q5_1": (Type.Q5_1, [f16_scale(0, 1 / 9.2), f16_scale(2, -15.5 / 9.2)]),
    "q2_k": (Type.Q2_K, [f16_scale(80, 1 / 14), f16_scale(82, 1 / 14)]),
    "q3_k": (Type.Q3_K, [f16_scale(108, 1 / 42)]),
    "q4_k": (Type.Q4_K, [f16_scale(0, 1 / 218), f16_scale(2, 7.5 / 218)]),
    "q5_k": (Type.Q5_K, [f16_scale(0, 1 / 436), f16_scale(2, 15.5 / 436)]),
    "q6_k": (Type.Q6_K, [f16_scale(208, 1 / 1369)]),
    "iq4_nl": (Type.IQ4_NL, [f16_scale(0, 1 / 69)]),
    "iq4_xs": (Type.IQ4_XS, [f16_scale(0, 1 / 1276)]),
    "iq3_s": (Type.IQ3_S, [f16_scale(0, 1 / 128)]),
    "iq3_xxs": (Type.IQ3_XXS, [f16_scale(0, 1 / 120)]),
    "iq2_s": (Type.IQ2_S, [f16_scale(0, 1 / 50)]),
    "iq2_xs": (Type.IQ2_XS, [f16_scale(0, 1 / 50)]),
    "iq2_xxs": (Type.IQ2_XXS, [f16_scale(0, 1 / 50)]),
    "iq1_s": (Type.IQ1_S, [f16_scale(0, 1 / 6)]),
    "iq1_m": (Type.IQ1_M, [iq1_m_scale]),
    "mxfp4": (Type.MXFP4, [mxfp4_scale]),
    "nvfp4": (Type.NVFP4, [nvfp4_scale]),
    "tq1_0": (Type.TQ1_0, [f16_scale(52, 1 / 0.8)]),
    "tq2_0": (Type.TQ2_0, [f16_scale(64, 1)]),
    "q1_0": (Type.Q1_0, [f16_scale(0, 1)]),
    "q2_0": (Type_Q2_0, [f16_scale(0, 1 / 1.2)]),
}
# What rows that are no whole number of blocks have; f16 where that does not fit either.
INSTEAD = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "tq1_0": "q4_0", "tq2_0": "q4_0",
           "q1_0": "q4_0", "q2_0": "q4_0", "nvfp4": "q4_0"}


def quant_of(quant, columns):
    """The type that a matrix has in a file of this type."""
    while columns % gguf.GGML_QUANT_SIZES[QUANTS[quant][0]][0] != 0:
        quant = "f16" if quant in ("iq4_nl", "q4_0", "q5_0", "q5_1", "q8_0") else INSTEAD.get(quant, "iq4_nl")
    return quant


SHAPED = ("centred", "fitted", "embedding", "residual")


class Maker:
    def __init__(self, preset, quant, path, shaped):
        self.shaped = shaped
        self.arch, self.dim, self.layers, self.heads, self.kv_heads, self.head_dim, self.ffn, \
            self.vocab, base, more = ALL[preset]
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
        kind, scales = QUANTS[quant_of(quant or self.quant, shape[-1])]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        deviation = 1.0 / np.sqrt(shape[-1])
        if "residual" in self.shaped and ("attn_output" in name or "ffn_down" in name):
            deviation /= np.sqrt(2 * self.layers)
        if "embedding" in self.shaped and name == "token_embd" and \
                not self.arch.startswith("gemma"):  # those multiply it
            deviation = 1.0
        if elements == 1:
            values = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
            if kind == Type.BF16:
                halves = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
                self.writer.add_tensor(name + ".weight", halves.reshape(*shape[:-1], -1), raw_dtype=kind)
                return
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
        for put in scales:
            put(blocks, deviation, self.rng)
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
    if len(sys.argv) != 4 or sys.argv[1] not in ALL or sys.argv[2] not in QUANTS:
        print(__doc__ + "\n\nPRESET: " + " ".join(ALL) +
              "\nQUANT: " + " ".join(QUANTS), file=sys.stderr)
        sys.exit(2)
    make(*sys.argv[1:])

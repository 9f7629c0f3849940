"""A decoder in float64 over the dequantized weights of a GGUF file or a folder of safetensors: the plain
formulas, nothing fast.

    model = Float64Model("model.gguf")
    logits = model.logits([1, 2, 3])        # [3, vocab]
    model.int8 = True                       # from now on with activations in 8 bits, as kernels have them
"""

import os

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from mlx_folder import read_folder

PLAIN = ("F32", "F16", "BF16")
INTERLEAVED = ("llama",)  # architectures whose files pair neighbouring values of a head


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x ** 3)))


def round_to_int8(x):
    """Blocks of 32 with a scale of their own, a shorter one last."""
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // 32) * 32))
    padded[..., :x.shape[-1]] = x
    blocks = padded.reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(axis=-1, keepdims=True) / 127
    rounded = np.round(blocks / np.where(scale == 0, 1, scale)) * scale
    return rounded.reshape(padded.shape)[..., :x.shape[-1]]


def read_gguf(path):
    """(keys, float64 tensors, their types in the file)"""
    reader = GGUFReader(path)
    fields = {k: f.contents() for k, f in reader.fields.items()
              if not k.startswith("tokenizer.ggml.") or k == "tokenizer.ggml.model"}
    tensors, types = {}, {}
    for t in reader.tensors:
        types[t.name] = t.tensor_type.name
        values = dequantize(t.data, t.tensor_type).astype(np.float64)
        tensors[t.name] = values.reshape(tuple(int(n) for n in reversed(t.shape)))
    return fields, tensors, types


class Float64Model:
    def __init__(self, path):
        folder = os.path.isdir(path)
        self.fields, self.tensors, self.types = (read_folder if folder else read_gguf)(path)
        self.int8 = False
        self.arch = self.fields["general.architecture"]
        self.interleaved = self.arch in INTERLEAVED and not folder
        self.gemma = self.arch.startswith("gemma")
        self.layers = self.key("block_count")
        self.dim = self.key("embedding_length")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.head_dim = self.key("attention.key_length", self.dim // self.heads)
        self.eps = float(np.float32(self.key("attention.layer_norm_rms_epsilon")))
        self.vocab = self.tensors["token_embd.weight"].shape[0]

    def key(self, name, default=None):
        value = self.fields.get(f"{self.arch}.{name}", default)
        if value is None:
            raise KeyError(f"{self.arch}.{name}")
        return value

    def is_local(self, layer):
        window = self.key("attention.sliding_window", 4096 if self.arch == "gemma2" else 0)
        if not self.gemma or not window:
            return 0
        period = self.key("attention.sliding_window_pattern", 2 if self.arch == "gemma2" else 6)
        return window if layer % period < period - 1 else 0

    def input_of(self, name, x):
        """What a kernel multiplies with that matrix."""
        return round_to_int8(x) if self.int8 and self.types[name] not in PLAIN else x

    def linear(self, name, x):
        y = self.input_of(name + ".weight", x) @ self.tensors[name + ".weight"].T
        bias = self.tensors.get(name + ".bias")
        return y if bias is None else y + bias

    def rotate(self, x, layer):
        """x [tokens, heads, head_dim]."""
        base = float(self.key("rope.freq_base", 10000.0))
        scale = 1.0 / float(self.key("rope.scaling.factor", 1.0) or 1.0)
        factors = self.tensors.get("rope_freqs.weight")
        if self.arch == "gemma3" and self.is_local(layer):
            base = float(self.key("rope.freq_base_swa", 10000.0))
            scale, factors = 1.0, None
        dims = self.key("rope.dimension_count", self.head_dim)
        frequency = base ** (-np.arange(0, dims, 2) / dims) * scale
        if factors is not None:
            frequency = frequency / factors
        angle = np.arange(x.shape[0])[:, None] * frequency  # [tokens, dims / 2]
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        out = x.copy()
        if self.interleaved:
            first, second = slice(0, dims, 2), slice(1, dims, 2)
        else:
            first, second = slice(0, dims // 2), slice(dims // 2, dims)
        a, b = x[..., first], x[..., second]
        out[..., first] = a * cos - b * sin
        out[..., second] = a * sin + b * cos
        return out

    def attention(self, p, layer, x):
        n, hd = x.shape[0], self.head_dim
        q_dim, kv_dim = self.heads * hd, self.kv_heads * hd
        if p + "attn_qkv.weight" in self.tensors:
            qkv = self.linear(p + "attn_qkv", x)
            q, k, v = np.split(qkv, [q_dim, q_dim + kv_dim], axis=1)
        else:
            q, k, v = (self.linear(p + f"attn_{c}", x) for c in "qkv")
        q, k, v = q.reshape(n, -1, hd), k.reshape(n, -1, hd), v.reshape(n, -1, hd)
        if p + "attn_q_norm.weight" in self.tensors:
            q = rms_norm(q, self.tensors[p + "attn_q_norm.weight"], self.eps)
            k = rms_norm(k, self.tensors[p + "attn_k_norm.weight"], self.eps)
        q, k = self.rotate(q, layer), self.rotate(k, layer)
        group = self.heads // self.kv_heads
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.key("attention.scale_from", hd))
        cap = self.key("attn_logit_softcapping", 50.0 if self.arch == "gemma2" else 0.0)
        if cap:
            scores = cap * np.tanh(scores / cap)
        distance = np.arange(n)[:, None] - np.arange(n)[None, :]
        window = self.is_local(layer) or n
        scores = np.where((distance >= 0) & (distance < window), scores, -np.inf)
        out = np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(n, q_dim)
        return self.linear(p + "attn_output", out)

    def feed_forward(self, p, x):
        act = gelu_tanh if self.gemma else silu
        if p + "ffn_gate_exps.weight" in self.tensors:
            return self.experts(p, x)
        if p + "ffn_gate.weight" in self.tensors:
            gate, up = self.linear(p + "ffn_gate", x), self.linear(p + "ffn_up", x)
        else:
            gate, up = np.split(self.linear(p + "ffn_up", x), 2, axis=1)
        return self.linear(p + "ffn_down", act(gate) * up)

    def experts(self, p, x):
        used = self.key("expert_used_count")
        share = softmax(self.linear(p + "ffn_gate_inp", x))
        names = [p + f"ffn_{c}_exps.weight" for c in ("gate", "up", "down")]
        gate, up, down = (self.tensors[name] for name in names)
        x = self.input_of(names[0], x)
        out = np.zeros_like(x)
        for i, row in enumerate(x):
            chosen = np.argsort(-share[i], kind="stable")[:used]
            weights = share[i][chosen] / share[i][chosen].sum()
            for e, w in zip(chosen, weights):
                inner = silu(gate[e] @ row) * (up[e] @ row)
                out[i] += w * (down[e] @ self.input_of(names[2], inner))
        return out

    def logits(self, tokens):
        t = self.tensors
        h = t["token_embd.weight"][np.asarray(tokens)]
        if self.gemma:
            h = h * np.sqrt(self.dim)
        for i in range(self.layers):
            p = f"blk.{i}."
            a = self.attention(p, i, rms_norm(h, t[p + "attn_norm.weight"], self.eps))
            if self.gemma:
                a = rms_norm(a, t[p + "post_attention_norm.weight"], self.eps)
            h = h + a
            f = self.feed_forward(p, rms_norm(h, t[p + "ffn_norm.weight"], self.eps))
            if self.gemma:
                f = rms_norm(f, t[p + "post_ffw_norm.weight"], self.eps)
            h = h + f
        h = rms_norm(h, t["output_norm.weight"], self.eps)
        name = "output.weight" if "output.weight" in t else "token_embd.weight"
        out = self.input_of(name, h) @ t[name].T
        cap = self.key("final_logit_softcapping", 30.0 if self.arch == "gemma2" else 0.0)
        return cap * np.tanh(out / cap) if cap else out

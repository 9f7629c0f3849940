#!/usr/bin/env python3
"""export.py OUT.gguf RUN.json WEIGHTS.npz...: writes a GGUF file of arch llama in Q8_0 from the
half-precision weights and the run description that train.py leaves."""

import json
import struct
import sys

import numpy as np

U32, F32_VALUE, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TYPE_F32, TYPE_Q8_0 = 0, 8
ALIGNMENT = 32
BLOCK = 32
NAME = "onepass stories"


def gguf_names(weights):
    """State names to GGUF tensor names: norms are bare parameters in the model."""
    return {n if n.endswith(".weight") else n + ".weight": w for n, w in weights.items()}


def quantize_q8_0(weight):
    """Rows of f32 to blocks of one f16 scale and 32 int8."""
    blocks = np.ascontiguousarray(weight, dtype=np.float32).reshape(-1, BLOCK)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    wide = scale.astype(np.float32)
    inverse = np.divide(1, wide, out=np.zeros_like(wide), where=wide > 0)
    levels = blocks * inverse
    levels = np.clip(np.trunc(levels + np.copysign(np.float32(0.5), levels)), -127, 127)
    out = np.empty((len(blocks), 2 + BLOCK), dtype=np.uint8)
    out[:, :2] = scale.view(np.uint8).reshape(-1, 2)
    out[:, 2:] = levels.astype(np.int8).view(np.uint8)
    return out


def pack_string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def pack_value(kind, value):
    if kind == STRING:
        return pack_string(value)
    return struct.pack({U32: "<I", F32_VALUE: "<f", BOOL: "<?", I32: "<i"}[kind], value)


def pack_entry(key, kind, value):
    head = pack_string(key)
    if not isinstance(value, list):
        return head + struct.pack("<I", kind) + pack_value(kind, value)
    return (head + struct.pack("<IIQ", ARRAY, kind, len(value))
            + b"".join(pack_value(kind, item) for item in value))


def metadata(config, vocabulary):
    head_dim = config["dim"] // config["heads"]
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, NAME),
        ("general.license", STRING, "mit"),
        ("general.file_type", U32, 7),
        ("general.quantization_version", U32, 2),
        ("general.alignment", U32, ALIGNMENT),
        ("llama.context_length", U32, config["context"]),
        ("llama.embedding_length", U32, config["dim"]),
        ("llama.block_count", U32, config["layers"]),
        ("llama.feed_forward_length", U32, config["ffn"]),
        ("llama.rope.dimension_count", U32, head_dim),
        ("llama.rope.freq_base", F32_VALUE, config["rope_base"]),
        ("llama.attention.head_count", U32, config["heads"]),
        ("llama.attention.head_count_kv", U32, config["kv_heads"]),
        ("llama.attention.layer_norm_rms_epsilon", F32_VALUE, config["epsilon"]),
        ("llama.vocab_size", U32, config["vocab"]),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.pre", STRING, "default"),
        ("tokenizer.ggml.tokens", STRING, vocabulary.tokens),
        ("tokenizer.ggml.scores", F32_VALUE, vocabulary.scores),
        ("tokenizer.ggml.token_type", I32, vocabulary.types),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
        ("tokenizer.ggml.unknown_token_id", U32, 0),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.ggml.add_eos_token", BOOL, False),
        ("tokenizer.ggml.add_space_prefix", BOOL, True),
    ]


def tensor_order(name):
    """Embedding, output norm, then blocks in order."""
    parts = name.split(".")
    return (0, 0, name) if parts[0] == "token_embd" else (
        (2, int(parts[1]), name) if parts[0] == "blk" else (1, 0, name))


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_model(path, config, vocabulary, weights):
    """`weights`: state or GGUF names to float arrays, matrices as [rows, row length]."""
    weights = gguf_names(weights)
    entries = metadata(config, vocabulary)
    infos, data, offset = [], [], 0
    for name in sorted(weights, key=tensor_order):
        weight = weights[name]
        kind = TYPE_Q8_0 if weight.ndim == 2 else TYPE_F32
        body = (quantize_q8_0(weight) if kind == TYPE_Q8_0
                else np.ascontiguousarray(weight, dtype="<f4")).tobytes()
        shape = weight.shape[::-1]
        infos.append(pack_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind,
                                                     offset))
        body += padding(len(body))
        data.append(body)
        offset += len(body)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(entries))
    head += b"".join(pack_entry(*entry) for entry in entries) + b"".join(infos)
    with open(path, "wb") as file:
        file.write(head + padding(len(head)))
        file.writelines(data)


def main():
    import spm
    from prepare import VOCABULARY
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as file:
        config = json.load(file)["config"]
    weights = {}
    for path in sys.argv[3:]:
        with np.load(path) as part:
            weights.update({name: part[name].astype(np.float32) for name in part})
    write_model(sys.argv[1], config, spm.Vocabulary.load(VOCABULARY), weights)


if __name__ == "__main__":
    main()

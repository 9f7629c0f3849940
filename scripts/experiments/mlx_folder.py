#!/usr/bin/env python3
"""mlx_folder.py FOLDER OUT [BITS [GROUP]]: quantizes a safetensors folder the MLX way (4 bits, groups of 64)

Matrices whose rows are no whole groups stay as they are. As a module: read_folder() gives what
float64_model.py needs of a folder, quantized or not. Needs numpy."""

import glob
import json
import os
import sys

import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U32": np.uint32}
# names of a GGUF file for those of a layer in a folder
LAYER_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_safetensors(path):
    """{name: (type, array)}"""
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        tensors[name] = (entry["dtype"], values.reshape(entry["shape"]))
    return tensors


def write_safetensors(path, tensors):
    header, blobs, at = {"__metadata__": {"format": "mlx"}}, [], 0
    for name, (kind, values) in tensors.items():
        blob = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def to_float64(kind, values):
    if kind == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def quantize_affine(w, bits, group):
    """(numbers packed in u32, scales, biases): value = scale * number + bias, number 0 at the end of the
    group's range that is further from zero, so that a scale may be negative and zero is near a number."""
    top = (1 << bits) - 1
    groups = w.astype(np.float32).reshape(w.shape[0], -1, group)
    low, high = groups.min(axis=2), groups.max(axis=2)
    below = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / top, np.float32(1e-7)) * np.where(below, 1, -1)
    edge = np.where(below, low, high)
    steps = np.round(edge / scale)
    scale = np.where(steps != 0, edge / np.where(steps != 0, steps, 1), scale).astype(np.float16)
    bias = np.where(steps != 0, edge, 0).astype(np.float16)
    wide_scale, wide_bias = scale.astype(np.float32)[..., None], bias.astype(np.float32)[..., None]
    divisor = np.where(wide_scale == 0, 1, wide_scale)
    numbers = np.clip(np.round((groups - wide_bias) / divisor), 0, top).astype(np.uint32)
    numbers = numbers.reshape(w.shape[0], -1, 32 // bits)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (numbers << shifts).sum(axis=2, dtype=np.uint32), scale, bias


def dequantize_affine(packed, scales, biases, bits, group):
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    numbers = (packed[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    values = numbers.reshape(packed.shape[0], -1, group).astype(np.float64)
    return (values * scales[..., None] + biases[..., None]).reshape(packed.shape[0], -1)


def convert(folder, out, bits=4, group=64):
    os.makedirs(out, exist_ok=True)
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        for name, (kind, values) in read_safetensors(path).items():
            if values.ndim != 2 or values.shape[1] % group != 0:
                tensors[name] = (kind, values)
                continue
            packed, scales, biases = quantize_affine(to_float64(kind, values), bits, group)
            stem = name.removesuffix(".weight")
            tensors[name] = ("U32", packed)
            tensors[stem + ".scales"], tensors[stem + ".biases"] = ("F16", scales), ("F16", biases)
    write_safetensors(os.path.join(out, "model.safetensors"), tensors)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["quantization"] = {"bits": bits, "group_size": group, "mode": "affine"}
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)


def gguf_name(name, gemma):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, part = name.split(".", 3)  # model.layers.I.PART
    names = {**LAYER_NAMES, **GEMMA_NAMES} if gemma else LAYER_NAMES
    return f"blk.{layer}.{names[part]}"


def llama3_factors(base, dims, scaling):
    wave = 2 * np.pi * base ** (np.arange(0, dims, 2) / dims)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    ramp = np.clip((scaling["original_max_position_embeddings"] / wave - low) / (high - low), 0, 1)
    return 1 / ((1 - ramp) / scaling["factor"] + ramp)


def config_fields(c):
    """The keys of a GGUF file."""
    arch = c["model_type"].removesuffix("_text")
    keys = {
        "block_count": "num_hidden_layers", "embedding_length": "hidden_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta",
        "rope.freq_base_swa": "rope_local_base_freq", "attention.sliding_window": "sliding_window",
        "attention.sliding_window_pattern": "sliding_window_pattern",
        "attention.scale_from": "query_pre_attn_scalar",
    }
    fields = {f"{arch}.{key}": c[theirs] for key, theirs in keys.items() if c.get(theirs)}
    fields["general.architecture"] = arch
    return fields


def read_folder(folder):
    """(keys and float64 tensors under the names of a GGUF file, their types in the folder)"""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    fields = config_fields(config)
    gemma = fields["general.architecture"].startswith("gemma")
    stored = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        stored.update(read_safetensors(path))
    tensors, types = {}, {}
    for name, (kind, values) in stored.items():
        stem, _, last = name.rpartition(".")
        if last in ("scales", "biases"):
            continue
        gguf = f"{gguf_name(stem, gemma)}.{last}"
        types[gguf] = kind
        if kind == "U32":
            q = config["quantization"]
            values = dequantize_affine(values, to_float64(*stored[stem + ".scales"]),
                                       to_float64(*stored[stem + ".biases"]), q["bits"],
                                       q["group_size"])
        else:
            values = to_float64(kind, values)
        if gemma and values.ndim == 1:
            values = values + 1
        tensors[gguf] = values
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors(config["rope_theta"], config["head_dim"],
                                                      scaling)
    elif scaling:
        raise ValueError(f"rope_scaling {scaling} is not known here")
    return fields, tensors, types


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 5:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    convert(*sys.argv[1:3], *map(int, sys.argv[3:]))

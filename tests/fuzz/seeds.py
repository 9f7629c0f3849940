#!/usr/bin/env python3
"""Writes the small seeds of the fuzz programs to corpus/NAME beside this file."""
import json
import pathlib
import struct

here = pathlib.Path(__file__).parent / "corpus"


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    """A GGUF value with its type."""
    if isinstance(v, bool):
        return struct.pack("<I?", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    kind, bodies = {
        str: (8, b"".join(text(x) for x in v if isinstance(x, str))),
        float: (6, b"".join(struct.pack("<f", x) for x in v if isinstance(x, float))),
        int: (5, b"".join(struct.pack("<i", x) for x in v if isinstance(x, int))),
    }[type(v[0])]
    return struct.pack("<IIQ", 9, kind, len(v)) + bodies


def gguf(metadata, tensors=(), version=3):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, v in metadata.items():
        out += text(key) + value(v)
    offset = 0
    for name, dims in tensors:
        out += text(name) + struct.pack("<I", len(dims))
        size = 4
        for d in dims:
            out += struct.pack("<Q", d)
            size *= d
        out += struct.pack("<IQ", 0, offset)
        offset += (size + 31) // 32 * 32
    out += b"\0" * (-len(out) % 32)
    return out + b"\0" * offset


llama = {
    "general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": 8,
    "llama.feed_forward_length": 16, "llama.attention.head_count": 2, "llama.context_length": 32,
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0,
}
pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581", "a", "\u2581a"]
spm = {
    "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
    "tokenizer.ggml.scores": [-float(i) for i in range(len(pieces))],
    "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 3,
    "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
}
alphabet = [chr(b) if 33 <= b < 127 else chr(256 + b) for b in range(256)]
bpe = {
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": alphabet + ["ab"], "tokenizer.ggml.token_type": [1] * 257,
    "tokenizer.ggml.merges": ["a b"],
}
byte_level = {
    "version": "1.0", "added_tokens": [{"id": 257, "content": "<end>", "special": True}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    "post_processor": None, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {p: i for i, p in enumerate(alphabet + ["ab"])},
              "merges": [["a", "b"]]},
}
split = dict(byte_level, normalizer=None, pre_tokenizer={"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": False},
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]})


def safetensors(header, size=0):
    b = json.dumps(header).encode()
    return struct.pack("<Q", len(b)) + b + b"\0" * size


config = {
    "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 16, "vocab_size": 32, "rms_norm_eps": 1e-5,
    "quantization": {"group_size": 64, "bits": 4},
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
}
seeds = {
    "gguf": [gguf(llama | spm, [("token_embd.weight", [8, 4])]), gguf(llama | bpe), gguf(llama),
             gguf({}, version=2)],
    "safetensors": [safetensors({"__metadata__": {"format": "pt"}, "a": {
        "dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, 16), safetensors({})],
    "config": [json.dumps(config).encode()],
    "tokenizer": [json.dumps(byte_level).encode(), json.dumps(split).encode()],
    "text": [b"Once upon a time", "\u00e9\u4e2d\U0001f600 <s>".encode(), b"\xff\xc3\x28\0"],
}
for name, files in seeds.items():
    folder = here / name
    folder.mkdir(parents=True, exist_ok=True)
    for i, content in enumerate(files):
        (folder / f"seed{i}").write_bytes(content)

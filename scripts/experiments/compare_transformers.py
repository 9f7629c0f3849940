#!/usr/bin/env python3
"""compare_transformers.py ONEPASS [MODEL_TYPE...] [--folder DIR]: logits of tiny random models that transformers
makes from its own config classes and writes as folders, beside those of PyTorch, after every token

Needs no network and no model: pip install torch transformers. Prints the root mean square of the differences
relative to that of the logits, and exits with 1 where it is above 1e-5."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

COMMON = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": 101, "max_position_embeddings": 512, "bos_token_id": 1,
          "eos_token_id": 2, "pad_token_id": 0}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 48, "n_shared_experts": 2,
          "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.7}
FAMILIES = {
    "llama": {}, "mistral": {"sliding_window": None}, "qwen2": {}, "qwen3": {"head_dim": 16}, "arcee": {},
    "gemma": {"head_dim": 16}, "gemma2": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16},
    "gemma3_text": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 6},
    "phi3": {}, "granite": {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logits_scaling": 2.0,
                            "attention_multiplier": 0.3},
    "olmo2": {}, "olmo3": {"sliding_window": 8}, "smollm3": {}, "glm4": {"head_dim": 16, "partial_rotary_factor": 0.5},
    "starcoder2": {"sliding_window": None}, "stablelm": {"use_qkv_bias": True},
    "nemotron": {}, "phi": {"partial_rotary_factor": 0.5}, "cohere": {}, "cohere2": {"sliding_window": 8},
    "ernie4_5": {"head_dim": 16}, "exaone4": {"head_dim": 16, "sliding_window": None, "sliding_window_pattern": 4,
                                                 "layer_types": ["full_attention"] * 4}, "seed_oss": {"head_dim": 16},
    "hunyuan_v1_dense": {"head_dim": 16},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": None},
    "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 40},
    "qwen3_moe": EXPERTS | {"head_dim": 16, "norm_topk_prob": True},
    "olmoe": {"num_experts": 8, "num_experts_per_tok": 3},
    "glm4_moe": ROUTED | {"head_dim": 16, "partial_rotary_factor": 0.5},
    "dots1": ROUTED | {"num_key_value_heads": 4, "sliding_window": None},
    "ernie4_5_moe": {"moe_num_experts": 8, "moe_k": 3, "moe_intermediate_size": 48, "moe_num_shared_experts": 2,
                     "moe_layer_start_index": 1, "moe_layer_end_index": 3},
    "minimax_m2": {"head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3},
}
TOKENS = [(i * 37 + i * i * 5 + 3) % 101 for i in range(40)]


def randomize(model):
    """Every parameter shows in the logits: also biases, which begin as zeros, and norms."""
    generator = torch.Generator().manual_seed(7)
    for p in list(model.parameters()) + [b for n, b in model.named_buffers() if "correction" in n]:
        noise = torch.randn(p.shape, generator=generator)
        p.data = p.data + 0.1 * noise if p.ndim == 1 else noise / p.shape[-1] ** 0.5


def distance(onepass, config, folder):
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    randomize(model)
    model.save_pretrained(folder)
    with torch.no_grad():
        expected = model(torch.tensor([TOKENS])).logits[0].double().numpy()
    out = folder / "logits.f32"
    run = subprocess.run([onepass, "logits", "-m", str(folder), "--tokens", ",".join(map(str, TOKENS)), "--kv", "f32",
                          "--all", "--out", str(out)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return run.stderr.strip().splitlines()[-1]
    got = np.fromfile(out, np.float32).reshape(expected.shape)
    return float(np.sqrt(np.mean((got - expected) ** 2) / np.mean(expected ** 2)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onepass")
    parser.add_argument("types", nargs="*")
    parser.add_argument("--folder", type=pathlib.Path)
    args = parser.parse_args()
    root = args.folder or pathlib.Path(tempfile.mkdtemp())
    wrong = 0
    for model_type in args.types or FAMILIES:
        try:
            config = transformers.AutoConfig.for_model(model_type, **(COMMON | FAMILIES[model_type]))
        except ValueError:
            print(f"{model_type:18} not in transformers {transformers.__version__}")
            continue
        result = distance(args.onepass, config, root / model_type)
        bad = not isinstance(result, float) or not result <= 1e-5
        wrong += bad
        shown = f"{result:.1e}" if isinstance(result, float) else result
        print(f"{model_type:18} {shown}{'  WRONG' if bad else ''}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

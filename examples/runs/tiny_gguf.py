"""Write a small llama-shaped GGUF file of random weights: `python examples/runs/tiny_gguf.py FILE.gguf`."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 4096, 256, 4, 8, 4, 704
FIRST_WORDS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
KINDS = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, *[gguf.TokenType.BYTE] * 256]


def shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor, rows first."""
    narrow = WIDTH // HEADS * KV_HEADS
    found: dict[str, tuple[int, ...]] = {"token_embd": (VOCABULARY, WIDTH), "output_norm": (WIDTH,)}
    found["output"] = (VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        found |= {f"{block}{name}": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
        found |= {f"{block}{name}": (WIDTH, WIDTH) for name in ("attn_q", "attn_output")}
        found |= {f"{block}{name}": (narrow, WIDTH) for name in ("attn_k", "attn_v")}
        found |= {f"{block}{name}": (INNER, WIDTH) for name in ("ffn_gate", "ffn_up")}
        found[f"{block}ffn_down"] = (WIDTH, INNER)
    return found


def write(path: Path) -> None:
    """Matrices in fp16, vectors in fp32."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    words = [*FIRST_WORDS, *(f"w{number}" for number in range(VOCABULARY - len(FIRST_WORDS)))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([*KINDS, *[gguf.TokenType.NORMAL] * (VOCABULARY - len(KINDS))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    numbers = np.random.default_rng(0)
    for name, shape in shapes().items():
        values = numbers.standard_normal(shape, dtype=np.float32) * 0.02
        writer.add_tensor(f"{name}.weight", values.astype(np.float16) if len(shape) > 1 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))

"""What a trace costs: processor seconds after the imports, and resident memory, of one thread.

python bench/trace_speed.py [--rounds N] [CASE ...]

Every case is a process of its own: it imports torch and transformers, then traces a program from its shipped sizes
(no weights, bfloat16, one sequence of 2048 tokens, two steps on one H200) and prints what that took. The least of the
rounds counts, which a busy machine disturbs least. `small` is a model of two layers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from measured import Requirement, aligned, conclude, machine

MOST_GIB = 0.6
TOKENS, LIMIT_S = 2048, 600
SMALL = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4,
         "num_hidden_layers": 2, "vocab_size": 1000}  # fmt: skip
LLAMA_8B = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
            "num_hidden_layers": 32, "vocab_size": 128256}  # fmt: skip
LLAMA_70B = LLAMA_8B | {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
                        "num_hidden_layers": 80}  # fmt: skip
QWEN3_30B = {"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_attention_heads": 32,
             "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
             "num_hidden_layers": 48, "vocab_size": 151936}  # fmt: skip


class Case(NamedTuple):
    """A program: the sizes of its model, how it trains, and the most processor seconds it may take."""

    most_s: float
    sizes: dict[str, int]
    family: str = "Llama"
    checkpointing: bool = False
    adapters: bool = False
    four_bit: bool = False


CASES = {
    "small": Case(1, SMALL),
    "8B": Case(6, LLAMA_8B),
    "8B LoRA": Case(12, LLAMA_8B, checkpointing=True, adapters=True),
    "8B QLoRA": Case(14, LLAMA_8B, checkpointing=True, adapters=True, four_bit=True),
    "70B": Case(16, LLAMA_70B, checkpointing=True),
    "MoE 30B": Case(14, QWEN3_30B, family="Qwen3Moe", checkpointing=True),
}


def program(case: Case) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """How its state is built, and its step."""
    import peft
    import torch
    import transformers

    from capienza.trace.quantised import quantise_linears

    def build() -> Any:
        config = getattr(transformers, f"{case.family}Config")(**case.sizes)
        with torch.device("meta" if case.four_bit else "cuda"):
            model = getattr(transformers, f"{case.family}ForCausalLM")._from_config(config, dtype=torch.bfloat16)
        if case.four_bit:
            model = peft.prepare_model_for_kbit_training(quantise_linears(model), use_gradient_checkpointing=False)
        if case.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if case.adapters:
            model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules="all-linear"))
            model.enable_input_require_grads()
        model.train()
        return model, torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])

    def step(state: Any) -> None:
        model, optimizer = state
        ids = torch.zeros(1, TOKENS, dtype=torch.int64, device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return build, step


def child(name: str) -> None:
    """Trace a case in this process, and print what it took."""
    import logging
    import warnings

    import torch
    import transformers.models.llama.modeling_llama
    import transformers.models.qwen3_moe.modeling_qwen3_moe  # noqa: F401

    from capienza.trace import predict_peak, probe

    case = CASES[name]
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    build, step = program(case)
    if case.four_bit:
        import bitsandbytes  # noqa: F401
    probe.works()
    started = time.process_time()
    found = predict_peak(build, step, device="H200 SXM")
    spent_s = time.process_time() - started
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = {"cpu_s": spent_s, "gib": peak_kib / 2**20, "ops": len(found.traced.op_names),
            "blocks": len(found.traced.recording.sizes), "peak_gib": found.allocated_bytes / 2**30}  # fmt: skip
    print(json.dumps(told))


def run(name: str) -> dict[str, float]:
    """A case in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, __file__, "--child", name], env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Print the figures and the requirements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", action="store_true")
    given = parser.parse_args()
    if given.child:
        child(given.cases[0])
        return 0
    print(machine())
    rows = [("", "CPU s", "median", "operations", "us each", "storages", "RSS GiB", "peak GiB")]
    requirements = []
    for name in given.cases:
        rounds = [run(name) for _ in range(given.rounds)]
        least, median = (of(one["cpu_s"] for one in rounds) for of in (min, statistics.median))
        last = rounds[-1]
        rows.append((name, f"{least:.2f}", f"{median:.2f}", f"{last['ops']:.0f}", f"{1e6 * least / last['ops']:.0f}",
                     f"{last['blocks']:.0f}", f"{last['gib']:.2f}", f"{last['peak_gib']:.2f}"))  # fmt: skip
        requirements.append(Requirement(f"{name}: processor seconds", least, CASES[name].most_s))
        requirements.append(Requirement(f"{name}: memory, GiB", last["gib"], MOST_GIB))
    print(aligned(rows))
    return conclude(requirements)


if __name__ == "__main__":
    sys.exit(main())

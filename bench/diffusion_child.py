"""Updates of FLUX.2-klein-base-4B as PEFT's method comparison runs them, traced: a child of `diffusion_rows.py`.

Reads {"peft": PEFT's configuration or null, "steps": n, "device": name} from the command line, prints a line of JSON.
Followed is method_comparison/image-gen/run.py: the transformer alone in bf16, the adapters in fp32, DINOv2 beside it,
cached prompts and latents of 14 images, two of 512 x 512 a step, AdamW, gradients clipped, kept until the next step.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

BLOCKS = {
    "patch_size": 1, "in_channels": 128, "num_layers": 5, "num_single_layers": 20, "attention_head_dim": 128,
    "num_attention_heads": 24, "joint_attention_dim": 7680, "guidance_embeds": False,
}  # fmt: skip
"""transformer/config.json of the checkpoint; it has the 3,875,544,576 parameters that the results state."""
IMAGES, BATCH, CHANNELS, SIDE, TEXT = 14, 2, 128, 32, 512
"""Images that are trained on, of a step, latent channels and side of one at 512 x 512, tokens of a prompt."""


class Run:
    """The state of a run."""

    def __init__(self, asked: dict[str, Any]) -> None:
        from diffusers import Flux2Transformer2DModel
        from transformers import Dinov2Config, Dinov2Model

        made = Flux2Transformer2DModel(**BLOCKS).to(torch.bfloat16)
        self.dino = Dinov2Model(Dinov2Config()).eval().to("cuda")
        made.enable_gradient_checkpointing()
        self.model = (made if asked["peft"] is None else adapted(made, asked["peft"])).to("cuda")
        self.model.train()
        trained = [one for one in self.model.parameters() if one.requires_grad]
        self.num_trained = sum(one.numel() for one in trained)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.prompts = torch.zeros(IMAGES, TEXT, BLOCKS["joint_attention_dim"], dtype=torch.bfloat16, device="cuda")
        self.text_ids = torch.zeros(IMAGES, TEXT, 4, dtype=torch.int64, device="cuda")
        self.latents = torch.zeros(IMAGES, CHANNELS, SIDE, SIDE, dtype=torch.bfloat16, device="cuda")
        self.losses: list[torch.Tensor] = []
        self.allocated: list[int] = []
        self.reserved: list[int] = []

    def step(self) -> None:
        """One update; what it made stays bound until the next one, as in the loop of a script."""
        chosen = torch.arange(BATCH, device="cuda")
        self.batch = self.latents.index_select(0, chosen)
        self.prompt = self.prompts.index_select(0, chosen)
        self.ids = self.text_ids.index_select(0, chosen)
        self.image_ids = torch.zeros(BATCH, SIDE * SIDE, 4, dtype=torch.int64).to("cuda")
        self.noise = torch.randn_like(self.batch)
        self.sigmas = torch.rand(BATCH, 1, 1, 1, dtype=torch.bfloat16).to("cuda")
        self.timesteps = torch.zeros(BATCH, device="cuda")
        self.noisy = (1.0 - self.sigmas) * self.batch + self.sigmas * self.noise
        self.packed = self.noisy.reshape(BATCH, CHANNELS, SIDE * SIDE).permute(0, 2, 1)
        self.optimizer.zero_grad(set_to_none=True)
        found = self.model(
            hidden_states=self.packed,
            timestep=self.timesteps / 1000,
            guidance=None,
            encoder_hidden_states=self.prompt,
            txt_ids=self.ids,
            img_ids=self.image_ids,
            return_dict=False,
        )[0]
        self.predicted = found[:, : SIDE * SIDE].permute(0, 2, 1).reshape(self.batch.shape)
        self.target = self.noise - self.batch
        weighting = torch.ones_like(self.sigmas)
        squares = weighting.float() * (self.predicted.float() - self.target.float()) ** 2
        self.loss = squares.reshape(BATCH, -1).mean(1).mean()
        del squares
        self.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.losses.append(self.loss)
        self.allocated.append(torch.cuda.memory_allocated())
        self.reserved.append(torch.cuda.memory_reserved())


def adapted(model: Any, asked: dict[str, Any]) -> Any:
    """The model with PEFT's adapters, in fp32 as its default is."""
    import peft

    kinds = peft.mapping.PEFT_TYPE_TO_CONFIG_MAPPING
    known = dict(asked)
    config = kinds[known.pop("peft_type")](**known)
    return peft.get_peft_model(model, config, autocast_adapter_dtype=True)


def main() -> None:
    """Trace, and print what the loop would have logged."""
    from capienza.errors import CapienzaError
    from capienza.trace import predict_peak

    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    runs: list[Run] = []

    def build() -> Run:
        runs.append(Run(asked))
        return runs[0]

    try:
        found = predict_peak(build, Run.step, steps=asked["steps"], device=asked["device"])
    except CapienzaError as error:
        print(json.dumps({"why": str(error)}))
        return
    gpu, run = found.gpus[0], runs[0]
    figures = {"peak_reserved": gpu.reserved_bytes, "peak_allocated": gpu.allocated_bytes}
    told = {"num_trained": run.num_trained, "allocated": run.allocated, "reserved": run.reserved}
    notes = {"unknown": list(map(str, found.unknown)), "warnings": list(map(str, found.warnings))}
    print(json.dumps(figures | told | notes | {"operations": len(found.traced.op_names)}))


if __name__ == "__main__":
    main()

"""Libraries of training and models: transformers, accelerate, DeepSpeed, bitsandbytes, fairseq, diffusers, ComfyUI."""

from __future__ import annotations

from capienza.logs.said import enters, said

ROWS = (
    said(
        "bnb.dispatched",
        "some modules are dispatched on the cpu or the disk | make sure you have enough gpu ram to fit",
        phase="load",
        cause="weights",
        memory="device",
    ),
    said(
        "bnb.missing",
        "requires `bitsandbytes` | using `bitsandbytes` 8-bit quantization requires | requires accelerate | "
        "the installed version of bitsandbytes was compiled without gpu | please install bitsandbytes | no "
        "package metadata was found for bitsandbytes",
        r"(?!.*warn)",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "attention.missing",
        "flashattention2 has been toggled on | flashattention only supports | flash_attn seems to be not "
        "installed | flash attention is not | flashattention-2 with",
        r"(?!.*warn)",
        phase="environment",
        cause="compatibility",
        memory="no",
        is_fatal=None,
    ),
    said(
        "accelerate.offload",
        "please provide an `offload_folder` | offload the whole state dict to the disk | model weights are not "
        "allocated",
        phase="load",
        cause="weights",
        memory="device",
    ),
    said(
        "accelerate.offloaded",
        "because they were offloaded to the | parameters are on the meta device | offloaded to cpu and disk",
        rank="notice",
        phase="load",
        cause="weights",
        memory="device",
        is_fatal=False,
    ),
    said(
        "transformers.architecture",
        "does not recognize this architecture | unrecognized configuration class | unrecognized model in | "
        "should have a `model_type` key | keyerror: 'qwen | keyerror: 'llama | keyerror: 'gemma | "
        "trust_remote_code=true",
        r"(?!.*warn)",
        phase="load",
        cause="compatibility",
        memory="no",
        rank="error",
    ),
    said(
        "transformers.tokens",
        "this is a friendly reminder | exceeds the maximum sequence length | is longer than the specified maximum",
        rank="notice",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=False,
    ),
    said(
        "deepspeed.flushes",
        "pytorch allocator cache flushes since last step",
        rank="notice",
        phase="optimizer_step",
        cause="fragmentation",
        memory="device",
        is_fatal=False,
    ),
    said(
        "deepspeed.overflow",
        "overflow! rank | overflow. skipping step",
        rank="notice",
        phase="optimizer_step",
        cause="not_memory",
        memory="no",
        is_fatal=False,
    ),
    said(
        "deepspeed.overflow-end",
        "current loss scale already at minimum",
        phase="optimizer_step",
        cause="not_memory",
        memory="no",
    ),
    said(
        "deepspeed.adam",
        "deepspeedcpuadam | cpu_adam | ninja is required | error building extension",
        r"has no attribute 'ds_opt_adam'|Error building extension|ninja is required|cpu_adam.*(?:not found"
        r"|cannot|fail)",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    # Runs that go on.
    said(
        "retry.skip",
        "ran out of memory, skipping batch | ran out of memory, retrying batch | skipping batch | attempting "
        "to recover from oom | oom in forward | recovering from oom | recover from oom | out of memory, skipping",
        r"skip|retr|recover",
        is_fatal=False,
        memory="device",
    ),
    said(
        "retry.smaller",
        "trying batch size | reducing batch size | decreasing batch size | halving the batch size | retrying "
        "with tiled | retrying with batch | retrying with smaller | retrying with a smaller | falling back to "
        "cpu | fall back to cpu | trying with batch size | reducing the batch size | trying smaller batch",
        is_fatal=False,
        memory="device",
    ),
    said(
        "retry.announced",
        "retrying | retry with | trying again | falling back | will retry | skipping",
        r"(?:out of memory|\bOOM\b|allocat).{0,100}\b(?:retry|trying again|falling back|skipping)",
        is_fatal=False,
        memory="device",
    ),
    said(
        "retry.tiled",
        "ran out of memory when regular vae",
        is_fatal=False,
        phase="forward",
        cause="activations",
        memory="device",
    ),
    said(
        "retry.sub-batch",
        "no executable batch size found, reached zero",
        memory="device",
    ),
    # Progress.
    said(
        "comfy.lora",
        "error lora ",
        r"ERROR lora \S+.{0,40}out of memory",
        phase="load",
        cause="loading_transient",
        memory="device",
    ),
    enters(
        "comfy.move",
        "begin to load | to load target model | requested to load | [memory management] | loading in lowvram "
        "mode | [unload] | moving model(s)",
        "load",
    ),
    enters(
        "comfy.load",
        "node type: | !!! exception during processing",
        "load",
        r"Node Type:\W*\w*(?:Loader|Load)\w*",
    ),
    enters(
        "comfy.forward",
        "node type:",
        "forward",
        r"Node Type:\W*(?!\w*Load)(?:\w*(?:VAE|Sampler|Sample|Encode|Decode|Upscale|Detailer)\w*)",
    ),
    enters(
        "hf.load",
        "loading checkpoint shards | downloading shards | loading pipeline components | fetching",
        "load",
        r"Loading checkpoint shards|Downloading shards|Loading pipeline components|Fetching \d+ files",
    ),
    enters(
        "hf.loaded",
        "loading checkpoint shards | downloading shards | loading pipeline components | fetching",
        "",
        r"(?:Loading checkpoint shards|Downloading shards|Loading pipeline components\S*|Fetching \d+ files):\s+100%",
    ),
    enters(
        "hf.evaluated",
        "'eval_loss':",
        "",
    ),
    enters(
        "hf.train",
        "***** running training ***** | num update steps per epoch | gradient accumulation steps =",
        "",
        "",
    ),
    enters(
        "hf.train-step",
        "'loss':",
        "",
        r"\{'loss': '?[0-9.]+",
        is_progress=True,
    ),
    enters(
        "train.step",
        "loss",
        "",
        r"^\W*(?:epoch|step|iter(?:ation)?|global.?step)\W{0,3}\d[\d/,. ]*\b.{0,80}?loss\W{0,3}\d",
        is_progress=True,
    ),
    enters(
        "hf.eval",
        "***** running evaluation | ***** running prediction | ***** eval | sanity checking dataloader | "
        "sanity checking: | validation: | validation dataloader | evaluating: | validating:",
        "eval",
        r"\*\*\*|Sanity Checking|Validat\w+(?: DataLoader \d+)?: +\d|Evaluating: +\d",
    ),
    enters(
        "hf.save",
        "saving model checkpoint to | saving optimizer state to | saving checkpoint",
        "checkpoint",
        r"Saving (?:model )?checkpoint|Saving optimizer",
    ),
    enters(
        "hf.saved",
        "model weights saved in | special tokens file saved in | tokenizer config file saved in",
        "checkpoint",
    ),
    enters(
        "export.quantise",
        "quantizing | quantising",
        "checkpoint",
        r"^\s*Quanti[sz]ing\b.*(?:layer|block|module|weights|\d+/\d+|%)",
    ),
    enters(
        "export.merge",
        "merging lora | merging adapter | merge and unload | merging weights | unsloth: merging | unsloth: "
        "saving | exporting model | converting model to onnx",
        "checkpoint",
    ),
    enters(
        "data.map",
        "running tokenizer on | tokenizing | generating train split | map (num_proc | map:",
        "data",
        r"Running tokenizer on|Tokenizing\b.*\d+%|Generating \w+ split|^Map(?: \(num_proc=\d+\))?: ",
    ),
    enters(
        "deepspeed.zero",
        "before creating fp16 partitions | before creating fp32 partitions | deepspeedzerooffload initialize | "
        "creating fp16 zero stage | creating bf16 zero stage | creating torch.float32 zero stage | creating "
        "torch.bfloat16 zero stage | creating torch.float16 zero stage",
        "load",
    ),
)

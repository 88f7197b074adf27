"""SGLang (and SGLang-JAX): phases by its `begin` and `end` lines, batches of prefill and decode, pool refusals."""

from __future__ import annotations

from capienza.logs.said import enters, said

ROWS = (
    said(
        "sglang.capture-failed",
        "capture cuda graph failed | capture cpu graph failed",
        rank="error",
        phase="graph_capture",
        cause="graph_capture",
    ),
    said(
        "sglang.no-pool",
        "please try to increase --mem-fraction-static | not enough memory. please try | leave no gpu memory "
        "for the kv cache",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "flashinfer.workspace",
        "in alignedallocator",
        r"Failed to allocate memory for \S+ with size <requested>",
        unit="B",
        cause="configuration",
    ),
    said(
        "sglang.decode-full",
        "decode out of memory. try to lower your batch size",
        phase="decode",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "sglang.prefill-full",
        "prefill out of memory. try to lower your batch size",
        phase="prefill",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "sglang.one-request",
        "no space left for only one request",
        phase="decode",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "sglang.slots",
        "alloc_req_slots runs out of memory",
        phase="prefill",
        cause="configuration",
        memory="no",
    ),
    said(
        "sglang.retract",
        "kv cache pool is full. retract requests | retract requests. #retracted | decode out of memory happened",
        phase="decode",
        cause="kv_cache",
        memory="device",
        is_fatal=False,
    ),
    said(
        "sglang.unbalanced",
        "memory capacity is unbalanced",
        phase="startup",
        cause="other_process",
        memory="device",
        is_fatal=None,
    ),
    said(
        "sglang.tokens",
        "max_total_tokens | exceeds the maximum number of tokens | is longer than the model's context length | "
        "the input ( | input length (",
        r"is longer than the model's context length|exceeds the maximum|Input length \(\d+ tokens\) exceeds",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "sglang.watchdog",
        "watchdog timeout",
        rank="error",
        cause="not_memory",
        memory="no",
    ),
    said(
        "sglang.dead",
        "scheduler hit an exception | received sigquit from a child process | rank 0 scheduler is dead | "
        "detokenizermanager hit an exception | tokenizermanager hit an exception",
        rank="consequence",
    ),
    enters(
        "sglang.distributed",
        "init torch distributed begin",
        "startup",
        r"^(?:.*avail mem=<free>)?",
        unit="GiB",
    ),
    enters(
        "sglang.load",
        "load weight begin",
        "load",
        r"^(?:.*avail mem=<free>)?",
        unit="GiB",
    ),
    enters(
        "sglang.loaded",
        "load weight end",
        "kv_cache_allocation",
        r"^(?:.*avail mem=<free>)?",
        unit="GiB",
    ),
    enters(
        "sglang.pool",
        "memory pool end | kv cache is allocated",
        "profile_warmup",
        r"^(?:.*avail mem=<free>)?",
        unit="GiB",
    ),
    enters(
        "sglang.capture",
        "capture cuda graph begin | capturing batches",
        "graph_capture",
        r"^(?:.*avail mem=<free>)?",
        unit="GiB",
    ),
    enters(
        "sglang.captured",
        "capture cuda graph end | the server is fired up and ready to roll",
        "",
    ),
    enters(
        "sglang.prefill",
        "prefill batch",
        "prefill",
        r"Prefill batch[.,\s]",
    ),
    enters(
        "sglang.decode",
        "decode batch",
        "decode",
        r"Decode batch[.,\s]",
        is_progress=True,
    ),
)

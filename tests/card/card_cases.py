"""Cards for the tests of this room: the design's own, and bad ones with the problems each must give."""

from decimal import Decimal
from typing import Any

from capienza.yamlmarks import Node

HEAD = "capienza: 1\nname: x\nmodel: {id: a/b}\ntask: inference\n"
TUNING = "capienza: 1\nname: x\nmodel: {id: a/b}\ntask: fine-tuning\n"

DESIGN_CARD = """\
capienza: 1
name: support-assistant
model: {id: Qwen/Qwen3-8B, revision: 9c925d64d72725edaf899c6cb9c377fd0709d9c5}   # or path, or parameters + bits
task: inference                     # or fine-tuning
weights: {format: bf16}             # resident format
engine: {name: vllm, version: "0.11.2", options: {gpu_memory_utilization: 0.90}}
tokens: {short: 512, usual: 4096, required: {prompt: 30720, output: 2048}}
concurrency: 8
reserve: {amount: 6 GiB, reason: first hypothesis, to be replaced by measured phases}
margin: {amount: 2 GiB, reason: spread of three observed runs}
quality: {corpus: eval/corpus.jsonl, metrics: [{name: exact_match, min: 0.82, max_regression: 0.01}]}
placement: {gpus: 1, tensor_parallel: 1}
host: {ram: 64 GiB, storage: 200 GB, interconnect: none, managed_application: none, others_use: 0 GiB}
budget: {cap: 300 USD}
calendar:
  {timezone: Europe/Rome, start: 2026-12-07, deadline: 2026-12-12, steps: [{name: run, hours: 30, basis: hypothetical}]}
preferences: [{region: eu}]
"""


BAD_YAML = {
    HEAD + "name: y\n": ["5:1 yamlmarks.duplicate-key None"],
    HEAD + "concurrency: .nan\n": ["5:14 yamlmarks.not-finite None"],
    HEAD + "concurrency: 1e41\n": ["5:14 yamlmarks.number-too-long None"],
}
"""Bad as YAML: an editor says so too."""

BAD_TO_ALL = {
    TUNING + "training: {save_total_limit: -1}\n": ["5:30 not-a-whole-number training.save_total_limit"],
    # the document
    "[]": ["1:1 not-a-card None"],
    "text": ["1:1 not-a-card None"],
    "{}": [f"1:1 missing {key}" for key in ("capienza", "name", "model", "task")],
    "capienza: 2\nnothing: else\n": ["1:11 unknown-version capienza"],
    "capienza: 0\n": ["1:11 unknown-version capienza"],
    HEAD.replace("capienza: 1", 'capienza: "1"'): ["1:11 not-a-whole-number capienza"],
    HEAD.replace("capienza: 1", "capienza: true"): ["1:11 not-a-whole-number capienza"],
    # keys
    HEAD + "contxt: 4096\n": ["5:1 unknown-key contxt"],
    HEAD + "tokens: {requierd: 4096}\n": ["5:10 unknown-key tokens.requierd"],
    HEAD + "engine: {version: '1'}\n": ["5:9 missing engine.name"],
    # empty values
    HEAD + "concurrency:\n": ["5:13 nothing concurrency"],
    HEAD + "tokens:\n": ["5:8 nothing tokens"],
    HEAD + "host: {ram: }\n": ["5:13 nothing host.ram"],
    HEAD + "engine: {name: v, options: {a: }}\n": ["5:32 not-one-value engine.options.a"],
    # text
    HEAD.replace("name: x", "name: 7"): ["2:7 not-text name"],
    HEAD.replace("name: x", "name: ' '"): ["2:7 text-length name"],
    HEAD.replace("name: x", "name: " + "x" * 201): ["2:7 text-length name"],
    HEAD.replace("name: x", 'name: "a\\nb"'): ["2:7 text-lines name"],
    HEAD.replace("name: x", "name: [x]"): ["2:7 not-text name"],
    HEAD + "engine: {name: vllm, version: 0.11}\n": ["5:31 not-text engine.version"],
    # a mapping or a list where something else stands
    HEAD + "engine: vllm\n": ["5:9 not-a-mapping engine"],
    HEAD + "reserve: 6 GiB\n": ["5:10 not-a-mapping reserve"],
    HEAD + "reserve: none\n": ["5:10 not-a-mapping reserve"],
    HEAD + "tokens: 4096\n": ["5:9 not-a-mapping tokens"],
    HEAD + "preferences: {region: eu}\n": ["5:14 not-a-list preferences"],
    HEAD + "preferences: [eu, {a: 1}, {b: [c]}]\n": [
        "5:15 not-a-mapping preferences[0]",
        "5:23 not-text preferences[1].a",
        "5:31 not-text preferences[2].b",
    ],
    HEAD + "engine: {name: v, options: {a: [1], b: {c: d}}}\n": [
        "5:32 not-one-value engine.options.a",
        "5:40 not-one-value engine.options.b",
    ],
    # the model
    HEAD.replace("{id: a/b}", "a/b"): ["3:8 not-a-mapping model"],
    HEAD.replace("{id: a/b}", "{}"): ["3:8 model-incomplete model"],
    HEAD.replace("{id: a/b}", "{revision: main}"): ["3:8 model-incomplete model"],
    HEAD.replace("{id: a/b}", "{id: a/b, path: c}"): ["3:24 contradiction model.path"],
    HEAD.replace("{id: a/b}", "{parameters: 7e9}"): ["3:21 needs model.parameters"],
    HEAD.replace("{id: a/b}", "{id: a/b, bits: 16}"): ["3:24 needs model.bits"],
    HEAD.replace("a/b", "./a"): ["3:13 not-a-model-id model.id"],
    HEAD.replace("a/b", "a/b/c"): ["3:13 not-a-model-id model.id"],
    HEAD.replace("a/b", "https://x"): ["3:13 not-a-model-id model.id"],
    HEAD.replace("{id: a/b}", "{parameters: -7e9, bits: 0}"): [
        "3:21 not-a-whole-number model.parameters",
        "3:33 not-a-number model.bits",
    ],
    HEAD.replace("{id: a/b}", "{parameters: 1.5, bits: 65}"): [
        "3:21 not-a-whole-number model.parameters",
        "3:32 not-a-number model.bits",
    ],
    HEAD.replace("inference", "training"): ["4:7 not-a-choice task"],
    # numbers
    HEAD + "tokens: {required: 8k}\n": ["5:20 not-a-whole-number tokens.required"],
    HEAD + "tokens: {required: 0}\n": ["5:20 not-a-whole-number tokens.required"],
    HEAD + "tokens: {required: 1e10}\n": ["5:20 not-a-whole-number tokens.required"],
    HEAD + "tokens: {required: {prompt: 5}}\n": ["5:20 missing tokens.required.output"],
    HEAD + "tokens: {required: {prompt: 5, output: 5, total: 10}}\n": ["5:43 unknown-key tokens.required.total"],
    HEAD + "concurrency: -1\n": ["5:14 not-a-whole-number concurrency"],
    HEAD + "concurrency: 1.5\n": ["5:14 not-a-whole-number concurrency"],
    HEAD + "quality: {metrics: [{name: m, max_regression: -0.1}]}\n": [
        "5:47 not-a-number quality.metrics[0].max_regression"
    ],
    HEAD + "quality: {metrics: [{name: m, min: true}]}\n": ["5:36 not-a-number quality.metrics[0].min"],
    # sizes and money
    HEAD + "margin: {amount: 6}\n": ["5:18 not-a-size margin.amount"],
    HEAD + "margin: {amount: 8k}\n": ["5:18 not-a-size margin.amount"],
    HEAD + "margin: {amount: -6 GiB}\n": ["5:18 not-a-size margin.amount"],
    HEAD + "margin: {amount: 9e9 GiB}\n": ["5:18 not-a-size margin.amount"],
    HEAD + "margin: {amount: none}\n": ["5:18 not-a-size margin.amount"],
    HEAD + "budget: {cap: 300}\n": ["5:15 not-money budget.cap"],
    HEAD + "budget: {cap: -300 USD}\n": ["5:15 not-money budget.cap"],
    HEAD + "budget: {}\n": ["5:9 missing budget.cap"],
    # statements against each other
    HEAD + "microbatch: 1\naccumulation: 2\ntraining: {method: full}\n": [
        "5:13 wrong-task microbatch",
        "6:15 wrong-task accumulation",
        "7:11 wrong-task training",
    ],
    TUNING + "concurrency: 8\n": ["5:14 wrong-task concurrency"],
    # the calendar
    HEAD + "calendar: {start: 2026-12-07T09:00}\n": ["5:19 date-time-without-offset calendar.start"],
    HEAD + "calendar: {start: 07/12/2026}\n": ["5:19 not-a-moment calendar.start"],
    HEAD + "calendar: {timezone: UTC, start: 20261207}\n": ["5:34 not-a-moment calendar.start"],
    HEAD + "calendar: {timezone: ../../etc/passwd}\n": ["5:22 unknown-time-zone calendar.timezone"],
    HEAD + "calendar: {steps: [{name: a, hours: 0, basis: guess}]}\n": [
        "5:37 not-a-number calendar.steps[0].hours",
        "5:47 not-a-choice calendar.steps[0].basis",
    ],
    HEAD + "calendar: {steps: [{hours: 1}, 5]}\n": [
        "5:20 missing calendar.steps[0].name",
        "5:32 not-a-mapping calendar.steps[1]",
    ],
    # ranking
    HEAD + "ranking: cost\n": ["5:10 not-a-list ranking"],
    HEAD + "ranking: [cost]\n": ["5:11 not-a-mapping ranking[0]"],
    HEAD + "ranking: [{within: 2 %}]\n": ["5:11 missing ranking[0].by"],
    HEAD + "ranking: [{by: price}]\n": ["5:16 not-a-choice ranking[0].by"],
    HEAD + "ranking: [{by: cost, within: 2}]\n": ["5:30 not-within ranking[0].within"],
    HEAD + "ranking: [{by: cost, within: -2 %}]\n": ["5:30 not-within ranking[0].within"],
    HEAD + "ranking: [{by: finish, within: 12 hours}]\n": ["5:32 not-within ranking[0].within"],
    HEAD + "ranking: [{by: cost, within: 2 %, weight: 3}]\n": ["5:35 unknown-key ranking[0].weight"],
}
"""Refused by the schema and by the loader."""

BAD_TO_THE_LOADER = {
    HEAD.replace("{id: a/b}", "{parameters: 7e9, bits: 16}") + "weights: {format: bf16}\n": [
        "5:19 contradiction weights.format"
    ],
    HEAD + "quality: {metrics: [{name: m}, {name: n}, {name: m}]}\n": ["5:50 metric-twice quality.metrics[2].name"],
    HEAD + "margin: {amount: 99999999 PiB}\n": ["5:18 size-too-large margin.amount"],
    HEAD + "budget: {cap: 9999999999999 USD}\n": ["5:15 money-too-large budget.cap"],
    HEAD + "tokens: {short: 9, usual: 8, required: 7}\n": [
        "5:27 lengths-out-of-order tokens.usual",
        "5:40 lengths-out-of-order tokens.required",
    ],
    HEAD + "tokens: {short: 9, required: {prompt: 4, output: 4}}\n": ["5:30 lengths-out-of-order tokens.required"],
    TUNING + "training: {method: full, rank: 8}\n": ["5:32 contradiction training.rank"],
    TUNING + "training: {optimiser: adamw, rnk: 8}\n": [
        "5:12 unknown-key training.optimiser",
        "5:30 unknown-key training.rnk",
    ],
    HEAD + "placement: {gpus: 4, tensor_parallel: 4, pipeline_parallel: 2}\n": ["5:19 too-few-gpus placement.gpus"],
    HEAD + "placement: {gpus: 6, tensor_parallel: 4}\n": ["5:19 uneven-gpus placement.gpus"],
    HEAD + "engine: {name: v, options: {kv_cache_dtype: fp8, kv-cache-dtype: auto}}\n": [
        "5:66 contradiction engine.options.kv-cache-dtype"
    ],
    HEAD + "engine: {name: v, options: {--Foo-Bar: 1, foo_bar: 1}}\n": ["5:52 contradiction engine.options.foo_bar"],
    TUNING + "training: {method: lora, lora_alpha: 8, lora-alpha: 16}\n": ["5:53 contradiction training.lora-alpha"],
    HEAD + "calendar: {start: 2026-12-07}\n": ["5:19 date-without-time-zone calendar.start"],
    HEAD + "calendar: {timezone: UTC, start: 2026-02-29}\n": ["5:34 not-a-moment calendar.start"],
    HEAD + "calendar: {timezone: UTC, start: 0001-01-01, deadline: 9999-12-31}\n": [
        "5:34 not-a-moment calendar.start",
        "5:56 not-a-moment calendar.deadline",
    ],
    HEAD + "calendar: {timezone: Europe/Roma, start: 2026-12-07}\n": ["5:22 unknown-time-zone calendar.timezone"],
    HEAD + "calendar: {timezone: Europe}\n": ["5:22 unknown-time-zone calendar.timezone"],
    HEAD + "calendar: {timezone: UTC, start: 2026-12-07, deadline: 2026-12-06}\n": [
        "5:56 deadline-before-start calendar.deadline"
    ],
    HEAD + "calendar: {start: 2026-12-07T09:00+01:00, deadline: 2026-12-07T08:00Z}\n": [
        "5:53 deadline-before-start calendar.deadline"
    ],
    HEAD + "ranking: []\n": ["5:10 ranking-empty ranking"],
    HEAD + "ranking: [{by: cost, within: 1 GiB}]\n": ["5:30 within-wrong-unit ranking[0].within"],
    HEAD + "ranking: [{by: margin, within: 2 %}]\n": ["5:32 within-wrong-unit ranking[0].within"],
    HEAD + "ranking: [{by: finish, within: 2 GB}]\n": ["5:32 within-wrong-unit ranking[0].within"],
    HEAD + "ranking: [{by: preferences, within: 2 %}]\n": ["5:37 within-of-preferences ranking[0].within"],
    HEAD + "ranking: [{by: preferences}, {by: cost}]\n": ["5:16 preferences-not-last ranking[0].by"],
    HEAD + "ranking: [{by: cost}, {by: cost, within: 1 %}]\n": ["5:28 ranking-twice ranking[1].by"],
    HEAD + "ranking: [{by: cost, within: 101 %}]\n": ["5:30 within-out-of-range ranking[0].within"],
    HEAD + "ranking: [{by: finish, within: 200000 h}]\n": ["5:32 within-out-of-range ranking[0].within"],
    HEAD + "ranking: [{by: margin, within: 99999999 PiB}]\n": ["5:32 size-too-large ranking[0].within"],
    TUNING + "training: {export: gguf}\n": ["5:20 not-an-export training.export"],
    TUNING + "training: {save-only-model: maybe}\n": ["5:29 not-a-flag training.save-only-model"],
}
"""What a schema cannot say: values against each other, names and numbers beyond a pattern."""

BAD: dict[str, list[str]] = BAD_YAML | BAD_TO_ALL | BAD_TO_THE_LOADER


def plain(node: Node) -> Any:
    """A YAML tree as a JSON reader would see it."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return float(node.value) if isinstance(node.value, Decimal) else node.value

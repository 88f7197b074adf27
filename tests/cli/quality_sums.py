"""A card of sums whose answers a small command gives, some of them wrong: what the tests of the gate run on."""

CARD = """
capienza: 1
name: sums
model: {id: example/sums, revision: 9c925d64d72725edaf899c6cb9c377fd0709d9c5}
task: inference
weights: {format: gptq-int4-g128}
engine: {name: vllm, version: "0.11.2"}
tokens: {required: 4096}
concurrency: 8
quality:
  corpus: corpus.jsonl
  metrics:
  - {name: numeric, max_regression: 0.05, reason: checked by hand}
  reference: {weights: bf16}
  harmed: {weights: two bits}
  decoding: {max_tokens: 16}
"""
ANSWER = """
import json, sys
wrong = int(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    number = int(asked["item"])
    print(json.dumps({"item": asked["item"], "output": str(number + 1 + (number < wrong))}), flush=True)
"""

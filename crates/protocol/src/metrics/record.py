#!/usr/bin/env python3
"""Records what SDK 1.58.2 makes of one story of calls, for `calls.rs`; run with the SDK installed, prints reference.json."""

import json

from openhands.sdk.llm.utils.metrics import Metrics

clock = [0.0]


def cost(metrics, value):
    clock[0] += 1.0
    metrics.add_cost(value)
    metrics.costs[-1].timestamp = clock[0]


def tokens(metrics, prompt, completion, id):
    metrics.add_token_usage(prompt, completion, prompt // 2, 3, 1000 + prompt, id, 1)


def dump(metrics):
    return metrics.model_dump(mode="json")


first = Metrics(model_name="m1")
story = {"empty": dump(first)}
cost(first, 0.25)
first.add_response_latency(1.5, "r1")
tokens(first, 100, 10, "r1")
baseline = first.deep_copy()
cost(first, 0.5)
first.add_response_latency(-2.0, "r2")
tokens(first, 40, 20, "r2")
second = Metrics(model_name="m2", max_budget_per_task=3.0)
cost(second, 1.0)
tokens(second, 7, 8, "r3")
merged = first.deep_copy()
merged.merge(second)
combined = Metrics()
combined.merge(first)
combined.merge(second)
try:
    combined.add_cost(-0.1)
    refused = False
except ValueError:
    refused = True
story |= {
    "first": dump(first), "snapshot": dump(first.get_snapshot()), "diff": dump(first.diff(baseline)),
    "diff_of_nothing": dump(first.diff(first)), "diff_since_the_start": dump(first.diff(Metrics(model_name="m1"))),
    "merged": dump(merged), "combined": dump(combined), "refused": [refused],
    "rates": [first.get_snapshot().cache_hit_rate, Metrics(model_name="m").cache_hit_rate],
}
print(json.dumps(story, indent=1))

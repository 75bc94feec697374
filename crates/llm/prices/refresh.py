#!/usr/bin/env python3
"""Trims LiteLLM's table of models (MIT, see LICENSE-litellm) to models.tsv.

    python3 refresh.py [model_prices_and_context_window.json]

Without an argument the table is fetched from LiteLLM's repository. Look at the difference before committing it.

One model a line, tab-separated, empty = unknown:
  name  input  output  cache read  cache write  reasoning  tier  context window  longest answer  flags  priority
Prices are US dollars a million tokens. A tier is "above_tokens:input:output:read:write", for prompts longer than that.
Flags: f tools, p parallel tools, v images, r reasoning, c prompt caching, a adaptive thinking, o effort as output_config,
x effort xhigh, m effort max, h prefixes can be kept for an hour (at 1.6 times the price of writing), F can be served slowly at half
the price, S takes no sampling parameters, R answers on the Responses interface, C does not. Priority says how many times dearer the fastest service is.
"""

import json
import re
import sys
import urllib.request

SOURCE = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"
PROVIDERS = {
    "openai", "anthropic", "gemini", "azure", "bedrock", "bedrock_converse", "mistral", "deepseek", "xai", "groq",
    "moonshot", "dashscope", "together_ai", "fireworks_ai", "openrouter", "minimax", "zai", "cerebras",
}
FLAGS = [
    ("supports_function_calling", "f"), ("supports_parallel_function_calling", "p"), ("supports_vision", "v"),
    ("supports_reasoning", "r"), ("supports_prompt_caching", "c"), ("supports_adaptive_thinking", "a"),
    ("supports_output_config", "o"), ("supports_xhigh_reasoning_effort", "x"), ("supports_max_reasoning_effort", "m"),
]
TIER = re.compile(r"^input_cost_per_token_above_(\d+)k_tokens$")


def price(value):
    return "" if value is None else f"{value * 1e6:.6g}"


def times(row, member):
    """How many times the ordinary price of what is read; the other kinds follow it closely."""
    base, other = row.get("input_cost_per_token"), row.get(member)
    return f"{other / base:.4g}" if base and other else ""


def wanted(name, row):
    if row.get("litellm_provider") not in PROVIDERS or row.get("mode") not in ("chat", "responses"):
        return False
    # Copies by region, commitment or speed.
    return not re.search(r"^bedrock/|commitment|^azure/(us|eu|global(-standard)?)/|^ft:|/ft:|audio|realtime|search|image|/fast/|^fast/"
                         r"|^azure_ai/|tts|live|robotics|computer-use|gemma-2|codestral-mamba", name)


def line(name, row):
    tier = ""
    for key in row:
        found = TIER.match(key)
        if found:
            k = found.group(1)
            at = lambda what: price(row.get(f"{what}_above_{k}k_tokens"))
            tier = ":".join([f"{k}000", at("input_cost_per_token"), at("output_cost_per_token"),
                             at("cache_read_input_token_cost"), at("cache_creation_input_token_cost")])
            break
    flags = "".join(letter for member, letter in FLAGS if row.get(member))
    if row.get("cache_creation_input_token_cost_above_1hr"):
        flags += "h"
    if row.get("input_cost_per_token_flex"):
        flags += "F"
    if row.get("supports_sampling_params") is False:
        flags += "S"
    endpoints = row.get("supported_endpoints")
    if row.get("mode") == "responses" or (endpoints and "/v1/responses" in endpoints):
        flags += "R"
    elif endpoints:
        flags += "C"
    reasoning = row.get("output_cost_per_reasoning_token")
    if reasoning == row.get("output_cost_per_token"):
        reasoning = None
    cells = [name, price(row.get("input_cost_per_token")), price(row.get("output_cost_per_token")),
             price(row.get("cache_read_input_token_cost") or row.get("input_cost_per_token_cache_hit")),
             price(row.get("cache_creation_input_token_cost")), price(reasoning), tier,
             row.get("max_input_tokens") or row.get("max_tokens") or "",
             # The latter may be the context window.
             row.get("max_output_tokens") or min(row.get("max_tokens") or 0, 16384) or "", flags,
             times(row, "input_cost_per_token_priority")]
    return "\t".join(str(cell) for cell in cells).rstrip("\t")


def main():
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as file:
            table = json.load(file)
    else:
        with urllib.request.urlopen(SOURCE, timeout=60) as answer:
            table = json.load(answer)
    lines = sorted(line(name.lower(), row) for name, row in table.items() if wanted(name, row))
    lines = [line for line in lines if "\t" in line]
    with open("models.tsv", "w", encoding="utf-8") as file:
        file.write("# Trimmed by refresh.py from LiteLLM's model_prices_and_context_window.json, MIT, see LICENSE-litellm.\n")
        file.write("\n".join(lines) + "\n")
    print(f"{len(lines)} models")


if __name__ == "__main__":
    main()

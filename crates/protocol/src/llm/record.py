#!/usr/bin/env python3
"""Records the members of a model slot and their defaults as SDK 1.58.2 writes them, for `llm.rs`; prints reference.json."""

import json

from openhands.sdk import LLM

print(json.dumps(LLM(model=LLM.model_fields["model"].default).model_dump(mode="json"), indent=1))

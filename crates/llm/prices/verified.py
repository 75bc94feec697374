#!/usr/bin/env python3
"""Writes the names of the models that the installed OpenHands SDK (MIT) recommends to verified.tsv: a provider a line, then its models."""

from importlib.metadata import version

from openhands.sdk.llm.utils.verified_models import VERIFIED_MODELS

with open("verified.tsv", "w", encoding="utf-8") as file:
    file.write(f"# Names of the models that openhands-sdk {version('openhands-sdk')} recommends, written by verified.py.\n")
    for provider, models in VERIFIED_MODELS.items():
        file.write("\t".join([provider, *models]) + "\n")

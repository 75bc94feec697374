#!/usr/bin/env python3
"""Records what the OpenHands SDK sends for one conversation, through LiteLLM, as reference.json, and for a model that a plan pays for as
reference_plan.json.

    python3 record.py        # where openhands-sdk is installed

The texts are this repository's own. Tools are left out of the record: the SDK adds parameters of its own to their schemas.
"""

import json
import logging
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"

from pydantic import Field, SecretStr  # noqa: E402

from openhands.sdk import LLM  # noqa: E402
from openhands.sdk.llm import ImageContent, Message, MessageToolCall, TextContent  # noqa: E402
from openhands.sdk.llm.message import ReasoningItemModel, ThinkingBlock  # noqa: E402
from openhands.sdk.tool import ToolDefinition  # noqa: E402
from openhands.sdk.tool.schema import Action, Observation  # noqa: E402

logging.disable(logging.CRITICAL)
MODELS = [
    "openai/mock-model", "litellm_proxy/claude-sonnet-4-5", "litellm_proxy/claude-opus-4-8", "anthropic/claude-sonnet-4-5",
    "anthropic/claude-opus-4-8", "openai/gpt-5", "gemini/gemini-3.1-pro-preview", "gemini/gemini-2.5-pro",
    "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "azure/gpt-4o", "openrouter/anthropic/claude-sonnet-4.5",
]
IMAGE = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
         "RU5ErkJggg==")


class RunAction(Action):
    command: str = Field(description="what to run")


class RunObservation(Observation):
    pass


class Run(ToolDefinition[RunAction, RunObservation]):
    name = "run"

    @classmethod
    def create(cls, *_args, **_more):
        return [cls(description="runs", action_type=RunAction, observation_type=RunObservation)]


def conversation(model):
    claude = "claude" in model
    call = lambda number, command: MessageToolCall(
        id=f"call_{number}", name="run", arguments=json.dumps({"command": command}, separators=(",", ":")),
        responses_item_id=f"fc_{number}", origin="responses" if "gpt-5" in model else "completion")
    result = lambda number, text: Message(
        role="tool", content=[TextContent(text=text)], tool_call_id=f"call_{number}", name="run")
    return [
        Message(role="system", content=[TextContent(text="static"), TextContent(text="dynamic")]),
        Message(role="user", content=[TextContent(text="look"), ImageContent(image_urls=[IMAGE])]),
        Message(role="assistant", content=[TextContent(text="I look.")], tool_calls=[call(1, "ls"), call(2, "pwd")],
                thinking_blocks=[ThinkingBlock(thinking="hm", signature="sig")] if claude else [],
                responses_reasoning_item=ReasoningItemModel(id="rs_1", summary=["s"], encrypted_content="enc")
                if "gpt-5" in model else None),
        result(1, "files"),
        result(2, "folder"),
        Message(role="assistant", content=[TextContent(text="Seen.")]),
        Message(role="user", content=[TextContent(text="thanks")]),
    ]


def paid_by_plan(base):
    """A slot as `LLM.subscription_login` makes it, with tokens of our own making and the backend at `base`."""
    from openhands.sdk.llm.auth import openai as vendor
    from openhands.sdk.llm.auth.credentials import CredentialStore, OAuthCredentials

    vendor.CODEX_API_ENDPOINT = f"{base}/codex/responses"
    vendor._extract_chatgpt_account_id = lambda _token: "account"
    store = CredentialStore(Path(tempfile.mkdtemp()))
    store.save(OAuthCredentials(vendor="openai", access_token="token", refresh_token="other", expires_at=2**52))
    return vendor.OpenAISubscriptionAuth(credential_store=store).create_llm(
        model="gpt-5.5", usage_id="plan", num_retries=0, timeout=10)


def main():
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_args):
            pass

        def do_GET(self):
            self.send_response(404)
            self.end_headers()

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            seen.append((self.path, json.loads(body), dict(self.headers)))
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "recorded"}}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    record = []
    for model in MODELS:
        seen.clear()
        options = {"api_key": SecretStr("key"), "base_url": base}
        if model.startswith("bedrock/"):
            options = {"aws_access_key_id": SecretStr("id"), "aws_secret_access_key": SecretStr("secret"),
                       "aws_region_name": "us-east-1", "aws_bedrock_runtime_endpoint": base}
        llm = LLM(model=model, usage_id=model, num_retries=0, timeout=10, **options)
        ask = llm.responses if llm.uses_responses_api() else llm.completion
        try:
            ask(conversation(model), tools=Run.create())
        except Exception:
            pass
        path, body, _ = seen[0]
        for member in ("tools", "toolConfig"):
            body.pop(member, None)
        record.append({"model": model, "path": path, "body": body})
    text = json.dumps(record, indent=1, ensure_ascii=False)
    Path(__file__).with_name("reference.json").write_text(text + "\n", encoding="utf-8")

    seen.clear()
    try:
        paid_by_plan(base).responses(conversation("openai/gpt-5.5"), tools=Run.create())
    except Exception:
        pass
    path, body, headers = seen[0]
    body.pop("tools")
    # Their words stay theirs: what counts is where texts stand.
    assert 0 < len(body["instructions"]) < 200
    body["instructions"] = "instructions"
    rules = body["input"][0]["content"][0]
    rules["text"] = rules["text"].partition("\n")[2].strip()
    kept = ("authorization", "chatgpt-account-id", "originator", "openai-beta")
    headers = {name.lower(): value for name, value in headers.items() if name.lower() in kept}
    text = json.dumps({"path": path, "headers": headers, "body": body}, indent=1, ensure_ascii=False)
    Path(__file__).with_name("reference_plan.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

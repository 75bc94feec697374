"""What a model call costs in the Python SDK: the counterpart of crates/llm/examples/callbench.rs, same requests, same model.

    python calls.py URL ROUNDS      # where openhands-sdk is installed; prints one line of JSON
"""

import json
import os
import resource
import sys
import time

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1", LOG_LEVEL="ERROR")

from pydantic import Field, SecretStr  # noqa: E402

from openhands.sdk import LLM  # noqa: E402
from openhands.sdk.llm import Message, MessageToolCall, TextContent  # noqa: E402
from openhands.sdk.tool import ToolDefinition  # noqa: E402
from openhands.sdk.tool.schema import Action, Observation  # noqa: E402


class RunAction(Action):
    command: str = Field(description="what to run")


class RunObservation(Observation):
    pass


class Run(ToolDefinition[RunAction, RunObservation]):
    name = "run"

    @classmethod
    def create(cls, *_args, **_more):
        return [cls(description="runs a command", action_type=RunAction, observation_type=RunObservation)]


def small():
    return [Message(role="system", content=[TextContent(text="You are brief.")]),
            Message(role="user", content=[TextContent(text="Hello, who are you?")])]


def history():
    messages = small()
    for number in range(99):
        call = MessageToolCall(id=f"call_{number}", name="run", arguments=json.dumps({"command": f"echo {number}"}),
                               origin="completion")
        messages.append(Message(role="assistant", content=[TextContent(text=f"Step {number}.")], tool_calls=[call]))
        messages.append(Message(role="tool", content=[TextContent(text="some output \n" * 40)],
                                tool_call_id=f"call_{number}", name="run"))
    return messages


def memory(name):
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def processor():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    url, rounds = sys.argv[1], int(sys.argv[2])
    report = {"rss_start_kib": memory("VmRSS")}
    for name, deltas, count, messages in (("small", 10, rounds, small()), ("history", 10, rounds, history()),
                                          ("stream", 1000, -(-rounds // 4), small())):
        llm = LLM(model="openai/m0", base_url=f"{url}/{deltas}/0/v1", api_key=SecretStr("k"), usage_id=name, num_retries=0,
                  timeout=600, stream=name == "stream")
        tools = Run.create()
        pieces = 0

        def token(_chunk):
            nonlocal pieces
            pieces += 1

        def one():
            answer = llm.completion(messages, tools=tools, on_token=token if name == "stream" else None)
            usage = answer.metrics.accumulated_token_usage
            assert usage.completion_tokens >= deltas, usage

        one()
        pieces, before = 0, processor()
        for _ in range(count):
            one()
        report[name] = {"cpu_ms": (processor() - before) * 1e3 / count, "calls": count, "deltas": pieces // count}
    report["rss_peak_kib"] = memory("VmHWM")
    print(json.dumps(report), flush=True)


main()

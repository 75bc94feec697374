"""Many conversations of one agent-server at once, each with a model that streams numbered words: memory, processor time, and
whether every word arrived, in the log and on the sockets.

    python streams.py SERVER-BINARY MODEL-URL CONVERSATIONS DELTAS PAUSE SOCKETS     # needs httpx and websockets
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from websockets.asyncio.client import connect

binary, model, count, deltas, pause, sockets = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
BOUND = 900
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.work = folder / "work"
        clean = {k: v for k, v in os.environ.items() if not k.startswith("OH_") and k != "SESSION_API_KEY"}
        self.process = subprocess.Popen(
            [binary, "--host", "127.0.0.1", "--port", str(self.port)], cwd=folder, stdout=(folder / "log").open("wb"),
            stderr=subprocess.STDOUT,
            env={**clean, "HOME": str(folder), "OH_SECRET_KEY": "bench", "OH_MAX_CONCURRENT_RUNS": str(count)})

    def processes(self):
        """The server may be a parent with a child that serves."""
        found = {self.process.pid}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rsplit(") ", 1)[1].split()[1])
                except (OSError, ValueError):
                    continue
                if parent in found:
                    found.add(int(entry.name))
        return found

    def sum(self, read):
        total = 0
        for pid in self.processes():
            try:
                total += read(Path(f"/proc/{pid}"))
            except (OSError, StopIteration):
                pass
        return total

    def memory(self, name):
        return self.sum(lambda path: next(int(line.split()[1]) for line in (path / "status").read_text().splitlines()
                                          if line.startswith(name))) / 1024

    def processor(self):
        def ticks(path):
            fields = (path / "stat").read_text().rsplit(") ", 1)[1].split()
            return int(fields[11]) + int(fields[12])
        return self.sum(ticks) / TICKS


class Socket:
    """What a client that watches one conversation saw of the model's words."""

    def __init__(self):
        self.words, self.message, self.ended = "", None, asyncio.Event()

    async def follow(self, url, ready):
        async with connect(url, max_size=None, open_timeout=60) as opened:
            async for frame in opened:
                event = json.loads(frame)
                if event["kind"] == "StreamingDeltaEvent":
                    self.words += event.get("content") or ""
                elif event["kind"] == "MessageEvent" and event["source"] == "agent":
                    self.message = "".join(part.get("text", "") for part in event["llm_message"]["content"])
                elif event["kind"] == "ConversationStateUpdateEvent":
                    ready.set()
                    if self.message is not None and event.get("key") == "full_state":
                        self.ended.set()
                        return


async def many(items, work, at_once=32):
    places = asyncio.Semaphore(at_once)

    async def one(item):
        async with places:
            return await work(item)
    return await asyncio.gather(*(one(item) for item in items))


async def measure(server, http):
    end = time.monotonic() + 30
    while True:
        try:
            if (await http.get("/ready")).status_code == 200:
                break
        except httpx.HTTPError:
            pass
        assert time.monotonic() < end and server.process.poll() is None, "the server is not ready"
        await asyncio.sleep(0.05)
    report = {"conversations": count, "deltas": deltas, "sockets": sockets, "rss_idle_mib": server.memory("VmRSS")}

    async def create(number):
        llm = {"model": f"openai/m{number}", "base_url": f"{model}/{deltas}/{pause}/v1", "api_key": "k", "usage_id": "agent",
               "num_retries": 1, "stream": True, "timeout": 600}
        body = {"agent": {"kind": "Agent", "llm": llm, "tools": [{"name": "terminal", "params": {}}]}, "autotitle": False,
                "workspace": {"kind": "LocalWorkspace", "working_dir": str(server.work)}}
        answer = await http.post("/api/conversations", json=body)
        answer.raise_for_status()
        return answer.json()["id"]

    before, begun = server.processor(), time.monotonic()
    ids = await many(range(count), create)
    report["create_wall_s"], report["create_cpu_s"] = time.monotonic() - begun, server.processor() - before
    report["rss_created_mib"] = server.memory("VmRSS")

    watched = [Socket() for _ in ids[:sockets]]
    ready = [asyncio.Event() for _ in watched]
    base = server.url.replace("http", "ws", 1)
    following = [asyncio.create_task(each.follow(f"{base}/sockets/events/{id}", flag))
                 for each, id, flag in zip(watched, ids, ready)]
    await asyncio.wait_for(asyncio.gather(*(flag.wait() for flag in ready)), 60)

    async def start(id):
        message = {"role": "user", "content": [{"type": "text", "text": "Count."}], "run": True}
        (await http.post(f"/api/conversations/{id}/events", json=message)).raise_for_status()

    before, begun = server.processor(), time.monotonic()
    await many(ids, start)
    report["started_s"] = time.monotonic() - begun

    async def ended(id):
        while True:
            answer = await http.get(f"/api/conversations/{id}/agent_final_response")
            if answer.status_code == 200 and answer.json()["response"]:
                return answer.json()["response"]
            assert time.monotonic() - begun < BOUND, "the conversations do not end"
            await asyncio.sleep(0.5)
    # No question before the end is near: questions cost the server too.
    await asyncio.sleep(deltas / 10 * pause / 1000)
    texts = await many(ids, ended)
    report["wall_s"], report["cpu_s"] = time.monotonic() - begun, server.processor() - before
    report["rss_peak_mib"] = server.memory("VmHWM")
    report["rss_per_conversation_kib"] = (report["rss_peak_mib"] - report["rss_idle_mib"]) * 1024 / count
    wanted = [[f"m{number}:{place}" for place in range(deltas)] for number in range(count)]
    report["whole_answers"] = sum(text.split() == words for text, words in zip(texts, wanted))
    await asyncio.wait_for(asyncio.gather(*following), 60)
    report["whole_on_sockets"] = sum(each.words.split() == words for each, words in zip(watched, wanted))
    return report


async def main():
    folder = Path(tempfile.mkdtemp(prefix="openhands-streams-"))
    server = Server(folder)
    try:
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as http:
            print(json.dumps(await measure(server, http)), flush=True)
    except BaseException:
        print((folder / "log").read_text(errors="replace")[-3000:], file=sys.stderr)
        raise
    finally:
        server.process.terminate()
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.process.kill()
        shutil.rmtree(folder, ignore_errors=True)


asyncio.run(main())

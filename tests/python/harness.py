"""What the scenarios share: a server of our binary, a scripted model, and the unmodified Python SDK as the client.

A scenario is a module with ``run(lab)``; ``play(run)`` at its end makes it a program that exits 0 when it holds. It knows the
server only through the SDK and HTTP, apart from the folder it was started in.
"""

import os

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1", LOG_LEVEL="ERROR")

import argparse
import json
import logging
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fixtures"))

import httpx
import openhands.tools.file_editor  # noqa: F401  (the client decodes actions only of tools it has imported)
import openhands.tools.task_tracker  # noqa: F401
import openhands.tools.terminal  # noqa: F401
from openhands.sdk import LLM, Agent, Conversation, Tool, Workspace
from pydantic import SecretStr
from scripted_llm import Model

logging.disable(logging.CRITICAL)
END = {"calls": [["finish", {"message": "done"}]]}


def shell(command, **more):
    """A turn in which the model runs one command."""
    return {"calls": [["terminal", {"command": command}]], **more}


def same(got, wanted, what):
    assert got == wanted, f"{what}: got {got!r}, wanted {wanted!r}"


def within(seconds, what, condition):
    """The first true value of ``condition`` within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class Server:
    """One process of the agent-server in a folder of its own."""

    def __init__(self, binary, folder, **env):
        self.folder = Path(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("OH_") and k not in ("SESSION_API_KEY", "LOG_LEVEL")}
        self.log = self.folder / "server.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [binary, "--host", "127.0.0.1", "--port", str(self.port)], cwd=self.folder, stdout=log, stderr=log,
                env={**clean, "HOME": str(self.folder / "home"), "OH_SECRET_KEY": "scenario-secret", **env},
                start_new_session=True)
        within(30, "the server is ready", self.answers)

    def answers(self):
        assert self.process.poll() is None, f"the server left with {self.process.returncode}"
        try:
            return httpx.get(f"{self.url}/ready", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self, how=signal.SIGTERM):
        """Ends the whole process group; a second call does nothing."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, how) if how == signal.SIGKILL else self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise AssertionError(f"the server did not leave within 20 s of {how.name}") from None


class FarModel:
    """A scripted model that runs elsewhere: ``url`` as the server reaches it, ``door`` as this program does."""

    def __init__(self, url, door):
        self.url, self.door = url, httpx.Client(base_url=door, timeout=30)

    def set_script(self, name, turns):
        self.door.put(f"/scripts/{name}", json=turns).raise_for_status()

    def requests(self, name):
        return self.door.get(f"/scripts/{name}").json()


class Client:
    """The SDK and plain HTTP against one server."""

    def __init__(self, lab, url, key, workdir):
        self.lab, self.url, self.key, self.workdir = lab, url, key, workdir
        self.http = httpx.Client(base_url=url, timeout=60, headers={"X-Session-API-Key": key} if key else {})

    def workspace(self):
        return Workspace(host=self.url, api_key=self.key, working_dir=self.workdir)

    def converse(self, turns, workspace=None, agent=None, stream=False, **more):
        """A remote conversation whose model plays these turns, streamed or whole."""
        name = f"s{uuid.uuid4().hex[:10]}"
        self.lab.model.set_script(name, turns)
        agent = agent or self.agent(name, stream=stream)
        conversation = Conversation(agent=agent, workspace=workspace or self.workspace(), visualizer=None,
                                    delete_on_close=False, **more)
        self.lab.scripts[str(conversation.id)] = name
        return conversation

    def agent(self, script, **more):
        llm = LLM(model="openai/scripted", base_url=f"{self.lab.model.url}/{script}/v1", api_key=SecretStr("scenario-key"),
                  usage_id="agent", num_retries=1, retry_min_wait=0, retry_max_wait=1, timeout=60, **more)
        return Agent(llm=llm, tools=[Tool(name="terminal"), Tool(name="file_editor")])

    def asked(self, conversation):
        """The bodies of the model calls of a conversation."""
        return self.lab.model.requests(self.lab.scripts[str(conversation.id)])

    def run(self, conversation, message=None):
        if message:
            conversation.send_message(message)
        conversation.run(poll_interval=0.2, timeout=60)
        return self.status(conversation)

    def status(self, conversation):
        return self.http.get(f"/api/conversations/{conversation.id}").json()["execution_status"]

    def reaches(self, conversation, *statuses):
        return within(30, f"status {statuses}", lambda: self.status(conversation) in statuses)

    def events(self, conversation, kind=None):
        """All events as the SDK decoded them, or those of one class name."""
        conversation.state.events.reconcile()
        return [e for e in conversation.state.events if kind is None or type(e).__name__ == kind]

    def raw_events(self, conversation, **query):
        answer = self.http.get(f"/api/conversations/{conversation.id}/events/search", params={"limit": 100, **query})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def outputs(self, conversation):
        """Texts of all observations, in order."""
        return ["\n".join(getattr(part, "text", "") for part in o.observation.to_llm_content)
                for o in self.events(conversation, "ObservationEvent")]

    def socket(self, path, auth=True):
        from websockets.sync.client import connect

        opened = connect(self.url.replace("http", "ws", 1) + path, open_timeout=10, max_size=None)
        if self.key and auth:
            opened.send(json.dumps({"type": "auth", "session_api_key": self.key}))
        return opened


class Lab:
    """Folder, model and servers of one scenario. With ``far`` (url, key, working directory) there is one server, which runs
    elsewhere, and its model does so too."""

    def __init__(self, binary, folder, far=None, model=None):
        self.binary, self.folder, self.far = binary, folder, far
        self.scripts, self.servers = {}, []
        self.model = model or Model()
        if not model:
            threading.Thread(target=self.model.serve_forever, daemon=True).start()

    def serve(self, name="server", **env):
        """Starts a server in the folder ``name``; the same name finds the same files again."""
        server = Server(self.binary, self.folder / name, **env)
        self.servers.append(server)
        return server

    def client(self, server=None, key=None):
        if self.far:
            return Client(self, *self.far)
        return Client(self, (server or self.serve()).url, key, str(self.folder / "work"))


def play(run):
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", nargs="?", help="path of openhands-agent-server")
    parser.add_argument("--server", nargs=3, metavar=("URL", "KEY", "WORKDIR"), help="a server that runs already")
    parser.add_argument("--model", nargs=2, metavar=("URL", "DOOR"), help="its model, as the server and as this program reach it")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="openhands-scenario-"))
    if given.server:
        lab = Lab(None, folder, given.server, FarModel(*given.model))
    else:
        lab = Lab(str(Path(given.binary).resolve()), folder)
    code = 1
    try:
        run(lab)
        code = 0
    except BaseException:
        traceback.print_exc()
        for log in folder.glob("*/server.log"):
            print(f"--- {log}\n{log.read_text(errors='replace')[-4000:]}", file=sys.stderr)
    finally:
        for server in lab.servers:
            server.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the SDK's socket threads would hold the process for five seconds each

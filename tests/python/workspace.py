"""The remote workspace without an agent: commands, files, git."""

import io
import tarfile

from harness import play, same, within


def run(lab):
    client = lab.client()
    workspace, here = client.workspace(), client.workdir
    assert workspace.alive
    assert "version" in workspace.get_server_info()
    done = workspace.execute_command(f"mkdir -p {here}; cd {here}; echo yes; echo no >&2; exit 4")
    same((done.exit_code, done.stdout, done.stderr, done.timeout_occurred), (4, "yes\n", "no\n", False), "a command")
    same(workspace.execute_command("pwd", cwd=here).stdout, f"{here}\n", "cwd")
    done = workspace.execute_command("sleep 20", timeout=1)
    same((done.exit_code, done.timeout_occurred), (-1, True), "a command out of time")
    same(len(workspace.execute_command("head -c 150000 /dev/zero | tr '\\0' z", timeout=30).stdout), 150000, "long output")
    started = workspace.start_command("sleep 40")
    workspace.stop_command(started)
    ended = within(15, "the stopped command ends",
                   lambda: (o := workspace.get_command_output(started)) and o.get("exit_code") is not None and o)
    assert ended["exit_code"] != 0, ended
    with client.socket("/sockets/bash-events") as ws:
        ws.send('{"command": "echo by-socket"}')
        frames = []
        while not frames or '"exit_code":0' not in frames[-1].replace(" ", ""):
            frames.append(ws.recv(timeout=10))
    assert "by-socket" in frames[-1], frames

    data = bytes(range(256)) * 300
    (lab.folder / "local.bin").write_bytes(data)
    remote = f"{here}/a/b/remote.bin"
    sent = workspace.file_upload(lab.folder / "local.bin", remote)
    same((sent.success, sent.file_size), (True, len(data)), f"upload ({sent.error})")
    same(workspace.file_download(remote, lab.folder / "back.bin").success, True, "download")
    assert (lab.folder / "back.bin").read_bytes() == data, "the bytes changed on the way"
    same(client.http.get("/api/file/download", params={"path": f"{here}/none"}).status_code, 404, "a missing file")
    same(client.http.get("/api/file/download", params={"path": "not/absolute"}).status_code, 400, "a relative path")
    packed = client.http.get("/api/file/archive", params={"path": f"{here}/a", "format": "tar.gz"})
    same(packed.status_code, 200, "archive")
    names = tarfile.open(fileobj=io.BytesIO(packed.content), mode="r:gz").getnames()
    assert any(name.endswith("b/remote.bin") for name in names), names

    made = workspace.execute_command(
        f"git init -q -b main {here}/repo && cd {here}/repo && git config user.email t@example.org && git config user.name t && "
        "echo old > same.txt && echo bye > gone.txt && git add . && git commit -qm start && echo new > same.txt && "
        "rm gone.txt && echo hi > fresh.txt")
    same(made.exit_code, 0, made.stderr)
    changes = {str(c.path).rsplit("/", 1)[-1]: c.status.value for c in workspace.git_changes(f"{here}/repo")}
    same(changes, {"same.txt": "UPDATED", "gone.txt": "DELETED", "fresh.txt": "ADDED"}, "git changes")
    diff = workspace.git_diff(f"{here}/repo/same.txt")
    same((diff.original, diff.modified), ("old", "new"), "git diff")


play(run)

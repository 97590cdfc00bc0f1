"""A fleet to look at: two nodes of simulated GPUs with an agent each, a planning server that asks both, and a training
of two pipelines on the first node. By itself it runs until it is stopped, and says where its page is:

    tests/page/world.py [--straggler 1.3]
"""

import argparse
import collections
import contextlib
import http.server
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("FLYBALL_BUILD", ROOT / "build"))
PATIENCE_S = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, good):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, AssertionError):
            if found := good():
                return found
        time.sleep(0.3)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s")


# Where a page is, and the token that it takes.
Place = collections.namedtuple("Place", "address token")


class World:
    """Use it in a with statement, which ends all of its processes."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="flyball-page-")
        self.folder = pathlib.Path(self._folder.name)
        self.processes = {}
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.token = secrets.token_hex(20)
        # By its port and a token the server may end leases, whoever runs it.
        self.agent = Place(f"http://127.0.0.1:{free_port()}", secrets.token_hex(20))
        self.other_agent = Place(f"http://127.0.0.1:{free_port()}", self.agent.token)
        (self.folder / "agent.toml").write_text("[access]\nremote_ends_leases = true\n")
        self.controller_port = free_port()
        for name, text in (("token", self.token), ("agents-token", self.agent.token)):
            (self.folder / name).touch(0o600)
            (self.folder / name).write_text(text)
        self.boards = {node: dict(os.environ, FLYBALL_SIM=f"page-{os.getpid()}-{node}", LD_LIBRARY_PATH=str(BUILD / "sim"))
                       for node in ("n1", "n2")}
        for environment in self.boards.values():
            subprocess.run([BUILD / "flyball", "sim", "up", "--gpus", "8", "--model", "a100", "--workload", "gpt3-1.3b",
                            "--time-scale", "10"], env=environment, check=True, stdout=subprocess.DEVNULL)
        for node in self.boards:
            self.start_agent(node)
        (self.folder / "agents").write_text(f"n1 {self.agent.address[7:]}\nn2 {self.folder}/n2.sock\n")
        self.start_server()
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.stop(name)
        for environment in self.boards.values():
            subprocess.run([BUILD / "flyball", "sim", "down"], env=environment, check=False, stdout=subprocess.DEVNULL)
        self._folder.cleanup()

    def start(self, name, words, environment=None):
        log = (self.folder / f"{name}.log").open("w")
        self.processes[name] = subprocess.Popen([str(word) for word in words], env=environment, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=subprocess.STDOUT)
        return self.processes[name]

    def stop(self, name, how=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(how)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_agent(self, node):
        self.start(f"agent-{node}", [BUILD / "flyball", "agent", "--socket", self.folder / f"{node}.sock", "--state-dir",
                                     self.folder / f"{node}-state", "--token-file", self.folder / "agents-token",
                                     *(["--tcp", self.agent.address[7:], "--config", self.folder / "agent.toml"]
                                       if node == "n1" else ["--tcp", self.other_agent.address[7:]])],
                   self.boards[node])
        wait_until(f"the agent of {node}", (self.folder / f"{node}.sock").exists)

    @contextlib.contextmanager
    def controller(self, status):
        """Stands in for `flyball cluster run`, which needs Slurm: it answers with a status."""
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # the name is the library's
                good = self.path == "/v1/cluster/status"
                self.send_response(200 if good else 404)
                self.end_headers()
                self.wfile.write(json.dumps(status).encode() if good else b"")

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", self.controller_port), Answer) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

    def start_server(self):
        self.start("server", [BUILD / "flyball", "serve", "--listen", f"127.0.0.1:{self.port}", "--admin-token-file",
                              self.folder / "token", "--database", self.folder / "server.db", "--agents",
                              self.folder / "agents", "--agent-token-file", self.folder / "agents-token", "--price",
                              "0.3", "--carbon", "380", "--controller", f"127.0.0.1:{self.controller_port}"])
        wait_until("the server", lambda: self.ask("/healthz"))

    def start_training(self, job, *options, node="n1"):
        """On all GPUs of a node; its process is "training-" and the node's name."""
        return self.start(f"training-{node}", [
            BUILD / "pipeline_trainer", "--server", self.address, "--job", job, "--token", secrets.token_hex(20), "--clocks",
            self.folder / f"{node}.sock", "--data-parallel", "2", "--microbatches", "6", "--clock-stride", "16",
            "--steps-per-clock", "2", "--quiet", *options], self.boards[node])

    def ask(self, path, body=None, token=None):
        """What the server answers, in JSON; a body makes it a POST."""
        request = urllib.request.Request(self.address + path, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {token or self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error
        return json.loads(text) if text else None

    @contextlib.contextmanager
    def lease_of_n2(self):
        """Somebody has leased a GPU of the second node meanwhile."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.connect(str(self.folder / "n2.sock"))

            def ask(method, path, body):
                body = json.dumps(body)
                agent.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                head, _, told = agent.recv(65536).partition(b"\r\n\r\n")
                assert head.split()[1][:1] == b"2", head
                return json.loads(told or "{}")

            lease = ask("POST", "/v1/leases", {"gpus": [0], "heartbeat_timeout_s": 60})["id"]
            ask("PATCH", f"/v1/leases/{lease}/gpus/0", {"sm_clocks_mhz": {"minimum": 1005, "maximum": 1005}})
            yield

    def fault(self, node, *words):
        """Lets the node's first board fail, or takes it back."""
        subprocess.run([BUILD / "flyball", "sim", "fault", *words], env=self.boards[node], check=True)

    def request(self, path, method):
        """The status of an answer."""
        request = urllib.request.Request(self.address + path, method=method,
                                         headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status

    def job(self, name):
        return self.ask(f"/v1/jobs/{name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--straggler", default="1.3")
    options = parser.parse_args()
    with World() as world:
        world.start_training("night", "--windows", "1000", "--straggler", options.straggler, "--steps", "30")
        print(f"{world.address}/  token {world.token}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(60)


if __name__ == "__main__":
    main()

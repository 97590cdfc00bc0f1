"""Agent and planning server for Python tests, each a process of its own; and whether the machine keeps time."""

import http.client
import json
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager


@contextmanager
def started(words, address, environment, log):
    """A process that listens at a Unix socket."""
    process = subprocess.Popen(words, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(address)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise AssertionError(f"nobody listens: {log.read_text()}")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


class Standstill:
    """The share of short sleeps that end more than 5 ms late while this runs: whether the machine keeps time."""

    def __enter__(self):
        self._late = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self.share = sum(late > 0.005 for late in self._late) / max(1, len(self._late))

    def _watch(self):
        while not self._over.is_set():
            begin = time.monotonic()
            time.sleep(0.01)
            self._late.append(time.monotonic() - begin - 0.01)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(address, target, token):
    """What a server at a Unix socket answers to a GET, which has to succeed."""
    connection = _UnixConnection(address)
    connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    return json.loads(text)

"""HTTP by hand, for those who keep to it and those who do not: sockets to a planning server or an agent."""
import http.client
import json
import os
import socket
import struct


def become(uid):
    """This process belongs to that user from now on (an interpreter that only root may read stays usable)."""
    "localhost".encode("idna")  # loaded while this process may still read it
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


class Address:
    """Where a server listens: a TCP port of this machine or a Unix socket. `source` is the address that TCP comes from."""

    def __init__(self, where, source="127.0.0.1"):
        self.where, self.source = where, source

    def connect(self, timeout=10.0):
        if isinstance(self.where, int):
            return socket.create_connection(("127.0.0.1", self.where), timeout, (self.source, 0))
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            connection.connect(self.where)
        except BaseException:
            connection.close()
            raise
        return connection


class Client(http.client.HTTPConnection):
    """One kept connection. Answers are (status, JSON or text); what goes wrong on the way is an OSError or HTTPException."""

    def __init__(self, address, token=None, timeout=60.0):
        super().__init__("localhost", timeout=timeout)
        self.address, self.token = address, token

    def connect(self):
        self.sock = self.address.connect(self.timeout)

    def ask(self, method, target, body=None):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            self.request(method, target, None if body is None else json.dumps(body, ensure_ascii=False).encode(), headers)
            answer = self.getresponse()
            text = answer.read().decode()
        except BaseException:
            self.close()
            raise
        if "json" in answer.headers.get("Content-Type", ""):
            return answer.status, json.loads(text)
        return answer.status, text


def request_bytes(method, target, body=b"", headers=()):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def end_rudely(connection):
    """Ends a connection by a reset, as a process that is killed with unread data does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()

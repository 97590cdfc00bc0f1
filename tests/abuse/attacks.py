#!/usr/bin/env python3
"""Clients that mean harm or do it by mistake, at random, without end: `attacks.py server PORT` or `attacks.py agent SOCKET`.

Each attack is a function of its name; world.py starts, kills and starts again this process. Answers are read only where
an attack needs them: that the server holds up is judged by those who use it honestly (honest.py) and by session.py.
"""
import argparse
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
import traceback

from wire import Address, Client, become, end_rudely, request_bytes

TOKEN = "the_own_token_of_an_attacker_32_characters"
TARGETS = {
    "server": ["/v1/jobs", "/v1/jobs/steady", "/v1/jobs/steady/ranks", "/v1/jobs/steady/measurements",
               "/v1/jobs/steady/ranks/0/profiled", "/v1/jobs/steady/stragglers", "/v1/jobs/steady/steps",
               "/v1/jobs/steady/frontier", "/v1/jobs/steady/events", "/register_job", "/register_rank/steady",
               "/schedule/steady?rank=0", "/result/steady", "/metrics", "/healthz"],
    "agent": ["/v1/devices", "/v1/power", "/v1/leases", "/v1/leases/L1", "/v1/leases/L1/heartbeat",
              "/v1/leases/L1/gpus/0", "/v1/sessions", "/v1/gpus/0/clocks", "/metrics", "/healthz", "/discover",
              "/gpu/get_power", "/gpu/set_gpu_locked_clocks?gpu_ids=2&min_clock_mhz=210&max_clock_mhz=210&block=true",
              "/gpu/set_power_limit?gpu_ids=2&power_limit_mw=1&block=true", "/auth/whoami"],
}
# Of these, the ones that take a body.
BODIES = {kind: [target for target in targets if not any(word in target for word in (
    "frontier", "events", "schedule", "metrics", "healthz", "devices", "power?", "clocks?", "discover", "whoami"))]
          for kind, targets in TARGETS.items()}
VALUES = [None, True, -1, 0, 1, 2**31, 2**63 - 1, -2**63, 1e308, 5e-324, "", "a", "\x1b]0;owned\x07", "é" * 200,
          "\u202e", "../../etc/passwd", "x" * 5000, [], {}, [[]], [0] * 500]
FIELDS = ["id", "token", "stages", "microbatches", "rank", "dp_rank", "pp_rank", "tp_rank", "sequence", "measurements",
          "straggler", "degree", "delay_s", "gpus", "purpose", "timeout_s", "sm_clocks_mhz", "power_limit_w", "job_metadata",
          "pp_degree", "schedule", "planner", "instruction", "clock_mhz", "time_s", "energy_j", "samples", "binding"]


class Attacker:
    def __init__(self, kind, where, seed, log=None):
        self.kind, self.random, self.log = kind, random.Random(seed), log
        source = f"127.0.0.{self.random.randint(2, 5)}"
        self.address = Address(int(where) if kind == "server" else where, source)
        self.held = []  # connections that are kept open to be in the way

    def connect(self):
        return self.address.connect(2.0)

    def send(self, data, wait=True):
        """What comes back at first; nothing where the connection ended instead."""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                return connection.recv(4096) if wait else b""
            except OSError:
                return b""

    def ask(self, method, target, body=None, token=None, timeout=10.0):
        client = Client(self.address, token, timeout)
        try:
            return client.ask(method, target, body)
        finally:
            client.close()

    def name(self):
        return f"x{self.random.getrandbits(48):x}"

    def target(self):
        return self.random.choice(TARGETS[self.kind])

    # Both servers.

    def deep_json(self):
        depth = self.random.choice([65, 10_000, 100_000])
        whole = b"[" * depth + b"]" * depth
        body = self.random.choice([b"[" * depth, whole, b'{"a":' * depth + b"1" + b"}" * depth,
                                   b'{"' + self.random.choice(FIELDS).encode() + b'":' + whole + b"}"])
        self.send(request_bytes("POST", self.random.choice(BODIES[self.kind]), body))

    def broken_utf8(self):
        text = self.random.choice([b"\xc3", b"\xff\xfe", b"\xed\xa0\x80", b"a" * 255 + "é".encode(), b"\xf0\x9f\x98"])
        field = self.random.choice(FIELDS).encode()
        self.send(request_bytes("POST", self.random.choice(BODIES[self.kind]), b'{"' + field + b'":"' + text + b'"}'))

    def broken_http(self):
        chunk = b"%x\r\n" % self.random.choice([2**63, 2**64 - 1, 5])
        self.send(self.random.choice([
            self.random.randbytes(self.random.randint(1, 3000)),
            b"GET / HTTP/0.9\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n", b"\r\n" * 5000,
            request_bytes("GET", "/metrics", headers=["X: " + "y" * 100_000]),
            request_bytes("POST", "/v1/jobs", headers=["Content-Length: -1"]),
            request_bytes("POST", "/v1/jobs", headers=["Content-Length: 99999999999999999999"]),
            request_bytes("POST", self.target(), headers=["Transfer-Encoding: chunked"]) + chunk + b"hello",
            request_bytes("POST", self.target(), headers=["Transfer-Encoding: xchunked"]) +
            request_bytes("DELETE", "/v1/jobs/steady"),
            request_bytes("POST", self.target(), b"{}", ["Content-Length: 2", "Content-Length: 40"]),
            request_bytes("POST", self.target(), headers=["Expect: 100-continue", "Content-Length: 5"]),
        ]))

    def random_values(self):
        pick = self.random.choice
        body = {pick(FIELDS): pick(VALUES) for _ in range(self.random.randint(0, 8))}
        body = body if self.random.random() < 0.8 else pick(VALUES)
        method = pick(["POST", "POST", "PATCH", "PUT", "DELETE", "GET", "HEAD"])
        target = self.target()
        if method == "DELETE" or "events" in target or "power" in target:
            method = "POST"
        data = request_bytes(method, target, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        self.send(data)

    def slow_request(self):
        connection = self.connect()
        connection.sendall(request_bytes("POST", self.target(), b"{" + b" " * 50)[: self.random.randint(1, 100)])
        self.hold(connection)

    def many_connections(self):
        for _ in range(self.random.randint(50, 400)):
            self.hold(self.connect())

    def flood(self):
        data = request_bytes(self.random.choice(["GET", "POST"]), self.target()) * 300
        with self.connect() as connection:
            connection.settimeout(1.0)
            try:
                connection.sendall(data)
                for _ in range(100):
                    if not connection.recv(65536):
                        break
            except OSError:
                pass

    def hold(self, connection):
        self.held.append(connection)
        while len(self.held) > 600:
            held = self.held.pop(self.random.randrange(len(self.held)))
            if self.random.random() < 0.5:
                end_rudely(held)
            else:
                held.close()

    # The planning server.

    def zeus_job(self, metadata):
        """Two ranks, of which one is there: who asks for a schedule waits. The job's name."""
        _, job = self.ask("POST", "/register_job", {"job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1,
                                                    "world_size": 2, "job_metadata": metadata})
        if isinstance(job, str):
            self.ask("POST", f"/register_rank/{job}", {"rank": 0, "dp_rank": 0, "pp_rank": 0, "tp_rank": 0,
                                                       "available_frequencies": [1410, 1200]})
        return job

    def cut_metadata(self):
        # Whatever the first 256 bytes are cut to, one of these characters is cut apart.
        self.zeus_job("reports=yes microbatches=4 ".ljust(self.random.choice([253, 254, 255]), "a") + "é" * 3)

    def abandoned_polls(self):
        job = self.zeus_job("reports=yes microbatches=4 schedule=1f1b")
        for _ in range(self.random.randint(10, 200)):
            connection = self.connect()
            connection.sendall(request_bytes("GET", f"/schedule/{job}?rank=0"))
            if self.random.random() < 0.5:
                end_rudely(connection)
            else:
                connection.close()

    def registrations(self):
        client = Client(self.address, timeout=10.0)
        for _ in range(self.random.randint(20, 300)):
            client.ask("POST", "/v1/jobs", {"id": self.name(), "token": TOKEN, "stages": 2, "microbatches": 4})
        client.close()

    def own_job(self, stages, microbatches, clocks):
        job = self.name()
        client = Client(self.address, TOKEN, 30.0)
        status, _ = client.ask("POST", "/v1/jobs",
                               {"id": job, "token": TOKEN, "stages": stages, "microbatches": microbatches})
        if status >= 300:
            client.close()
            return None
        for rank in range(stages):
            client.ask("POST", f"/v1/jobs/{job}/ranks", {"rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0})
            client.ask("POST", f"/v1/jobs/{job}/measurements", {"rank": rank, "sequence": 0, "measurements": [
                {"instruction": instruction, "clock_mhz": 300 + k, "time_s": time_s * (2 - k / clocks),
                 "energy_j": 3 + k / clocks, "samples": 1}
                for instruction, time_s in (("forward", 0.01), ("backward", 0.02)) for k in range(clocks)]})
            client.ask("POST", f"/v1/jobs/{job}/ranks/{rank}/profiled", {})
        client.close()
        return job

    def huge_job(self):
        self.own_job(self.random.choice([16, 64]), self.random.choice([500, 2500]), 20)

    def many_clocks(self):
        self.own_job(1, 2, self.random.choice([1000, 5000]))

    def odd_stragglers(self):
        job = self.own_job(2, 4, 3)
        if job is None:
            return
        client = Client(self.address, TOKEN, 30.0)
        for sequence in (2**63 - 1, 2**63, 2**64, -1, 0, 1):
            client.ask("POST", f"/v1/jobs/{job}/stragglers",
                       {"straggler": "rack-\x1b[2J", "degree": self.random.choice([1.0, 1.2, 1e300]), "sequence": sequence})
        client.close()

    def unread_events(self):
        job = self.own_job(2, 4, 3)
        if job is None:
            return
        for _ in range(20):
            connection = self.connect()
            connection.sendall(request_bytes("GET", f"/v1/jobs/{job}/events", headers=[f"Authorization: Bearer {TOKEN}"]))
            self.hold(connection)

    # The agent.

    def streams(self):
        for _ in range(self.random.randint(5, 100)):
            connection = self.connect()
            connection.sendall(request_bytes("GET", "/v1/power?interval=1ms"))
            self.hold(connection)

    def leases(self):
        connection = self.connect()
        purpose = self.random.choice(["\x1b]0;owned\x07", "x" * 300, "é" * 100, "\n event=lease_ended lease=L1"])
        body = json.dumps({"gpus": [self.random.randint(0, 3)], "purpose": purpose,
                           "timeout_s": self.random.choice([0.01, 0.75, 60, 1e9])}).encode()
        connection.sendall(request_bytes("POST", "/v1/leases", body))
        answer = connection.recv(4096)
        if b" 201 " in answer:
            lease = json.loads(answer.split(b"\r\n\r\n", 1)[1])
            for gpu in lease["gpus"]:
                low = {"sm_clocks_mhz": {"minimum": 210, "maximum": 210}}
                connection.sendall(request_bytes("PATCH", f"/v1/leases/{lease['id']}/gpus/{gpu}", json.dumps(low).encode()))
        self.hold(connection)

    def others_leases(self):
        status, answer = self.ask("GET", "/v1/leases")
        found = answer.get("leases", []) if status == 200 and isinstance(answer, dict) else []
        names = [lease["id"] for lease in found] + ["L1", "L2", "L10"]
        for lease in names:
            self.ask("PATCH", f"/v1/leases/{lease}/gpus/2", {"sm_clocks_mhz": {"minimum": 210, "maximum": 210}})
            self.ask("POST", f"/v1/leases/{lease}/heartbeat")
            self.ask("DELETE", f"/v1/leases/{lease}")

    def sessions(self):
        for _ in range(20):
            self.ask("POST", "/v1/sessions", {"name": self.name(), "max_bytes": 2**62})

    def run(self):
        try:
            self.attack_for_ever()
        except BaseException:
            traceback.print_exc()
            os._exit(3)

    def attack_for_ever(self):
        names = {
            "server": ["cut_metadata", "abandoned_polls", "registrations", "huge_job", "many_clocks", "odd_stragglers",
                       "unread_events"],
            "agent": ["streams", "leases", "others_leases", "sessions"],
        }[self.kind] + ["deep_json", "broken_utf8", "broken_http", "random_values", "slow_request", "many_connections",
                        "flood"]
        while True:
            name = self.random.choice(names)
            if self.log:
                self.log.write(f"{name}\n")
            try:
                getattr(self, name)()
            except (OSError, http.client.HTTPException, ValueError):
                pass  # refused, cut off, or the server is being killed just now
            time.sleep(self.random.random() * 0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["server", "agent"])
    parser.add_argument("where")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--log", help="append the name of each attack to this file, before it is made")
    parser.add_argument("--uid", type=int, help="number of the user to become before the attacks")
    options = parser.parse_args()
    log = open(options.log, "a", buffering=1) if options.log else None
    if options.uid is not None:
        become(options.uid)
    threads = [threading.Thread(target=Attacker(options.kind, options.where, f"{options.seed}.{k}", log).run, daemon=True)
               for k in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    socket.setdefaulttimeout(10.0)
    sys.exit(main())

"""Those who use a planning server and an agent as they are meant to be used, and notice when they are not served."""
import http.client
import json
import subprocess
import sys
import threading
import time

from wire import Address, Client, become

TOKEN = "the_token_of_an_honest_job_32_characters"
STAGES = 4
# What the server or the agent may answer while its disk is full, its driver hangs or is slow, or it is just starting: come
# again. None of it is an answer to somebody who asks too much (429) or may not (403).
COME_AGAIN = {503, 504, 507}
LAST_QUESTIONS = 8  # of 30 s each


class Troubles:
    """What went wrong, for the end; and when something was being disturbed, which excuses delays and lost connections."""

    def __init__(self):
        self.lock, self.lines, self.disturbed_until, self.disturbances = threading.Lock(), [], 0.0, 0

    def add(self, text):
        with self.lock:
            self.lines.append(text)
        print(f"abuse: {text}", file=sys.stderr, flush=True)

    def disturb(self, seconds):
        """Called before a disturbance that lasts so long; its after-effects count as well."""
        with self.lock:
            self.disturbances += 1
            self.disturbed_until = max(self.disturbed_until, time.monotonic() + seconds)

    def calm_since(self, start, count):
        """Whether nothing was disturbed since `start`, when `count` disturbances had been begun."""
        with self.lock:
            return self.disturbances == count and self.disturbed_until < start


class SteadyJob:
    """A job of four stages that is planned once and then meets stragglers; every rank waits for its schedules."""

    def __init__(self, address, troubles):
        self.address, self.troubles = address, troubles
        self.stop, self.lock, self.arrived = threading.Event(), threading.Condition(), {}
        self.base, self.slow = {}, {}  # schedules by rank, without their version
        self.latencies, self.notices, self.schedules = [], 0, 0
        self.threads = []

    def begin(self):
        """Registers, reports and waits for the first plan."""
        client = Client(self.address, TOKEN)
        clocks = [(1410, 1.0, 300.0), (1305, 1.05, 265.0), (1200, 1.12, 240.0), (1005, 1.3, 215.0)]
        self.expect(client, "POST", "/v1/jobs", {"id": "steady", "token": TOKEN, "stages": STAGES, "microbatches": 8})
        for rank in range(STAGES):
            self.expect(client, "POST", "/v1/jobs/steady/ranks", {"rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0})
            self.expect(client, "POST", "/v1/jobs/steady/measurements", {"rank": rank, "sequence": 0, "measurements": [
                {"instruction": name, "clock_mhz": clock, "time_s": time_s * (1 + 0.1 * rank) * slower,
                 "energy_j": time_s * slower * power, "samples": 5}
                for name, time_s in (("forward", 0.01), ("backward", 0.02)) for clock, slower, power in clocks]})
            self.expect(client, "POST", f"/v1/jobs/steady/ranks/{rank}/profiled", {})
        for rank in range(STAGES):
            answer = self.expect(client, "GET", f"/v1/jobs/steady/ranks/{rank}/schedule?wait_s=60")
            self.base[rank] = self.clocks_of(answer)
            self.arrived[rank] = (answer["version"], time.monotonic())
        client.close()
        self.threads = [threading.Thread(target=self.poll, args=(rank,), daemon=True) for rank in range(STAGES)]
        self.threads.append(threading.Thread(target=self.notify, daemon=True))
        for thread in self.threads:
            thread.start()

    @staticmethod
    def expect(client, method, target, body=None):
        status, answer = client.ask(method, target, body)
        if status not in (200, 201, 204):
            raise RuntimeError(f"{method} {target}: {status} {answer}")
        return answer

    @staticmethod
    def clocks_of(schedule):
        return json.dumps({name: value for name, value in schedule.items() if "version" not in name}, sort_keys=True)

    def patiently(self, client, what, *request):
        """Asks until the answer is one of 200, 201, 204; other answers than COME_AGAIN's are troubles."""
        while not self.stop.is_set():
            try:
                status, answer = client.ask(*request)
            except (OSError, http.client.HTTPException):
                self.stop.wait(0.02)  # the server has been killed, or its connections were
                continue
            if status in (200, 201, 204):
                return status, answer
            if status not in COME_AGAIN:
                self.troubles.add(f"{what} was answered {status}: {answer}")
            self.stop.wait(0.05)
        return None, None

    def poll(self, rank):
        client = Client(self.address, TOKEN, 30.0)
        while not self.stop.is_set():
            version = self.arrived[rank][0]
            status, answer = self.patiently(client, f"rank {rank}'s question for its schedule", "GET",
                                            f"/v1/jobs/steady/ranks/{rank}/schedule?after_version={version}&wait_s=5")
            if status != 200:
                continue
            with self.lock:
                self.arrived[rank] = (answer["version"], time.monotonic())
                self.schedules += 1
                self.lock.notify_all()
            clocks = self.clocks_of(answer)
            if clocks != self.base[rank] and self.slow.setdefault(rank, clocks) != clocks:
                self.troubles.add(f"rank {rank} got a schedule that is neither its plan's nor its straggler's: {answer}")
        client.close()

    def notify(self):
        """Announces a straggler and its end, in turn."""
        client = Client(self.address, TOKEN, 30.0)
        sequence = 0
        while not self.stop.wait(0.3):
            sequence += 1
            count, start = self.troubles.disturbances, time.monotonic()
            degree = 1.25 if sequence % 2 else 1.0
            status, answer = self.patiently(client, "a straggler's notice", "POST", "/v1/jobs/steady/stragglers",
                                            {"straggler": "rack-7", "degree": degree, "sequence": sequence})
            if status is None:
                break
            self.notices += 1
            with self.lock:
                # Each rank's plan is another one from then on; 60 s is for the longest disturbance, with its retries.
                expected = max(version for version, _ in self.arrived.values()) if "version" not in answer else answer["version"]
                came = self.lock.wait_for(lambda: self.stop.is_set() or all(
                    version >= expected for version, _ in self.arrived.values()), 60.0)
                latest = max(moment for _, moment in self.arrived.values())
            if not came:
                self.troubles.add(f"not every rank had schedule {expected} a minute after its notice: {self.arrived}")
            elif self.troubles.calm_since(start, count) and latest > start:
                self.latencies.append(latest - start)
        client.close()

    def end(self):
        """Ends the threads, then asks for the plan once more: it must be the one of the beginning."""
        self.stop.set()
        with self.lock:
            self.lock.notify_all()
        for thread in self.threads:
            thread.join()
        self.stop.clear()
        client = Client(self.address, TOKEN)
        self.patiently(client, "the last notice", "POST", "/v1/jobs/steady/stragglers",
                       {"straggler": "rack-7", "degree": 1.0, "sequence": 2**40})
        for rank in range(STAGES):
            # A server that was killed just now may still be planning the job again: 204 until it has.
            for _ in range(LAST_QUESTIONS):
                status, answer = self.patiently(client, "the last question", "GET",
                                                f"/v1/jobs/steady/ranks/{rank}/schedule?wait_s=30")
                if status != 204:
                    break
            if status != 200 or self.clocks_of(answer) != self.base[rank]:
                self.troubles.add(f"rank {rank} has lost its plan: {answer} instead of {self.base[rank]}")
        client.close()


def hold_leases(socket_path, gpu):
    """A process that leases a GPU, sets its clocks and gives it back, again and again; a line of JSON for each."""
    highest = 1005.0
    while True:
        client = Client(Address(socket_path), timeout=30.0)
        start = time.monotonic()
        try:
            status, lease = client.ask("POST", "/v1/leases", {"gpus": [gpu], "purpose": "honest", "heartbeat_timeout_s": 5})
            step = "taking a lease"
            if status == 201:
                target = f"/v1/leases/{lease['id']}"
                step = "setting a clock"
                status, answer = client.ask("PATCH", f"{target}/gpus/{gpu}",
                                            {"sm_clocks_mhz": {"minimum": 210, "maximum": highest}})
                took = time.monotonic() - start
                for _ in range(3):
                    if status == 200:
                        time.sleep(0.1)
                        step = "a heartbeat"
                        status, answer = client.ask("POST", f"{target}/heartbeat")
                if status == 200:
                    step = "looking at the lease"
                    status, answer = client.ask("GET", target)
                    if status == 200 and f"{highest:g}" not in json.dumps(answer).replace(".0", ""):
                        print(json.dumps({"trouble": f"the lease is not what it was: {answer}"}), flush=True)
                if status == 200:
                    step = "giving back"
                    status, answer = client.ask("DELETE", target)
                lease = answer
            result = {"took_s": took} if status == 200 else {"step": step, "status": status, "answer": lease}
        except (OSError, http.client.HTTPException) as error:
            result = {"step": "connecting", "status": 0, "answer": str(error)}
        finally:
            client.close()
        print(json.dumps(result), flush=True)
        time.sleep(0.1)


class LeaseHolder:
    """hold_leases() in a process of its own, of another user where this one may."""

    def __init__(self, socket_path, gpu, uid, troubles):
        self.troubles, self.leases, self.excused, self.latencies = troubles, 0, 0, []
        self.process = subprocess.Popen([sys.executable, "-B", __file__, socket_path, str(gpu), str(uid)],
                                        stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        count, start = self.troubles.disturbances, time.monotonic()
        for line in self.process.stdout:
            result = json.loads(line)
            calm = self.troubles.calm_since(start, count)
            count, start = self.troubles.disturbances, time.monotonic()
            if "took_s" in result:
                self.leases += 1
                if calm:
                    self.latencies.append(result["took_s"])
            elif "trouble" in result:
                self.troubles.add(result["trouble"])
            elif calm and result["status"] not in COME_AGAIN:
                self.troubles.add(f"an honest user's lease failed while nothing was disturbed: {result}")
            else:
                self.excused += 1

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()


class Trainer:
    """The example trainer with two stages, started again whenever it is done; it must not fail. Its job is deleted then."""

    def __init__(self, build, port, agent, environment, log, troubles):
        self.address = Address(port)
        self.command = [str(build / "pipeline_trainer"), "--server", f"http://127.0.0.1:{port}", "--clocks", agent, "--token", TOKEN,
                        "--forward", "0.01,0.01", "--backward", "0.02,0.02", "--microbatches", "4", "--clock-stride", "20",
                        "--steps-per-clock", "1", "--steps", "3", "--straggler", "1", "--quiet"]
        self.environment, self.log, self.troubles = environment, log, troubles
        self.stop, self.runs, self.process = threading.Event(), 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            with open(self.log, "a") as log:
                self.process = subprocess.Popen(self.command + ["--job", f"trainer-{self.runs}"], env=self.environment,
                                                stdout=log, stderr=subprocess.STDOUT)
                status = self.process.wait()
            if self.stop.is_set():
                return
            if status != 0:
                self.troubles.add(f"the trainer ended with status {status}; see {self.log}")
                self.stop.wait(1.0)
            self.delete(f"trainer-{self.runs}")
            self.runs += 1

    def delete(self, job):
        client = Client(self.address, TOKEN, 30.0)
        while not self.stop.is_set():
            try:
                status, answer = client.ask("DELETE", f"/v1/jobs/{job}")
            except (OSError, http.client.HTTPException):
                status, answer = 503, None  # the server has been killed, or its connections were
            if status in (200, 204, 404):
                break
            if status not in COME_AGAIN:
                self.troubles.add(f"deleting {job} was answered {status}: {answer}")
                break
            self.stop.wait(0.05)
        client.close()

    def end(self):
        self.stop.set()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
        self.thread.join()


if __name__ == "__main__":
    if sys.argv[3] != "None":
        become(int(sys.argv[3]))
    hold_leases(sys.argv[1], int(sys.argv[2]))

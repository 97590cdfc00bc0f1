#!/usr/bin/env python3
"""A session of abuse: honest jobs use a planning server and an agent on simulated GPUs, while clients do them harm and
both are killed, stopped, denied the disk, or have a driver that hangs or a wall clock that jumps, at random.

    tests/abuse/session.py                    # half a minute, as a test
    make abuse                                # an hour, judged by speed and memory as well

Afterwards: neither process has ended but by our own kill, the honest job has the plan that it had at the beginning, every
notice reached every rank, honest leases were granted and kept, no descriptor and no clock is left behind.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from honest import LeaseHolder, SteadyJob, Trainer, Troubles
from wire import Address

HERE = pathlib.Path(__file__).resolve().parent
HONEST_UID, HOSTILE_UID = 61001, 61002  # of nobody
GPUS = 4
LEASED_GPU = 2  # the honest user's; everybody may take the last one
MOST_MEMORY_MB = 512
MOST_GROWTH_MB = 48  # of the peak in the last fifth of the time over that in the fifth before
TOTAL_OPERATIONS = 500_000  # of all jobs; few enough for the attackers to fill the server long before the end
# As /proc/net/tcp names them; CLOSE_WAIT means that the client has ended the connection.
TCP_STATES = {"01": "ESTABLISHED", "08": "CLOSE_WAIT", "0A": "LISTEN"}
NOTICE_S = 0.1  # that 99 % of the notices may take


class Service:
    """A process of ours that is killed and started again; it may not end by itself."""

    def __init__(self, name, command, environment, log, troubles, ready):
        self.name, self.command, self.environment, self.log, self.troubles, self.ready = (
            name, command, environment, log, troubles, ready)
        self.process, self.kills, self.most_memory = None, 0, 0
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            # In a session of its own: were it stopped just when the shell that started us ends, the kernel would hang it up.
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        deadline = time.monotonic() + 120
        while not self.answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"the {self.name} does not start (status {self.process.returncode}): {self.tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the {self.name} does not answer within two minutes of its start: {self.tail()}")
            time.sleep(0.02)

    def answers(self):
        try:
            with self.ready.connect(1.0):
                return True
        except OSError:
            return False

    def tail(self):
        return pathlib.Path(self.log).read_text(errors="replace")[-2000:]

    def check(self):
        """Whether it still runs; where not, it is told and started again."""
        if self.process.poll() is None:
            self.most_memory = max(self.most_memory, self.memory())
            return
        self.troubles.add(f"the {self.name} ended by itself with status {self.process.returncode}: {self.tail()}")
        self.start()

    def kill(self):
        self.kills += 1
        self.process.kill()
        self.process.wait()
        self.start()

    def memory(self):
        """Resident, in MB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0

    def take_most_memory(self):
        """The most memory since the last call, in MB."""
        most, self.most_memory = self.most_memory, 0
        return most

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def describe_descriptors(self):
        """How many there are of each kind: sockets by their state, the rest by what they are."""
        states = {}
        for line in pathlib.Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]:
            _, _, _, state, queues, _, _, _, _, inode, *_ = line.split()
            sending, received = (int(part, 16) > 0 for part in queues.split(":"))
            states[inode] = "TCP " + TCP_STATES.get(state, state) + (", bytes to send" if sending else "") + (
                ", bytes to read" if received else "")
        kinds = collections.Counter()
        for link in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                target = os.readlink(link)
            except OSError:
                continue  # closed just now
            kind, _, inode = target.partition(":[")
            kinds[states.get(inode.rstrip("]"), kind) if kind == "socket" else kind] += 1
        return ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common())

    def pause(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def fill_disk(self, seconds):
        """As a disk that has no room: no file of the process may grow."""
        before = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        time.sleep(seconds)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, before)

    def end(self):
        self.process.terminate()
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.troubles.add(f"the {self.name} does not end within a minute: {self.tail()}")
            self.process.kill()
            return
        if status != 0:
            self.troubles.add(f"the {self.name} ended with status {status}: {self.tail()}")


class Session:
    def __init__(self, options):
        self.options, self.random, self.troubles = options, random.Random(options.seed), Troubles()
        self.build = pathlib.Path(options.build).resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="flyball-abuse-"))
        self.folder.chmod(0o755)  # the sockets are for other users, too
        self.root = os.geteuid() == 0
        self.environment = dict(os.environ, FLYBALL_SIM=f"abuse-{os.getpid()}", FLYBALL_SIM_PRIVILEGED="1",
                                LD_LIBRARY_PATH=str(self.build / "sim") + os.pathsep + os.environ.get("LD_LIBRARY_PATH", ""))
        self.flyball = str(self.build / "flyball")
        # The services get a wall clock that can be set; their other clocks stay the machine's.
        self.wall_clock = None if options.no_clock_jumps else self.folder / "wall-clock"
        self.service_environment = dict(self.environment)
        if self.wall_clock:
            self.service_environment |= {"LD_PRELOAD": str(self.build / "tests" / "stubs" / "libwall_clock_stub.so"),
                                         "FLYBALL_WALL_CLOCK": str(self.wall_clock)}
        self.attackers = {}

    def set_wall_clock(self, seconds):
        """From now on the services' wall clock is so many seconds ahead of the machine's."""
        with open(self.wall_clock, "r+b" if self.wall_clock.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))  # in place, for it is mapped

    def sim(self, *arguments):
        return subprocess.run([self.flyball, "sim", *arguments], env=self.environment, check=True, text=True,
                              capture_output=True).stdout

    def check_wall_clock(self):
        self.set_wall_clock(86400)
        told = float(subprocess.run(["date", "+%s"], env=self.service_environment, check=True, capture_output=True).stdout)
        if not 86000 < told - time.time() < 86800:
            raise RuntimeError(f"the services' wall clock cannot be set: {told:.0f} is not a day ahead")
        self.set_wall_clock(0)

    def start(self):
        if self.wall_clock:
            self.check_wall_clock()
        self.sim("up", "--gpus", str(GPUS), "--time-scale", "10")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        agent_socket = str(self.folder / "agent.sock")
        config = self.folder / "agent.toml"
        users = f"[0, {HONEST_UID}]" if self.root else f"[{os.geteuid()}]"
        config.write_text(f'socket = "{agent_socket}"\nstate_dir = "{self.folder / "agent"}"\n[access.gpu]\n' +
                          "".join(f"{gpu} = {users}\n" for gpu in range(GPUS - 1)))
        self.agent = Service("agent", [self.flyball, "agent", "--config", str(config)], self.service_environment,
                             self.folder / "agent.log", self.troubles, Address(agent_socket))
        self.server = Service("server", [self.flyball, "serve", "--listen", f"127.0.0.1:{port}", "--database",
                                         str(self.folder / "server.db"), "--total-operations", str(TOTAL_OPERATIONS)],
                              self.service_environment, self.folder / "server.log", self.troubles, Address(port))
        self.attack_commands = {"server": ["server", str(port)], "agent": ["agent", agent_socket]}
        if not self.root:
            # The agent shares itself out by user, and these would be one with the honest ones.
            del self.attack_commands["agent"]
            print("not root: nobody attacks the agent")
        self.port, self.agent_socket = port, agent_socket

    def attack(self, kind):
        user = ["--uid", str(HOSTILE_UID)] if self.root else []
        command = [sys.executable, "-B", str(HERE / "attacks.py"), *self.attack_commands[kind], *user, "--seed",
                   str(self.random.getrandbits(32)), "--threads", str(self.options.threads), "--log", str(self.folder / f"attacks-{kind}.log")]
        self.attackers[kind] = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def stop_attack(self, kind):
        self.attackers[kind].kill()
        self.attackers[kind].wait()

    def disturb(self):
        """One thing that goes wrong without anybody's ill will."""
        kinds = ["kill server", "kill agent", "pause server", "pause agent", "disk of server", "disk of agent", "driver",
                 "kill attackers"]
        if self.wall_clock:
            kinds.append("wall clock")
        kind = self.random.choice(kinds)
        seconds = self.random.uniform(0.1, 2.0)
        self.troubles.disturb(seconds + 10.0)  # connections come back, leases run out
        service = self.server if "server" in kind else self.agent
        if kind == "wall clock":
            self.set_wall_clock(self.random.choice([30 * 86400, -30 * 86400, 3600, 0]))
        elif kind == "kill attackers":
            for name in self.attackers:
                self.stop_attack(name)
                self.attack(name)
        elif kind.startswith("kill"):
            service.kill()
        elif kind.startswith("pause"):
            service.pause(seconds)
        elif kind.startswith("disk"):
            service.fill_disk(seconds)
        else:
            gpu = str(self.random.randrange(GPUS))
            self.sim("fault", "--gpu", gpu, f"hang:nvmlDeviceSetGpuLockedClocks={seconds:.1f}")
            time.sleep(seconds)
            self.sim("fault", "--gpu", gpu, "--clear")
        self.troubles.disturb(10.0)
        return kind

    def run(self):
        options, troubles = self.options, self.troubles
        steady = SteadyJob(Address(self.port), troubles)
        steady.begin()
        holder = LeaseHolder(self.agent_socket, LEASED_GPU, HONEST_UID if self.root else None, troubles)
        trainer = Trainer(self.build, self.port, self.agent_socket, self.environment,
                          self.folder / "trainer.log", troubles)
        begin = time.monotonic()
        disturbances = []
        memory = []  # by fifth of the time: the most of each service
        try:
            for kind in self.attack_commands:
                self.attack(kind)
            next_disturbance = begin + options.every
            while (elapsed := time.monotonic() - begin) < options.seconds:
                time.sleep(0.2)
                self.agent.check()
                self.server.check()
                for name, attacker in self.attackers.items():
                    if attacker.poll() is not None:
                        raise RuntimeError(f"the attackers of the {name} ended by themselves")
                # The last half is for memory: nothing is killed in it.
                if elapsed < options.seconds / 2 and time.monotonic() > next_disturbance:
                    disturbances.append(self.disturb())
                    next_disturbance = time.monotonic() + self.random.uniform(0.5, 1.5) * options.every
                if elapsed > options.seconds * 0.2 * (len(memory) + 1):
                    memory.append({service: service.take_most_memory() for service in (self.agent, self.server)})
                if sys.stderr.isatty():
                    print(f"\r{elapsed:6.0f} of {options.seconds:g} s, {len(disturbances)} disturbances, "
                          f"{steady.notices} notices, {holder.leases} leases, {trainer.runs} trainings", end="",
                          file=sys.stderr, flush=True)
        finally:
            for kind in self.attackers:
                self.stop_attack(kind)
            trainer.end()
            holder.end()
            steady.end()
        memory.append({service: service.take_most_memory() for service in (self.agent, self.server)})
        self.judge(steady, holder, trainer, disturbances, memory)

    def judge(self, steady, holder, trainer, disturbances, memory):
        troubles = self.troubles
        for service in (self.agent, self.server):
            deadline = time.monotonic() + 120  # idle connections are closed after their time limit at the latest
            while service.descriptors() > 100 and time.monotonic() < deadline:
                time.sleep(0.2)
            if service.descriptors() > 100:
                troubles.add(f"the {service.name} still has {service.descriptors()} descriptors after everybody has left: "
                             f"{service.describe_descriptors()}")
        print(f"descriptors at the end: the agent {self.agent.descriptors()}, the server {self.server.descriptors()} "
              f"({self.server.describe_descriptors()})")
        if steady.notices == 0 or holder.leases == 0:
            troubles.add(f"nobody was served: {steady.notices} notices, {holder.leases} leases")
        slowest = sorted(steady.latencies)
        at_99 = slowest[int(0.99 * len(slowest))] if slowest else float("nan")
        print(f"\n{len(disturbances)} disturbances: " + ", ".join(
            f"{disturbances.count(kind)} x {kind}" for kind in sorted(set(disturbances))))
        print(f"{steady.notices} notices, {steady.schedules} schedules; {len(slowest)} notices at calm times, "
              f"99 % within {1000 * at_99:.0f} ms, the slowest {1000 * max(slowest, default=float('nan')):.0f} ms")
        print(f"{holder.leases} leases of an honest user, {holder.excused} that a disturbance cut short; {trainer.runs} trainings")
        for kind in self.attack_commands:
            names = collections.Counter((self.folder / f"attacks-{kind}.log").read_text().split())
            print(f"{names.total()} attacks on the {kind}: " + ", ".join(f"{n} x {name}" for name, n in sorted(names.items())))
        for service in (self.agent, self.server):
            print(f"the {service.name}: killed {service.kills} times; the most memory in each fifth of the time was "
                  + ", ".join(f"{most[service]:.0f}" for most in memory) + " MB")
        if self.options.judge_speed:
            if not at_99 <= NOTICE_S:
                troubles.add(f"99 % of the notices took up to {1000 * at_99:.0f} ms, not {1000 * NOTICE_S:.0f} ms")
            for service in (self.agent, self.server):
                of_service = [most[service] for most in memory]
                if max(of_service) > MOST_MEMORY_MB:
                    troubles.add(f"the {service.name} took {max(of_service):.0f} MB")
                # It goes up and down with the plan that is being made, and in the first half with kills.
                before, last = of_service[-2:]
                if last > before + MOST_GROWTH_MB:
                    troubles.add(f"the {service.name} has grown from {before:.0f} to {last:.0f} MB")

    def end(self):
        for name in ("agent", "server"):
            if hasattr(self, name):
                getattr(self, name).end()
        left = [gpu for gpu in json.loads(self.sim("status", "--format", "json"))["gpus"] if gpu["locked"]]
        if left:
            self.troubles.add(f"clocks were left behind: {left}")
        self.sim("down")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("FLYBALL_BUILD", HERE.parent.parent / "build"))
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the session (default 30)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two disturbances, about (default 3)")
    parser.add_argument("--threads", type=int, default=2, help="attackers of the server, and of the agent (default 2)")
    parser.add_argument("--seed", type=int, help="seed of the random choices (default: another one each time, printed)")
    parser.add_argument("--no-clock-jumps", action="store_true", help="never set the machine's wall clock")
    parser.add_argument("--judge-speed", action="store_true", help="fail for slow notices and for memory, too")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    options = parser.parse_args()
    options.seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(31)
    print(f"a session of abuse of {options.seconds:g} s, --seed {options.seed}", flush=True)
    session = Session(options)
    try:
        session.start()
        session.run()
    except RuntimeError as error:
        session.troubles.add(str(error))
    finally:
        session.end()
    found = len(session.troubles.lines)
    if found == 0 and not options.keep:
        shutil.rmtree(session.folder)
    else:
        print(f"logs: {session.folder}")
    print(f"{found} troubles" if found else "no trouble")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

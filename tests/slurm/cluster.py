"""A real Slurm of four nodes on this machine, in a folder of its own: munge, slurmctld and four slurmd with four GPUs
each, which are character devices that nothing opens. Debian's packages slurmctld, slurmd, slurm-client and munge; as
root, since Slurm starts jobs as their users and munge runs as its own.
"""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time

NODES = ["n1", "n2", "n3", "n4"]
PROGRAMS = ["munged", "slurmctld", "slurmd", "squeue", "sinfo", "scontrol", "sbatch", "scancel"]

# cred_expire: a job that was put back may start again only after this and a second. DefMemPerCPU: without it a job takes
# all memory of its nodes, and no two share one.
SLURM_CONF = """
ClusterName=flyball
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
ReturnToService=2
GresTypes=gpu
KillWait=5
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1,bf_resolution=1,batch_sched_delay=0
NodeName=n[1-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 RealMemory=4000 Gres=gpu:a100:4
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """Says what is missing, or nothing."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install slurmctld slurmd slurm-client munge"
    if os.geteuid() != 0:
        return "a Slurm of one's own takes root"
    return ""


def free_ports(count):
    """The first of as many ports in a row that nobody listens on."""
    for first in range(26000 + os.getpid() % 2000 * 3, 64000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise OSError("no free ports")


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o755)
        munge = self.folder / "munge"
        for name in ("munge", "state", "spool", "log", "dev"):
            (self.folder / name).mkdir()
        user = pwd.getpwnam("munge")
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for path in (munge, key):
            os.chown(path, user.pw_uid, user.pw_gid)
        for index in range(4):
            os.mknod(self.folder / f"dev/gpu{index}", 0o666 | 0o020000, os.makedev(1, 3))
        port = free_ports(5)
        conf = self.folder / "slurm.conf"
        conf.write_text(SLURM_CONF.format(folder=self.folder, port=port, first=port + 1, last=port + 4))
        (self.folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName=n[1-4] Name=gpu Type=a100 File={self.folder}/dev/gpu[0-3]\n")
        self.environment = os.environ | {"SLURM_CONF": str(conf)}
        # In the foreground, so that they are our children and end by their ids.
        self.processes = [self.begin(
            ["munged", "--foreground", f"--key-file={key}", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
             f"--log-file={munge}/log", f"--seed-file={munge}/seed"], user=user.pw_uid, group=user.pw_gid)]
        self.until(lambda: (munge / "socket").exists(), 10, "munged")
        self.processes.append(self.begin(["slurmctld", "-D", "-f", str(conf)]))
        self.until(lambda: "is UP" in self.run("scontrol", "ping", check=False), 20, "slurmctld")
        for node in NODES:
            self.processes.append(self.begin(["slurmd", "-D", "-N", node, "-f", str(conf)]))
        self.until(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "4", 60, "four idle nodes")

    def begin(self, command, **options):
        log = (self.folder / "log" / (command[0] + ".out")).open("ab")
        extra = {"extra_groups": []} if "user" in options else {}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                env=self.environment, **options, **extra)

    def run(self, *command, check=True):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    @staticmethod
    def until(is_so, seconds, what):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not after {seconds} s")
            time.sleep(0.1)

    def close(self):
        """Jobs first, then nodes, then what they need."""
        try:
            self.run("scancel", "--full", "--user=root", check=False)
            self.until(lambda: not self.run("squeue", "-h", "-t", "R,CG", check=False).strip(), 15, "no jobs")
        except (TimeoutError, subprocess.TimeoutExpired):
            pass  # what is left of them ends below
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

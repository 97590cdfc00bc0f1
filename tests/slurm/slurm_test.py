#!/usr/bin/env python3
"""A real Slurm with the plugin of packaging/slurm, its prolog and epilog, and an elastic job that is stopped by a controller
(a small HTTP server here), queued again with another size, and goes on from its checkpoint. Another one reports to
`flyball cluster run` over TLS, where nobody else can report for it.

Starts the cluster of scripts/slurm_demo. Skipped (status 77), and said so, where Slurm or the plugin is missing: `make slurm`
installs and builds what it needs.
"""

import csv
import getpass
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from http.server import BaseHTTPRequestHandler

from cluster import BUILD, DEMO, SKIPPED, SOURCE, missing, up


def boards_of(details):
    """Boards by node of `scontrol show job -d`: {"n1": [0, 1]}."""
    boards = {}
    for nodes, indices in re.findall(r"\bNodes=(\S+) .*?GRES=\S*?\(IDX:([\d,-]+)\)", details):
        numbers = []
        for part in indices.split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
        first, _, last = nodes.replace("n", "").strip("[]").partition("-")
        boards.update({f"n{number}": numbers for number in range(int(first), int(last or first) + 1)})
    return boards


class Controller(socketserver.ThreadingUnixStreamServer):
    """Hears reports at the address that the plugin gives to jobs."""

    daemon_threads = True

    def __init__(self, path):
        self.heard, self.stop = [], False
        super().__init__(path, Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Observer:
    """`flyball cluster run --observe` on TCP with TLS, and what jobs need to report to it in plugstack.conf."""

    def __init__(self, cluster):
        self.cluster, folder = cluster, cluster.folder
        self.secret, self.certificate, key = (folder / name for name in ("job.secret", "controller.pem", "controller.key"))
        self.secret.write_text(secrets.token_hex(32) + "\n")
        self.secret.chmod(0o600)
        cluster.ask("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=controller", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    self.certificate)
        self.address = f"https://127.0.0.1:{DEMO.free_ports(1)[0]}"
        self.plugstack = folder / "plugstack.conf"
        self.before = self.plugstack.read_text()
        self.plugstack.write_text(f"required {BUILD}/slurm/flyball_spank.so cluster={self.address} ca={self.certificate} "
                                  f"secret={self.secret}\n")
        self.log = folder / "log" / "controller.out"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [BUILD / "flyball", "cluster", "run", "--observe", "--budget", "20kW", "--period", "200ms", "--listen",
                 self.address.removeprefix("https://"), "--tls-cert", self.certificate, "--tls-key", key,
                 "--job-secret-file", self.secret, "--database", folder / "controller.db"],
                env=cluster.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def iteration(self, number):
        """That the controller has heard of a job; None where it does not know it."""
        said = self.cluster.ask(str(BUILD / "flyball"), "cluster", "status", "--controller", self.address, "--ca-file",
                                str(self.certificate), "--format", "json", check=False)
        jobs = json.loads(said)["jobs"] if said.startswith("{") else []
        return next((job["iteration"] for job in jobs if job["job"] == number), None)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.plugstack.write_text(self.before)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "a job"

    def do_POST(self):
        report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append((self.path, report))
        body = json.dumps({"stop": self.server.stop}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="flyball-slurm-test-")
        os.rmdir(cls.folder)
        cls.cluster = up(cls.folder)
        cls.addClassCleanup(cls.stop)

    @classmethod
    def stop(cls):
        assert cls.cluster.stop(), "something of the cluster is left"

    def ask(self, *words, **more):
        return self.cluster.ask(*map(str, words), **more)

    def job(self, number):
        return dict(re.findall(r"(\S+?)=(\S*)", self.ask("scontrol", "show", "job", "-o", number)))

    def submit(self, *words):
        return int(self.ask("sbatch", "--parsable", f"--output={self.folder}/log/job-%j.out", *words))

    def output(self, number):
        return pathlib.Path(self.folder, "log", f"job-{number}.out").read_text()

    def wait(self, what, condition):
        DEMO.wait_until(what, 120, condition)

    def ended(self, number):
        self.wait(f"the end of job {number}", lambda: self.job(number)["JobState"] == "COMPLETED")

    def test_the_option_becomes_the_comment_and_the_job_is_told_where_to_report(self):
        script = pathlib.Path(self.folder, "says.sh")
        script.write_text("#!/bin/sh\necho cluster=$FLYBALL_CLUSTER\nsrun sh -c 'echo step=$FLYBALL_CLUSTER'\n")
        number = self.submit("--flyball=elastic,max=8,shrinks,kind=bert-1.3b,iterations=5000", script)
        self.assertEqual(self.job(number)["Comment"], "flyball:elastic,kind=bert-1.3b,iterations=5000,min=1,max=8,shrinks")
        self.ended(number)
        self.assertEqual(self.output(number).split(), [f"cluster={self.cluster.controller}",
                                                       f"step={self.cluster.controller}"])

    def test_srun_has_the_option_too_and_jobs_without_it_are_left_alone(self):
        words = ("sh", "-c", "scontrol show job $SLURM_JOB_ID -o; echo cluster=$FLYBALL_CLUSTER")
        said = self.ask("srun", "--flyball=elastic,kind=a,iterations=7,min=2,max=4", *words)
        self.assertIn("Comment=flyball:elastic,kind=a,iterations=7,min=2,max=4 ", said)
        self.assertIn(f"cluster={self.cluster.controller}\n", said)
        said = self.ask("srun", "--comment=mine", *words)
        self.assertIn("Comment=mine ", said)
        self.assertTrue(said.endswith("cluster=\n"), said)

    def test_a_job_that_another_submits_has_an_option_of_its_own_or_none(self):
        script = pathlib.Path(self.folder, "submits.sh")
        script.write_text("#!/bin/sh\nfor option in --comment=mine --flyball=elastic,kind=b,iterations=9,max=2; do\n"
                          "  number=$(sbatch --parsable -o /dev/null $option --wrap true)\n"
                          "  scontrol show job $number | sed -n 's/ *Comment=//p'\ndone\n")
        number = self.submit("--flyball=elastic,kind=a,iterations=5,max=2", script)
        self.ended(number)
        self.assertEqual(self.output(number).split(), ["mine", "flyball:elastic,kind=b,iterations=9,min=1,max=2"])

    def test_wrong_values_are_refused_with_the_reason(self):
        right = "elastic,kind=a,iterations=7,max=4"
        for option, reason in [
            ("", 'has to begin with "elastic"'),
            ("rigid,kind=a", 'has to begin with "elastic"'),
            ("elastic", "kind is missing"),
            ("elastic,kind=a,max=4", "iterations is missing"),
            ("elastic,kind=a,iterations=7", "max is missing"),
            ("elastic,kind=a/b,iterations=7,max=4", 'kind is "a/b"'),
            ("elastic,kind=,iterations=7,max=4", 'kind is ""'),
            (f"elastic,kind={'k' * 65},iterations=7,max=4", "1 to 64 letters"),
            ("elastic,kind=a,iterations=0,max=4", 'iterations is "0"'),
            ("elastic,kind=a,iterations=7.5,max=4", 'iterations is "7.5"'),
            ("elastic,kind=a,iterations=-7,max=4", 'iterations is "-7"'),
            ("elastic,kind=a,iterations=99999999999999999999,max=4", "whole number from 1 to"),
            (right + ",min=5", "min is 5, which is more than max, 4"),
            (right + ",speed=5", 'there is no "speed"'),
            (right + ",", 'there is no ""'),
            (right + ",max=8", "max is given twice"),
            (right + ",kind=a", "kind is given twice"),
            (right + ",shrinks,shrinks", "shrinks is given twice"),
            (right + ",shrinks=1", 'there is no "shrinks"'),
            ("pipeline,kind=a,iterations=7,shrinks", "a pipeline does not shrink"),
        ]:
            with self.subTest(option=option):
                said = self.ask("sbatch", f"--flyball={option}", "--wrap=true", check=False)
                self.assertIn(reason, said)
                self.assertNotIn("Submitted", said)
        said = self.ask("sbatch", f"--flyball={right}", "--comment=mine", "--wrap=true", check=False)
        self.assertIn("leave --comment out", said)
        self.assertNotIn("Submitted", said)

    def test_the_epilog_tells_the_joules_of_a_job_on_each_of_its_nodes(self):
        flyball = BUILD / "flyball"
        script = pathlib.Path(self.folder, "works.sh")
        script.write_text("#!/bin/sh\nsrun --ntasks=2 sh -c '"
                          f"{flyball} sim work --gpu ${{CUDA_VISIBLE_DEVICES%%,*}} --seconds 2'\n")
        number = self.submit("--nodes=2", "--gpus-per-node=2", script)
        self.wait("the job", lambda: self.job(number)["JobState"] == "RUNNING")
        boards = boards_of(self.ask("scontrol", "show", "job", "-d", "-o", number))
        self.ended(number)
        table = pathlib.Path(self.folder, "log", "jobs.csv")

        def rows():
            lines = csv.DictReader(table.read_text().splitlines()) if table.exists() else []
            return [row for row in lines if int(row["job"]) == number]

        self.wait("the epilogs", lambda: len(rows()) == 2)
        self.assertEqual({row["node"]: [int(gpu) for gpu in row["gpus"].split()] for row in rows()}, boards)
        self.assertEqual(len(boards), 2)
        for row in rows():
            self.assertEqual((row["user"], row["partition"], row["kind"]), (getpass.getuser(), "gpus", ""))
            self.assertEqual(len(row["gpus"].split()), 2)
            self.assertGreater(float(row["seconds"]), 1)
            # Two simulated A100s: idle 45 W each, and 300 W at most (data/devices); boards differ by 3 %, their counters
            # by 5 %, and a counter shows what had flowed up to 40 ms before.
            watts = float(row["energy_j"]) / float(row["seconds"])
            self.assertGreater(watts, 2 * 45 * 0.97 * 0.95 * 0.96)
            self.assertLess(watts, 2 * 300 * 1.03 * 1.05 * 1.04)

    def test_a_job_that_is_queued_again_has_its_joules_in_its_admin_comment(self):
        number = self.submit("--nodes=2", "--gpus-per-node=1", "--flyball=elastic,kind=toy-2,iterations=3,max=4",
                             "--wrap=sleep 300")
        self.wait("the job", lambda: self.job(number)["JobState"] == "RUNNING")
        self.ask("scontrol", "update", f"JobId={number}", "AdminComment=somebody's note")
        self.ask("scontrol", "requeuehold", number)
        comment = lambda: self.ask("squeue", "-h", "-j", number, "-O", "admin_comment:200").strip()
        self.wait("the comment", lambda: "flyball:" in comment())
        self.assertRegex(comment(), r"^somebody's note;flyball:energy_j=[\d.]+,mean_w=[\d.]+,run_s=[\d.]+$")
        row = self.report(number)
        self.assertEqual((row["jobs"], row["lines"], row["kind"]), (1, 2, "toy-2"))
        self.assertIn(f"energy_j={row['energy_j']:.1f},mean_w={row['mean_w']:.1f},", comment())
        first = row["energy_j"]

        # Once more: the sum of both runs takes the place of the first one's.
        self.ask("scontrol", "release", number)
        self.wait("the job", lambda: self.job(number)["JobState"] == "RUNNING")
        self.ask("scontrol", "requeuehold", number)
        self.wait("four lines", lambda: self.report(number)["lines"] == 4)
        row = self.report(number)
        self.assertGreater(row["energy_j"], first)
        self.wait("the comment", lambda: f"flyball:energy_j={row['energy_j']:.1f}," in comment())
        self.assertEqual(comment().count("flyball:"), 1)
        self.assertTrue(comment().startswith("somebody's note;"))
        self.ask("scancel", number)

    def report(self, number):
        said = self.ask(BUILD / "flyball", "cluster", "report", "--by", "job", "--format", "json",
                        f"{self.folder}/log/jobs.csv")
        return next(row for row in json.loads(said)["rows"] if row["job"] == number)

    def test_an_elastic_job_goes_on_with_another_number_of_gpus(self):
        words, missing = DEMO.elastic_job(self.cluster, 100000)
        if missing:
            self.skipTest(missing)
        controller = Controller(self.cluster.controller.removeprefix("unix:"))
        self.addCleanup(controller.server_close)
        self.addCleanup(controller.shutdown)
        iterations = words.index(100000)
        number = self.submit(*words)
        # Iterations are numbered through, and whether rank 0 of four hears of the stop decides for all.
        self.wait("reports", lambda: len(controller.heard) >= 2)
        self.assertEqual(controller.heard[0][0], f"/v1/cluster/jobs/{number}/report")
        self.assertEqual(controller.heard[0][1]["gpus"], 4)
        self.assertEqual(controller.heard[0][1]["iterations"], 100000)
        controller.stop = True
        self.ended(number)
        first = json.loads(self.output(number).splitlines()[-2])
        self.assertEqual((first["first"], first["ranks"], first["stopped"]), (0, 4, True))
        self.assertGreaterEqual(first["done"], controller.heard[-1][1]["iteration"])

        # What `flyball cluster run` does then: once more, on three nodes of two GPUs.
        controller.heard.clear()
        controller.stop = False
        self.ask("scontrol", "requeue", number)
        self.wait("the queue", lambda: self.job(number)["JobState"] == "PENDING")
        self.ask("scontrol", "update", f"JobId={number}", "NumNodes=3-3", "NumTasks=3", "NumCPUs=3", "StartTime=now+2")
        self.assertTrue(self.job(number)["Comment"].startswith("flyball:elastic,kind=toy,"))
        self.wait("reports", lambda: len(controller.heard) >= 2)
        self.assertEqual(controller.heard[0][1]["gpus"], 6)
        self.assertGreater(controller.heard[0][1]["iteration"], first["done"])
        controller.stop = True
        self.ended(number)
        second = json.loads(self.output(number).splitlines()[-2])
        self.assertEqual((second["first"], second["ranks"], second["stopped"]), (first["done"], 6, True))
        self.assertLess(second["loss"], first["loss"] * 2)  # it has not begun anew


    def test_a_job_reports_over_tls_and_no_other_can_report_for_it(self):
        observer = Observer(self.cluster)
        self.addCleanup(observer.stop)
        shared = pathlib.Path(self.folder, "shared")
        shared.mkdir()
        shared.chmod(0o777)
        option = "--flyball=elastic,kind=tls,iterations=1000,max=4"
        script = pathlib.Path(__file__).resolve().parent / "reporting_job.py"
        number = self.submit("--gpus-per-node=1", option, script, shared, BUILD)
        self.wait("a report", lambda: observer.iteration(number) == 5)
        # Another user's job where this runs as root, else another job of the same user.
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        other = int(subprocess.run(["sbatch", "--parsable", "--output=/dev/null", "--gpus-per-node=1", option, script, shared,
                                    BUILD, str(number)], env=self.cluster.environment, cwd="/", check=True, text=True,
                                   stdout=subprocess.PIPE, **nobody).stdout)
        self.ended(other)
        tried = json.loads(shared.joinpath(f"{other}.json").read_text())
        self.assertEqual({name: tried[name][0] for name in ("own", "other", "without", "made up")},
                         {"own": 200, "other": 403, "without": 401, "made up": 403})
        self.assertIn(f"this is not the token of job {number}", tried["other"][1])
        if nobody:
            self.assertEqual(tried["readable"], [])
        token = tried["token"]
        self.assertTrue(token.startswith("65534." if nobody else f"{os.getuid()}."), token)
        # By another program; and no command of Slurm shows it.
        code = self.ask("sh", "-c", f"printf 'flyball job {other} of user {token.split('.')[0]}' | "
                                    f"openssl dgst -sha256 -hmac $(cat {observer.secret})").split()[-1]
        self.assertEqual(token.split(".")[1], code)
        for words in (["scontrol", "show", "job", "-d", other], ["squeue", "--json"], ["scontrol", "show", "config"]):
            self.assertNotIn(code, self.ask(*words))
        shared.joinpath("stop").touch()
        self.ended(number)
        self.wait("the controller to see the end", lambda: observer.iteration(number) is None)
        self.assertNotRegex(self.output(number), "answered 40[13]")  # what the library had to complain of
        # A job without the option has no token, also where an elastic one has submitted it.
        says = self.folder + "/token.sh"
        pathlib.Path(says).write_text("#!/bin/sh\necho token=$FLYBALL_JOB_TOKEN\n")
        with unittest.mock.patch.dict(self.cluster.environment, FLYBALL_JOB_TOKEN=token):
            plain = self.submit(says)
        self.ended(plain)
        self.assertEqual(self.output(plain), "token=\n")
        # Nor has one where others can read the secret; it runs all the same, and slurmd's log says why.
        observer.secret.chmod(0o644)
        bare = self.submit("--nodelist=n1", option, says)
        self.ended(bare)
        self.assertEqual(self.output(bare), "token=\n")
        self.assertIn("others than root may read or change", pathlib.Path(self.folder, "log", "slurmd-n1.log").read_text())


class Scripts(unittest.TestCase):
    """The epilogs without Slurm, whose commands are stand-ins."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="flyball-slurm-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.table, self.said = self.folder / "jobs.csv", self.folder / "said"

    def command(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_script(self, name, *words, **variables):
        environment = {"PATH": f"{self.folder}:{BUILD}:/usr/bin:/bin", "SLURM_JOB_ID": "1041", "SLURMD_NODENAME": "n1",
                       "FLYBALL_AGENT": "/nowhere", "FLYBALL_JOBS": self.folder, "FLYBALL_JOB_TABLE": self.table,
                       "FLYBALL_JOB_TABLES": self.folder / "jobs*.csv", "FLYBALL_SLURM_ENV": "/dev/null", **variables}
        done = subprocess.run([SOURCE / "packaging" / "slurm" / name, *words], env=environment, timeout=60)
        self.assertEqual(done.returncode, 0)  # else Slurm would drain the node

    def epilog(self, noted, counters, **variables):
        (self.folder / "1041").write_text(noted)
        told = [f'flyball_gpu_energy_joules_total{{gpu="{gpu}",uuid="x"}} {energy}' for gpu, energy in counters.items()]
        self.command("curl", "\n".join(["cat <<'EOF'", *told, "EOF"]))
        self.run_script("epilog", **{"SLURM_JOB_USER": "ann", "SLURM_JOB_GPUS": "0,2", "SLURM_JOB_ACCOUNT": "acme",
                                     "SLURM_JOB_PARTITION": "gpus", **variables})
        self.assertFalse((self.folder / "1041").exists())
        return self.table.read_text().splitlines()[-1] if self.table.exists() else ""

    def test_the_epilog_writes_what_it_knows(self):
        noted = "time 1795219200.5 0.00\ngpu 0 100\ngpu 1 7\ngpu 2 1000.5\n"
        line = self.epilog(noted, {0: 150, 1: 9, 2: 1020})
        self.assertRegex(line, r"^1041,ann,acme,gpus,,n1,0 2,1795219200\.5,\d+\.\d\d,69\.5$")  # 50 + 19.5
        # A counter that went back, one that is missing now, and one that was missing then.
        for counters, was in [({0: 99, 2: 1020}, noted), ({0: 150}, noted),
                              ({0: 150, 2: 1020}, noted.replace("gpu 2", "gpu 3"))]:
            self.assertTrue(self.epilog(was, counters).endswith(","))
        line = self.epilog(noted, {0: 150, 2: 1020}, SLURM_JOB_ACCOUNT='a,"b"\x1b\r\n\t\x7f~ Ä',
                           SLURM_JOB_COMMENT="mine flyball:elastic,kind=bert-1.3b,iterations=5,max=2;flyball:held")
        self.assertIn("1041,ann,a__b______~ Ä,gpus,bert-1.3b,n1,", line)
        self.assertEqual(self.epilog(noted, {0: 150, 2: 1020}, SLURM_JOB_GPUS="").count(","), 9)  # no further line
        self.assertEqual(len(self.table.read_text().splitlines()), 1 + 5)

    def test_the_epilog_goes_on_with_an_older_table(self):
        self.table.write_text("job,user,node,gpus,begin_s,seconds,energy_j\n"
                              "7,bob,n1,0,1795219100.5,10.0,500.0\n8,bob,n1,0,1795219110.5,10.0,20")  # of 203.9
        self.command("squeue", "echo acme")
        environment = {"SLURM_JOB_GPUS": "0"}
        noted = "time 1795219200.5 0.00\ngpu 0 100\n"
        self.epilog(noted, {0: 150}, **environment)
        self.epilog(noted.replace("200.5", "300.5"), {0: 160}, **environment)
        lines = self.table.read_text().splitlines()
        self.assertEqual(len(lines), 6)
        words = [BUILD / "flyball", "cluster", "report", "--by", "account", "--format", "csv", self.table]
        said = subprocess.run(words, capture_output=True, text=True, check=True)
        rows = {row["account"]: row for row in csv.DictReader(said.stdout.splitlines())}
        self.assertEqual((rows[""]["energy_j"], rows["acme"]["energy_j"]), ("500.0", "110.0"))
        self.assertIn("jobs.csv:3: the line has 8 fields, its header has 7", said.stderr)

    def test_what_a_job_took_goes_to_the_accounting_database_when_it_has_ended(self):
        self.table.write_text("job,user,node,gpus,begin_s,seconds,energy_j\n1041,ann,n1,0,1795219200,10,2000\n"
                              "10411,ann,n1,0,1795219200,10,9\n")
        pathlib.Path(self.folder, "jobs-n2.csv").write_text(
            "job,user,account,partition,kind,node,gpus,begin_s,seconds,energy_j\n1041,ann,,,,n2,0,1795219200,10,3000\n")
        self.command("squeue", 'case "$*" in *%T*) echo 1041 COMPLETED ;;\n'
                     '*) echo "old;flyball:energy_j=1.0,mean_w=2.0   " ;; esac')
        self.command("scontrol", "exit 1")  # "Job has already finished"
        self.command("sacctmgr", f'printf "%s\n" "$@" >{self.said}')
        self.run_script("epilog_slurmctld", "--in-background")
        self.assertEqual(self.said.read_text().splitlines(),
                         ["-i", "modify", "job", "where", "jobid=1041", "set",
                          "AdminComment=old;flyball:energy_j=5000.0,mean_w=500.0,run_s=10.00"])
        # Of an array, one job is meant.
        self.run_script("epilog_slurmctld", "--in-background", SLURM_ARRAY_JOB_ID="1041", SLURM_ARRAY_TASK_ID="3")
        self.assertIn("jobid=1041_3", self.said.read_text())
        # Where squeue does not tell what others have written, nothing is. A job that it does not name has ended.
        self.said.unlink()
        for answer in ("exit 1", "exit 0", "echo old; exit 1"):
            self.command("squeue", f'case "$*" in *%T*) ;; *) {answer} ;; esac')
            self.run_script("epilog_slurmctld", "--in-background")
            self.assertFalse(self.said.exists())
        # A job without a line has nothing written.
        self.command("squeue", "echo 99 COMPLETED")
        self.run_script("epilog_slurmctld", "--in-background", SLURM_JOB_ID="99")
        self.assertFalse(self.said.exists())

    def test_wrong_settings_drain_no_node(self):
        settings = self.folder / "slurm.env"
        settings.write_text("if (\n")
        for name in ("prolog", "epilog", "epilog_slurmctld"):
            self.run_script(name, "--in-background", FLYBALL_SLURM_ENV=settings, SLURM_JOB_GPUS="0")


class Interrupted(unittest.TestCase):
    def test_ctrl_c_leaves_nothing(self):
        folder = tempfile.mkdtemp(prefix="flyball-slurm-test-")
        os.rmdir(folder)
        demo = subprocess.Popen([sys.executable, DEMO.__file__, "--folder", folder, "--build", BUILD], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in demo.stdout:
            if "jobs are submitted" in line:
                break
        time.sleep(3)  # some of them run
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=120)[0]
        self.assertEqual(demo.returncode, 130, said)
        self.assertIn("have ended", said)
        self.assertFalse(os.path.exists(folder))
        cluster = DEMO.Cluster(folder, BUILD)
        self.assertEqual(cluster.mine(), [])
        boards = subprocess.run([BUILD / "flyball", "sim", "status", "--name", f"{cluster.sim}-n1"], capture_output=True)
        self.assertNotEqual(boards.returncode, 0, boards.stdout)


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

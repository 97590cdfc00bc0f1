"""flyball.elastic as it is installed; the controller is an HTTP server of Python's, or nobody."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

flyball = pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")
if not hasattr(flyball, "elastic"):
    pytest.skip("the installed package is older than elastic (make python)", allow_module_level=True)

SLURM = ("FLYBALL_CLUSTER", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE", "SLURM_PROCID", "RANK")


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    for name in SLURM:
        monkeypatch.delenv(name, raising=False)


class Controller:
    """Answers "stop" from an iteration on."""

    def __init__(self):
        controller = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                controller.heard.append((self.path, report))
                stop = report["iteration"] >= controller.stop_at and report["gpus"] != controller.kept_gpus
                answer = {"stop": stop, **({"keeps": controller.keeps} if stop and controller.keeps else {})}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.heard, self.stop_at = [], 1 << 60
        self.keeps, self.kept_gpus = [], 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def controller(monkeypatch):
    it = Controller()
    monkeypatch.setenv("FLYBALL_CLUSTER", f"http://127.0.0.1:{it.server.server_port}")
    monkeypatch.setenv("SLURM_JOB_ID", "31")
    yield it
    it.server.shutdown()
    it.server.server_close()


def test_the_loop_reports_and_ends_where_it_is_told_to(controller):
    controller.stop_at = 4
    seen, notices = [], []
    with flyball.elastic(1000, first=3, gpus=6, notice=notices.append) as job:
        for iteration in job:
            seen.append(iteration)
            time.sleep(0.6)  # longer than the least time between two reports
    # It is told after iteration 4 is done, unless the machine is so busy that the answer comes later.
    assert job.stopped and job.done == seen[-1] + 1 >= 4 and seen == list(range(3, job.done))
    path, report = controller.heard[0]
    assert path == "/v1/cluster/jobs/31/report"
    assert report["step_s"] >= 0.6
    assert {**report, "step_s": 0} == {"iteration": 4, "iterations": 1000, "step_s": 0, "gpus": 6}


def test_a_job_goes_on_with_the_nodes_that_it_keeps(controller):
    controller.stop_at, controller.keeps, controller.kept_gpus = 1, ["n1", "n2"], 8
    with flyball.elastic(1000, gpus=16) as job:
        for _ in job:
            time.sleep(0.6)
        assert job.stopped and job.keeps == ("n1", "n2")
        done = job.done
        job.go_on(8)
        assert not job.stopped and job.keeps == ()
        for _ in range(20):  # said at once, unless the machine is busy
            if controller.heard[-1][1]["gpus"] == 8:
                break
            time.sleep(0.1)
        assert controller.heard[-1][1] == {"iteration": done, "iterations": 1000, "step_s": 0, "gpus": 8}
        time.sleep(0.6)
        for iteration in job:
            assert iteration == done
            break
        assert not job.report(done + 1, 0.1)
        with pytest.raises(flyball.UsageError):
            job.go_on(0)


def test_the_loop_ends_with_the_training(controller):
    with flyball.elastic(20, gpus=1) as job:
        assert list(job) == list(range(20))
        assert job.done == 20 and not job.stopped
    # The last is reported although the one before was just now.
    assert controller.heard[-1][1]["iteration"] == 20


def test_all_ranks_do_what_rank_0_was_told(controller, monkeypatch):
    controller.stop_at = 0
    monkeypatch.setenv("SLURM_PROCID", "1")
    with flyball.elastic(10, agree=lambda stop: True) as job:
        assert job.report(1, 0.1)
    monkeypatch.setenv("SLURM_PROCID", "0")
    told = []
    with flyball.elastic(10, agree=lambda stop: told.append(stop)) as job:
        assert not job.report(1, 0.1)  # what agree() returns counts
    assert len(told) == 1
    assert len(controller.heard) <= 1  # rank 1 says nothing


def test_slurm_tells_how_many_gpus(controller, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    with flyball.elastic(1) as job:
        assert list(job) == [0]
    assert controller.heard[0][1]["gpus"] == 12


def test_outside_of_slurm_the_loop_runs_and_says_so_once():
    notices = []
    with flyball.elastic(5, notice=notices.append) as job:
        assert list(job) == [0, 1, 2, 3, 4]
    assert not job.stopped and job.done == 5
    assert len(notices) == 1 and "SLURM_JOB_ID is not set" in notices[0]


def test_notices_go_to_standard_error(capfd):
    with flyball.elastic(1) as job:
        list(job)
    assert "flyball: this is no job of Slurm" in capfd.readouterr().err


def test_a_controller_that_is_away_ends_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("FLYBALL_CLUSTER", f"unix:{tmp_path}/nobody")
    monkeypatch.setenv("SLURM_JOB_ID", "31")
    notices = []
    with flyball.elastic(50, notice=notices.append) as job:
        for _ in job:
            time.sleep(0.02)
    assert job.done == 50 and not job.stopped
    assert len(notices) == 1 and "is away; the training goes on" in notices[0]


def test_wrong_arguments_are_refused(monkeypatch):
    for arguments in ({"iterations": -1}, {"iterations": 1, "first": -1}, {"iterations": 1, "gpus": -1}):
        with pytest.raises(flyball.UsageError):
            flyball.elastic(**arguments)
    monkeypatch.setenv("FLYBALL_CLUSTER", "no address")
    monkeypatch.setenv("SLURM_JOB_ID", "31")
    with pytest.raises(flyball.UsageError):
        flyball.elastic(1)


def test_a_child_may_not_report_for_its_parent(controller):
    with flyball.elastic(10) as job:
        job.report(1, 0.1)
        child = os.fork()
        if child == 0:
            try:
                job.report(2, 0.1)
            except flyball.DeviceError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with pytest.raises(flyball.DeviceError):
        job._native = flyball._native.ElasticJob(0)
        job._native.close()
        job.report(3, 0.1)

"""Zeus's pipeline frequency optimizer, unmodified, with our server in place of its own.

What is real: zeus's JobInfo, RankInfo, FrequencySchedule and ProfilingResult models, its PipelineFrequencyOptimizer and
its HTTP calls. What stands in: torch and aiofiles, which this environment lacks (a process group of threads that
broadcasts), and the GPU that clocks are set on.
"""

import csv
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("zeus")

SOURCE = Path(os.environ["FLYBALL_SOURCE"])
PROGRAM = Path(os.environ["FLYBALL_BUILD"]) / "flyball"
PROFILE = SOURCE / "examples/profiles/gpt3-1.3b-a100-4stage.csv"


class ProcessGroup:
    """Broadcast among threads, as torch.distributed does it among processes."""

    def __init__(self):
        self.objects = None
        self.ready = threading.Event()

    def broadcast_object_list(self, objects, src):
        if objects[0] is not None:
            self.objects = list(objects)
            self.ready.set()
        assert self.ready.wait(60)
        objects[:] = self.objects


@pytest.fixture(scope="module")
def zeus_modules():
    torch = types.ModuleType("torch")
    torch.distributed = types.ModuleType("torch.distributed")
    torch.distributed.is_initialized = lambda: True
    torch.cuda = types.SimpleNamespace(set_device=lambda device: None, is_available=lambda: False)
    stand_ins = {"torch": torch, "torch.distributed": torch.distributed, "aiofiles": types.ModuleType("aiofiles")}
    for name, module in stand_ins.items():
        sys.modules.setdefault(name, module)
    from zeus.optimizer.pipeline_frequency import common, optimizer

    return common, optimizer, sys.modules["torch"]


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--in-memory", *arguments], stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.url = line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(30) == 0


def profile_rows():
    """(stage, instruction, clock) -> (time, energy), of a shipped profile."""
    with open(PROFILE) as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            (int(row["stage"]), row["instruction"], round(float(row["frequency"]))): (
                float(row["time"]),
                float(row["energy"]),
            )
            for row in rows
        }


def one_f_one_b(stage, stages, microbatches):
    warm_up = min(stages - stage - 1, microbatches)
    return ["forward"] * warm_up + ["forward", "backward"] * (microbatches - warm_up) + ["backward"] * warm_up


def test_profiles_and_plans_through_zeus_models(zeus_modules):
    common, _, _ = zeus_modules
    rows = profile_rows()
    clocks = sorted({clock for _, _, clock in rows}, reverse=True)
    stages, microbatches = 4, 8
    with Server() as server:
        info = common.JobInfo(
            pp_degree=stages, dp_degree=1, tp_degree=1, world_size=stages,
            job_metadata=f"reports=yes microbatches={microbatches}",
        )
        answer = httpx.post(server.url + common.REGISTER_JOB_URL, json=info.dict())
        assert answer.status_code == 200, answer.text
        job = answer.json()
        assert isinstance(job, str)
        for rank in range(stages):
            body = common.RankInfo(rank=rank, dp_rank=0, pp_rank=rank, tp_rank=0, available_frequencies=clocks)
            answer = httpx.post(server.url + common.REGISTER_RANK_URL.format(job_id=job), json=body.dict())
            assert answer.status_code == 200, answer.text
            assert answer.json() is None

        seen, rounds = [], 0
        while True:
            schedules = []
            for rank in range(stages):
                answer = httpx.get(
                    server.url + common.GET_FREQUENCY_SCHEDULE_URL.format(job_id=job), params={"rank": rank}, timeout=60
                )
                assert answer.status_code == 200, answer.text
                schedule = common.FrequencySchedule.parse_raw(answer.text)
                assert schedule.rank == rank
                assert [name for name, _ in schedule.frequencies] == one_f_one_b(rank, stages, microbatches)
                schedules.append(schedule)
            used = {clock for schedule in schedules for _, clock in schedule.frequencies}
            # The sweep runs one clock everywhere; the plan does not.
            if len(used) > 1:
                break
            seen.append(used.pop())
            for schedule in schedules:
                times, energies = {}, {}
                for name, clock in schedule.frequencies:
                    time, energy = rows[schedule.rank, name, clock]
                    times.setdefault(name, [[], []])[0].append(time)
                    energies.setdefault(name, [[], []])[0].append(energy)
                for breakdown in (times, energies):
                    for iterations in breakdown.values():
                        iterations[1] = list(iterations[0])
                result = common.ProfilingResult(
                    rank=schedule.rank, iter_time=[1.0, 1.0], iter_energy=[1.0, 1.0], time_breakdown=times,
                    energy_breakdown=energies,
                )
                answer = httpx.post(
                    server.url + common.REPORT_PROFILING_RESULT_URL.format(job_id=job), json=result.dict()
                )
                assert answer.status_code == 200, answer.text
            rounds += 1
            assert rounds <= len(clocks)
        # From the highest clock down, without gaps.
        assert seen == clocks[: len(seen)]
        assert len(seen) > 10


def test_optimizer_runs_a_plan_file(zeus_modules, tmp_path, monkeypatch):
    _, optimizer, torch = zeus_modules
    stages, microbatches = 4, 8
    subprocess.run(
        [PROGRAM, "plan", PROFILE, "--microbatches", str(microbatches), "--out", tmp_path / "plan"], check=True,
        capture_output=True,
    )
    plan = next((tmp_path / "plan").glob("**/plan.json"))
    group = ProcessGroup()
    torch.distributed.broadcast_object_list = group.broadcast_object_list
    monkeypatch.setattr(optimizer.dist, "broadcast_object_list", group.broadcast_object_list, raising=False)
    monkeypatch.setattr(optimizer, "sync_execution", lambda *_, **__: None)
    gpus = types.SimpleNamespace(
        get_supported_memory_clocks=lambda device: [1593], get_supported_graphics_clocks=lambda *_: [1410, 1395]
    )
    monkeypatch.setattr(optimizer, "get_gpus", lambda: gpus)
    clocks_set = {rank: [] for rank in range(stages)}

    class Controller:
        def __init__(self, device_id):
            self.device_id = device_id

        def set_frequency(self, frequency):
            clocks_set[self.device_id].append(frequency)

    monkeypatch.setattr(optimizer, "FrequencyController", Controller)

    failures = []
    with Server("--zeus-plan", str(plan)) as server:

        def train(rank):
            try:
                pfo = optimizer.PipelineFrequencyOptimizer(
                    rank=rank, dp_rank=0, pp_rank=rank, tp_rank=0, device_id=rank, dp_degree=1, pp_degree=stages,
                    tp_degree=1, world_size=stages, server_url=server.url,
                )
                for _ in range(3):
                    pfo.on_step_begin()
                    for name in one_f_one_b(rank, stages, microbatches):
                        pfo.on_instruction_begin(name)
                        pfo.on_instruction_end(name)
                    pfo.on_step_end()
            except Exception as error:  # noqa: BLE001 - shown below, in the main thread
                failures.append((rank, repr(error)))

        ranks = [threading.Thread(target=train, args=(rank,)) for rank in range(stages)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(120)
    assert not failures
    for rank in range(stages):
        assert len(clocks_set[rank]) == 3 * 2 * microbatches
    assert len({clock for clocks in clocks_set.values() for clock in clocks}) > 1


def test_refuses_as_zeus_does(zeus_modules):
    common, _, _ = zeus_modules
    with Server() as server:
        info = common.JobInfo(pp_degree=2, dp_degree=1, tp_degree=1, world_size=2)
        answer = httpx.post(server.url + common.REGISTER_JOB_URL, json=info.dict())
        assert answer.status_code == 422
        assert "--zeus-plan" in answer.json()["detail"]
        answer = httpx.post(server.url + common.REGISTER_JOB_URL, json={**info.dict(), "job_metadata": "reports=yes"})
        assert answer.status_code == 422
        assert "microbatches=N" in answer.json()["detail"]
        answer = httpx.get(server.url + "/schedule/nobody", params={"rank": 0})
        assert answer.status_code == 404
        assert "detail" in answer.json()

#!/usr/bin/env python3
"""Jobs that give nodes back without ending, on a real Slurm of four nodes. A job has all of them; another one comes, and
starts on two of them, once with a first job that shrinks and once with one that does not: how long that takes is printed.
Boards that are given back have no lease and no cap. The controller is killed with SIGKILL while a job shrinks, and a job
is to shrink a second time, which Slurm without slurmdbd refuses. Last, examples/elastic_trainer gives a node back.
Status 77: it cannot run here.
"""

import json
import pathlib
import re
import sys
import time

import cluster
import controller_test
from cluster import DEMO

HERE = pathlib.Path(__file__).resolve().parent


def submit(program, site, name, goal, least, most, script, *words, shrinks=False):
    said = site.ask(program, "cluster", "submit", "--kind", name, "--iterations", str(goal), "--min", str(least), "--max",
                    str(most), *(["--shrinks"] if shrinks else []), "--", f"--output={site.folder}/{name}.out",
                    "--open-mode=append", str(HERE / script), str(site.folder), name, str(goal), *words)
    return re.search(r"job (\d+)", said).group(1)


def lines(site, name):
    path = site.folder / f"{name}.log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def words_of(site, name):
    return [line[0] for line in lines(site, name)]


def shown(site, number):
    return dict(word.split("=", 1) for word in site.ask("scontrol", "show", "job", "-o", number).split() if "=" in word)


def when(site, controller, text, seconds=60):
    """When a line with this text came into the controller's log."""
    DEMO.wait_until(f"'{text}' in the controller's log", seconds,
                    lambda: text in (site.folder / "controller.log").read_text())
    return time.time()


def cancel(site, controller, *numbers):
    site.ask("scancel", *numbers)
    DEMO.wait_until("no jobs", 60, lambda: not site.ask("squeue", "-h").strip() and not controller.status()["jobs"])


def run_on_all(program, site, controller, name, shrinks):
    number = submit(program, site, name, 1_000_000, 4, 16, "shrinking_job.py", str(cluster.BUILD), shrinks=shrinks)
    DEMO.wait_until("a job on four nodes", 60, lambda: words_of(site, name) == ["start"])
    assert lines(site, name)[0][2] == "16", lines(site, name)
    DEMO.wait_until("its report", 30, lambda: any(one["iteration"] for one in controller.status()["jobs"]))
    return number


def join(program, site, controller, name, least=8):
    """Another job, of as many GPUs as are to be given back. Returns its number, and how long it takes from the decision
    until it runs."""
    number = submit(program, site, name, 1_000_000, least, least, "counting_job.py")
    begin = when(site, controller, f"job {number}: from no GPUs to {least} GPUs")
    DEMO.wait_until("the other job", 60, lambda: words_of(site, name) == ["start"])
    return number, (site.folder / f"{name}.log").stat().st_mtime - begin


def check_shrink(program, site, controller):
    first = run_on_all(program, site, controller, "live", True)
    second, seconds = join(program, site, controller, "beside")
    # The same process goes on, as the job that it was, on two nodes; the other job has the other two.
    assert words_of(site, "live") == ["start", "keeps"], lines(site, "live")
    assert len({line[3] for line in lines(site, "live")}) == 1, lines(site, "live")
    job, other = shown(site, first), shown(site, second)
    assert (job["JobState"], job["Restarts"], job["NumNodes"], other["NumNodes"]) == ("RUNNING", "0", "2", "2"), job
    nodes = [set(site.ask("scontrol", "show", "hostnames", one["NodeList"]).split()) for one in (job, other)]
    assert nodes[0] | nodes[1] == set(DEMO.NODES), nodes
    assert not list(pathlib.Path.cwd().glob("slurm_job_*_resize.*")), "Slurm has left scripts"
    # It goes on, and its workers run on its nodes, which it has reported.
    workers = [line.split() for line in (site.folder / "live.workers").read_text().splitlines()]
    assert {node for node, _ in workers[4:]} == nodes[0], workers
    DEMO.wait_until("a job that runs on 8 GPUs", 30, lambda: [one for one in controller.status()["jobs"]
        if str(one["job"]) == first and one["state"] == "running" and one["gpus"] == 8])
    before = int((site.folder / "live.checkpoint").read_text())
    DEMO.wait_until("more iterations", 10, lambda: int((site.folder / "live.checkpoint").read_text()) > before + 16)
    measured = lambda: [one for one in controller.status()["kinds"] if one["kind"] == "live" and one["shrinks_measured"]]
    DEMO.wait_until("its cost", 10, measured)
    kind = measured()[0]
    assert kind["shrinks_measured"] == 1 and kind["restarts_measured"] == 0, kind
    assert "to 8 GPUs on" in site.ask("scontrol", "show", "job", first)
    assert "cannot" not in (site.folder / "controller.log").read_text()
    cancel(site, controller, first, second)
    return seconds, kind["shrink_s"]


def check_leases(program, site, controller):
    """A lower budget takes nodes from a job, whose boards are nobody's then: without a lease, a clock and a cap."""
    first = run_on_all(program, site, controller, "leaner", True)
    boards = lambda: controller_test.boards(site)
    DEMO.wait_until("leases of all boards", 30, lambda: all(board["lease"] for board in boards()))
    site.ask(program, "cluster", "budget", "2kW")
    DEMO.wait_until("a job with fewer nodes", 30, lambda: words_of(site, "leaner") == ["start", "keeps"])
    kept = int(lines(site, "leaner")[-1][2])
    free = lambda: [board for board in boards() if not board["lease"] and not board["cap"]]
    DEMO.wait_until("boards without leases and caps", 10, lambda: len(free()) == len(DEMO.NODES) * DEMO.GPUS - kept)
    assert shown(site, first)["Restarts"] == "0"
    site.ask(program, "cluster", "budget", "20kW")
    cancel(site, controller, first)


def check_restart(program, site, controller):
    """The same by a job that ends for it."""
    first = run_on_all(program, site, controller, "old", False)
    second, seconds = join(program, site, controller, "after")
    DEMO.wait_until("its next start", 60, lambda: words_of(site, "old") == ["start", "stopped", "start"])
    assert shown(site, first)["Restarts"] == "1"
    restarts = lambda: [one for one in controller.status()["kinds"] if one["kind"] == "old" and one["restarts_measured"]]
    DEMO.wait_until("its cost", 30, restarts)
    cost = restarts()[0]["restart_s"]
    cancel(site, controller, first, second)
    return seconds, cost


def check_kill(program, site, controller):
    """The controller is killed as soon as the job was told, and started again two seconds later."""
    first = run_on_all(program, site, controller, "killed", True)
    second = submit(program, site, "then", 1_000_000, 8, 8, "counting_job.py")
    DEMO.wait_until("a job that shrinks", 30, lambda: words_of(site, "killed") == ["start", "keeps"])
    controller.kill()
    time.sleep(2)
    controller.start()
    DEMO.wait_until("the other job", 60, lambda: words_of(site, "then") == ["start"])
    time.sleep(2)
    assert words_of(site, "killed") == ["start", "keeps"], lines(site, "killed")
    job = shown(site, first)
    assert (job["Restarts"], job["NumNodes"]) == ("0", "2"), job
    return first, second


def check_second(program, site, controller, first, second):
    """Slurm without slurmdbd takes nodes from a job once after each of its starts; the second time it ends for it."""
    third, seconds = join(program, site, controller, "third", least=4)
    DEMO.wait_until("its next start", 60, lambda: words_of(site, "killed") == ["start", "keeps", "stopped", "start"])
    assert lines(site, "killed")[-1][2] == "4", lines(site, "killed")
    cancel(site, controller, first, second, third)


def check_example(program, site, controller):
    """PyTorch on eight ranks goes on with four of them, by the batch script of examples/elastic_trainer."""
    words, missing = DEMO.elastic_job(site, 100_000)
    if missing:
        return print(f"without examples/elastic_trainer: {missing}")
    skipped = ("--nodes=", "--gpus-per-node=", "--flyball=")
    words = [str(word) for word in words if not str(word).startswith(skipped)]
    words = [word + f",FLYBALL_CLUSTER=unix:{controller.socket},FLYBALL={program}" if word.startswith("--export=") else word for word in words]
    said = site.ask(program, "cluster", "submit", "--kind", "toy", "--iterations", "100000", "--min", "4", "--max", "8",
                    "--shrinks", "--", f"--output={site.folder}/toy.out", *words)
    first = re.search(r"job (\d+)", said).group(1)
    runs_on = lambda gpus: [one for one in controller.status()["jobs"]
                            if str(one["job"]) == first and one["gpus"] == gpus and one["step_s"] > 0]
    DEMO.wait_until("eight ranks that report", 120, lambda: runs_on(8))
    second = submit(program, site, "two", 1_000_000, 8, 8, "counting_job.py")
    DEMO.wait_until("a job on the other nodes", 60, lambda: words_of(site, "two") == ["start"])
    third, seconds = join(program, site, controller, "one", least=4)
    said = [line for line in (site.folder / "toy.out").read_text().splitlines() if line.startswith("{")]
    assert len(said) == 1 and json.loads(said[0])["ranks"] == 8 and len(json.loads(said[0])["keeps"]) == 1, said
    assert shown(site, first)["Restarts"] == "0"
    done = json.loads(said[0])["done"]
    DEMO.wait_until("four ranks that go on", 60, lambda: [one for one in runs_on(4) if one["iteration"] > done])
    print(f"PyTorch on eight ranks: {seconds:.1f} s from the decision until the other job ran on four of the GPUs")
    cancel(site, controller, first, second, third)


def play(program, site):
    controller = controller_test.Controller(program, site, policy="joule-price")
    try:
        DEMO.wait_until("the controller", 30, lambda: controller.socket.exists())
        check_leases(program, site, controller)  # while what a GPU draws is believed: no clock would be low enough
        live, shrink_s = check_shrink(program, site, controller)
        old, restart_s = check_restart(program, site, controller)
        print(f"from the decision until the other job ran: {live:.2f} s beside a job that shrank, {old:.2f} s beside one "
              f"that ended for it; the first lost {shrink_s:.2f} s, the second {restart_s:.2f} s")
        assert shrink_s < restart_s
        check_second(program, site, controller, *check_kill(program, site, controller))
        controller.kill()
        controller = controller_test.Controller(program, site, policy="joule-price", stop_within="90s")
        check_example(program, site, controller)
    except BaseException:
        print((site.folder / "controller.log").read_text())
        for log in [*site.folder.glob("*.log"), *site.folder.glob("*.out")]:
            print(f"--- {log.name}", log.read_text()[-3000:], sep="\n")
        raise
    finally:
        controller.kill()


if __name__ == "__main__":
    sys.exit(cluster.play(play))

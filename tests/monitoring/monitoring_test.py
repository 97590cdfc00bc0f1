#!/usr/bin/env python3
"""A real Prometheus scrapes a node with simulated GPUs that train by plan, the planning server, and the controller of a
cluster. Each expression of packaging/prometheus and packaging/grafana must be one that Prometheus takes, each must give
data (of alerts, what they compare), and a GPU that is lost and a node that goes silent must raise their alerts.
alerts_test.yml says of every alert when it comes. Run by `make monitoring`.
"""

import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("FLYBALL_BUILD", ROOT / "build"))
PACKAGING = ROOT / "packaging"
sys.path.insert(0, str(ROOT / "bench"))
from controller_load import Reports, Slurm  # noqa: E402  Slurm's programs, with recorded answers

SKIPPED = 77
PATIENCE_S = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, good):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if (found := good()):
            return found
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s")


def config_for(ports, token_file):
    """The configuration that is shipped, with this machine's addresses and without TLS."""
    text = (PACKAGING / "prometheus" / "prometheus.yml").read_text()
    text = re.sub(r"scheme: https\n", "", text.replace("    scheme: https\n", ""))
    text = re.sub(r" *tls_config:.*\n", "", text)
    text = re.sub(r" *file_sd_configs:.*", f"    static_configs: [{{targets: ['127.0.0.1:{ports['agent']}']}}]", text)
    text = text.replace("plan:4940", f"127.0.0.1:{ports['server']}").replace("127.0.0.1:4939", f"127.0.0.1:{ports['cluster']}")
    text = re.sub(r"credentials_file: \S+}", f"credentials_file: {token_file}}}", text)
    return text.replace("_interval: 5s", "_interval: 1s")


def rules_in(path):
    """(name, expression) of a file of rules. promtool has checked it; this reads what it needs of the YAML."""
    found = re.findall(r"- (record|alert): (\S+)\n\s+expr: (.+)", path.read_text())
    assert found, f"no rules in {path}"
    return found


def panels_in(path):
    board = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield f"{path.name}, {panel['title']}", re.sub(r'=~"\$\w+"', '=~".+"', target["expr"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            selector = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            yield f"{path.name}, variable {variable['name']}", f"count by ({selector[2]}) ({selector[1]})"


def lost(ours, theirs, path=""):
    """What of a board's JSON does not come back from Grafana's types."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name in theirs:
                yield from lost(value, theirs[name], f"{path}/{name}")
            elif value not in (None, "", [], {}, False, 0):
                yield f"{path}/{name}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs)):
            yield from lost(*pair, f"{path}/{number}")
    elif ours != theirs:
        yield f"{path}: {ours!r} is {theirs!r}"


def check_boards():
    """Reads the boards by the types of Grafana's schema, writes them again, and compares."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    boards = sorted((PACKAGING / "grafana").glob("*.json"))
    for path in boards:
        ours = json.loads(path.read_text())
        wrong = list(lost(ours, json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))))
        assert not wrong, f"{path.name}: {wrong}"
        places = [tuple(panel["gridPos"].values()) for panel in ours["panels"]]
        assert len(set(places)) == len(places) and all(x + w <= 24 for x, _, w, _ in places), f"{path.name}: {places}"
    print(f"{len(boards)} boards are what Grafana's types say")


class Prometheus:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path, **values):
        try:
            with urllib.request.urlopen(self.url + path + "?" + urllib.parse.urlencode(values), timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{values}: {error.read().decode()}") from error
        except OSError:
            return None

    def values(self, expression):
        found = self.ask("query", query=expression)
        return found["result"] if found else []

    def alerts(self):
        found = self.ask("alerts")
        return {one["labels"]["alertname"]: one for one in found["alerts"]} if found else {}


def compared(expression):
    """What an alert compares: both sides, and without the values of labels for which it waits."""
    sides = re.split(r" (?:==|>) ", expression)
    return [re.sub(r'(promise|health)=~?"[^"]*"', r'\1=~".+"', side) for side in sides if not re.fullmatch(r"[\d.]+", side)]


def play(folder, start):
    ports = {name: free_port() for name in ("agent", "server", "cluster", "prometheus")}
    token, token_file = secrets.token_hex(20), folder / "token"
    token_file.write_text(token)
    token_file.chmod(0o600)
    environment = dict(os.environ, FLYBALL_SIM=f"monitoring-{os.getpid()}", LD_LIBRARY_PATH=str(BUILD / "sim"))
    flyball = BUILD / "flyball"
    subprocess.run([flyball, "sim", "up", "--gpus", "4", "--model", "a100", "--workload", "gpt3-1.3b", "--time-scale", "10"],
                   env=environment, check=True, stdout=subprocess.DEVNULL)
    agent = start("agent", [flyball, "agent", "--socket", folder / "agent.sock", "--tcp", f"127.0.0.1:{ports['agent']}",
                            "--token-file", token_file, "--state-dir", folder / "agent"], environment)
    start("server", [flyball, "serve", "--listen", f"127.0.0.1:{ports['server']}", "--admin-token-file",
                     token_file, "--in-memory"], environment)
    # The controller's node has boards of its own, whose clocks it sets.
    slurm, node = Slurm(folder / "slurm", 3, 1), dict(environment, FLYBALL_SIM=environment["FLYBALL_SIM"] + "-n001")
    subprocess.run([flyball, "sim", "up", "--gpus", "4", "--model", "a100"], env=node, check=True, stdout=subprocess.DEVNULL)
    start("agent-n001", [flyball, "agent", "--socket", folder / "agent-n001.sock", "--state-dir", folder / "agent-n001"], node)
    start("cluster", [flyball, "cluster", "run", "--budget", "2kW", "--listen", f"127.0.0.1:{ports['cluster']}",
                      "--socket", folder / "cluster.sock", "--agent", f"{folder}/agent-{{node}}.sock",
                      "--database", folder / "cluster.db"], dict(environment, PATH=f"{folder}/slurm/bin:{os.environ['PATH']}"))
    wait_until("the controller", (folder / "cluster.sock").exists)
    wait_until("the agent", (folder / "agent.sock").exists)
    reports, over = Reports(slurm, folder / "cluster.sock"), threading.Event()

    def live():
        while not over.wait(1.0):
            slurm.obey()
            reports.send()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        start("trainer", [BUILD / "pipeline_trainer", "--server", f"http://127.0.0.1:{ports['server']}", "--job", "night",
                          "--token", secrets.token_hex(20), "--clocks", folder / "agent.sock", "--microbatches", "6",
                          "--clock-stride", "16", "--steps-per-clock", "2", "--straggler", "1", "--windows", "1000",
                          "--quiet"], environment)
        (folder / "prometheus.yml").write_text(config_for(ports, token_file))
        shutil.copy(PACKAGING / "prometheus" / "flyball.rules.yml", folder)
        subprocess.run(["promtool", "check", "config", folder / "prometheus.yml"], check=True, stdout=subprocess.DEVNULL)
        start("prometheus", ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                             f"--web.listen-address=127.0.0.1:{ports['prometheus']}"], os.environ)
        check(Prometheus(ports["prometheus"]))
        raise_alerts(Prometheus(ports["prometheus"]), agent, lambda: subprocess.run(
            [flyball, "sim", "fault", "--gpu", "3", "lost"], env=environment, check=True, stdout=subprocess.DEVNULL))
    finally:
        over.set()
        thread.join()
        for simulated in (environment, node):
            subprocess.run([flyball, "sim", "down"], env=simulated, check=False, stdout=subprocess.DEVNULL)


def check_rules():
    rules = PACKAGING / "prometheus" / "flyball.rules.yml"
    tested = pathlib.Path(__file__).with_name("alerts_test.yml")
    alerts = {name for kind, name, _ in rules_in(rules) if kind == "alert"}
    untested = alerts - set(re.findall(r"alertname: (\w+)", tested.read_text()))
    assert not untested, f"{tested.name} says nothing of {untested}"
    subprocess.run(["promtool", "test", "rules", tested], check=True, stdout=subprocess.DEVNULL)
    print(f"{len(alerts)} alerts come when they should")


def raise_alerts(prometheus, agent, lose_a_gpu):
    """Has one alert after another raised, which must not be there before: but for one scrape that came late."""
    def raises(act, name):
        wait_until(f"no alert {name}", lambda: name not in prometheus.alerts())
        act()
        found = wait_until(f"the alert {name}", lambda: prometheus.alerts().get(name))
        print(f"{found['state']}: {found['annotations']['summary']}")

    raises(lose_a_gpu, "FlyballGpuUnwell")
    raises(lambda: agent.send_signal(signal.SIGKILL), "FlyballNodeSilent")


def check(prometheus):
    rules = rules_in(PACKAGING / "prometheus" / "flyball.rules.yml")
    expressions = [(name, name) for kind, name, _ in rules if kind == "record"]
    expressions += [(name, part) for kind, name, text in rules if kind == "alert" for part in compared(text)]
    for board in sorted((PACKAGING / "grafana").glob("*.json")):
        expressions += panels_in(board)
    def first_of(name, expression):
        return wait_until(f"{name}: {expression}", lambda: prometheus.values(expression))[0]

    for name, expression in expressions:
        first_of(name, expression)
    # A scrape that comes late leaves all of them without data for a second.
    saving = float(first_of("saving", "flyball:job_saving:ratio")["value"][1])
    job = first_of("power", "flyball:job_power:watts")["metric"]
    assert job["job_id"] == "night" and job["uid"] == str(os.getuid()), job
    print(f"{len(expressions)} expressions give data; job night saves {100 * saving:.1f} %")


def main():
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            print(f"skipped: there is no {program} here (make monitoring installs Debian's Prometheus)")
            return SKIPPED
    check_rules()
    check_boards()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="flyball-monitoring-"))
    (folder / "slurm").mkdir()
    running = []

    def start(name, command, environment):
        log = open(folder / f"{name}.log", "w", encoding="utf-8")
        process = subprocess.Popen([str(word) for word in command], env=environment, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        running.append((name, process))
        return process

    try:
        play(folder, start)
    except BaseException:
        for name, process in running:
            print(f"--- {name} ({process.poll()})", (folder / f"{name}.log").read_text()[-2000:], sep="\n")
        raise
    finally:
        for _, process in reversed(running):
            process.terminate()
        for _, process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            with contextlib.suppress(ProcessLookupError):  # ranks that a launcher has left behind
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

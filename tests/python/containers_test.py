"""packaging/kubernetes and packaging/oci. The manifests are valid by Kubernetes' own schemas, and agree with each other and
with what the programs listen to. Agent and server are run with the manifests' commands and files, in folders of the test
for the containers' and at free ports, and answer the manifests' probes. The Dockerfile passes hadolint, what it copies is
there, and it installs the libraries that the programs are linked to."""
import contextlib
import http.client
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

import kubernetes_validate
import pytest
import yaml

from simulated import PROGRAM, machine

SOURCE = pathlib.Path(os.environ["FLYBALL_SOURCE"])
BUILD = pathlib.Path(os.environ["FLYBALL_BUILD"])
KUBERNETES = SOURCE / "packaging/kubernetes"
DOCKERFILE = SOURCE / "packaging/oci/Dockerfile"
# The oldest and the newest of those that kubernetes-validate brings.
VERSIONS = ["1.25", "1.37"]
TOKENS = {"admin-token": "a" * 32, "registration-token": "r" * 32, "token": "t" * 32}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def manifest(name):
    (document,) = documents(KUBERNETES / name)
    return document


MANIFESTS = sorted(str(path.relative_to(KUBERNETES)) for path in KUBERNETES.rglob("*.yaml")
                   if path.name != "kustomization.yaml")
PODS = ["agent/daemonset.yaml", "server/statefulset.yaml", "examples/simulated.yaml", "examples/training.yaml"]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_is_valid(name, version):
    kubernetes_validate.validate(manifest(name), version, strict=True)


def test_validation_finds_mistakes():
    misspelled = manifest("agent/daemonset.yaml")
    misspelled["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelled, VERSIONS[-1], strict=True)


def test_kustomize_finds_every_manifest(tmp_path):
    listed = set()
    for file in KUBERNETES.rglob("kustomization.yaml"):
        for resource in manifest(file.relative_to(KUBERNETES))["resources"]:
            assert (file.parent / resource).exists()
            listed.add(str((file.parent / resource).relative_to(KUBERNETES)))
    assert {name for name in MANIFESTS if not name.startswith("examples/")} <= listed
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not there")
    # As a site would: its own registry, in a folder of its own.
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [kubernetes]\nimages: [{name: flyball, newName: registry.example.org/flyball, newTag: 0.1.0}]\n")
    done = subprocess.run(["kubectl", "kustomize", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rendered = {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}
    assert set(rendered) == {"Namespace", "ConfigMap", "DaemonSet", "StatefulSet", "Service"}
    for document in rendered.values():
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
    agent = rendered["DaemonSet"]["spec"]["template"]["spec"]
    (config,) = [volume["configMap"] for volume in agent["volumes"] if "configMap" in volume]
    assert config["name"] == rendered["ConfigMap"]["metadata"]["name"]
    assert rendered["ConfigMap"]["data"]["agent.toml"] == (KUBERNETES / "agent/agent.toml").read_text()
    assert {each["image"] for document in rendered.values() if "template" in document.get("spec", {})
            for each in containers(document["spec"]["template"]["spec"])} == {"registry.example.org/flyball:0.1.0"}


@pytest.mark.parametrize("name", PODS)
def test_parts_of_a_pod_agree(name):
    document = manifest(name)
    template = document["spec"]["template"]
    if "selector" in document["spec"]:
        assert document["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    pod = template["spec"]
    there = {volume["name"] for volume in pod["volumes"]}
    there |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
    assert {mount["name"] for each in containers(pod) for mount in each["volumeMounts"]} == there
    for container in pod["containers"]:
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        probes = [container[key] for key in ("startupProbe", "livenessProbe", "readinessProbe") if key in container]
        assert len(probes) == (3 if ports else 0)
        assert {probe["httpGet"]["port"] for probe in probes} <= set(ports)
        annotations = template["metadata"].get("annotations", {})
        assert [annotations["prometheus.io/port"]] == [str(port) for port in ports.values()] if ports else not annotations


def test_service_leads_to_the_server():
    service, server = manifest("server/service.yaml"), manifest("server/statefulset.yaml")
    template = server["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert service["metadata"]["name"] == server["spec"]["serviceName"]
    assert service["metadata"]["namespace"] == server["metadata"]["namespace"]
    (port,) = service["spec"]["ports"]
    (container,) = template["spec"]["containers"]
    assert port["targetPort"] in [each["name"] for each in container["ports"]]
    address = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc:{port['port']}"
    for name in ("examples/simulated.yaml", "examples/training.yaml"):
        (trainer,) = manifest(name)["spec"]["template"]["spec"]["containers"]
        assert {"name": "FLYBALL_SERVER", "value": address} in trainer["env"]


def test_trainers_find_the_agents_socket():
    def folder(name, socket_folder):
        pod = manifest(name)["spec"]["template"]["spec"]
        (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == socket_folder]
        (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
        return volume["hostPath"]["path"]

    (address,) = [each["value"] for each in manifest("examples/training.yaml")["spec"]["template"]["spec"]["containers"][0]["env"]
                  if each["name"] == "FLYBALL_AGENT"]
    assert address == "/run/flyball/agent.sock"  # the agent's default, which agent.toml leaves as it is
    assert folder("examples/training.yaml", "/run/flyball") == folder("agent/daemonset.yaml", "/run/flyball")


# --- What runs in the containers -----------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def mapped(text, folder, pod, container, ports):
    """A text of a container in which its folders are those below `folder`, and its ports are others."""
    for mount in sorted((mount["mountPath"] for mount in container["volumeMounts"]), key=len, reverse=True):
        text = re.sub(rf"(?<![\w/]){re.escape(mount)}(?=[/\"]|$)", f"{folder}{mount}", text)
    for before, after in ports.items():
        text = re.sub(rf"\b{before}\b", str(after), text)
    return text


def program(words):
    return [{"flyball": PROGRAM}.get(words[0], words[0]), *words[1:]]


@contextlib.contextmanager
def running(words, environment, log):
    process = subprocess.Popen(words, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    assert status == 0, log.read_text()


def get(port, path, token=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def probe_until_well(process, container, ports, log):
    """As a kubelet does: by the address of the pod, without a token."""
    paths = {container[key]["httpGet"]["path"] for key in ("startupProbe", "livenessProbe", "readinessProbe")}
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    port = ports[named[container["livenessProbe"]["httpGet"]["port"]]]
    for path in paths:
        for _ in range(1200):
            assert process.poll() is None, log.read_text()
            try:
                status = get(port, path)[0]
                break
            except OSError:
                time.sleep(0.05)
        assert status == 200, path
    return port


def write_secrets(folder, names, mode):
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(TOKENS[name] + "\n")
        (folder / name).chmod(mode)


def test_agent_of_the_manifest_answers_its_probes(tmp_path):
    pod = manifest("agent/daemonset.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {container["ports"][0]["containerPort"]: free_port()}
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    (mount,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "token"]
    write_secrets(tmp_path / mount[1:], [item["path"] for item in secret["items"]], secret["defaultMode"])
    for folder in ("etc/flyball", "run/flyball", "var/lib/flyball"):
        (tmp_path / folder).mkdir(parents=True)
    # Where a container has its mounts, the test states the two defaults that name them.
    config = f'socket = "/run/flyball/agent.sock"\nstate_dir = "/var/lib/flyball"\n{(KUBERNETES / "agent/agent.toml").read_text()}'
    (tmp_path / "etc/flyball/agent.toml").write_text(mapped(config, tmp_path, pod, container, ports))
    words = [mapped(word, tmp_path, pod, container, ports) for word in container["command"]]
    (root,) = [each["value"] for each in container["env"] if each["name"] == "FLYBALL_POWERCAP_ROOT"]
    root = pathlib.Path(mapped(root, tmp_path, pod, container, {}))
    assert tmp_path in root.parents
    log = tmp_path / "agent.log"
    with machine("--gpus", "2", "--powercap", str(root)) as environment:
        environment["FLYBALL_POWERCAP_ROOT"] = str(root)
        with running(program(words), environment, log) as process:
            port = probe_until_well(process, container, ports, log)
            annotations = manifest("agent/daemonset.yaml")["spec"]["template"]["metadata"]["annotations"]
            assert get(port, annotations["prometheus.io/path"])[0] == 401
            status, text = get(port, annotations["prometheus.io/path"], TOKENS["token"])
            assert status == 200
            assert len(re.findall(r"^flyball_gpu_power_watts\{", text, re.MULTILINE)) == 2
            assert (tmp_path / "run/flyball/agent.sock").is_socket()
    assert "gpus=2 cpus=1" in log.read_text()


def test_server_of_the_manifest_answers_its_probes(tmp_path):
    pod = manifest("server/statefulset.yaml")["spec"]["template"]["spec"]
    (container,), (first,) = pod["containers"], pod["initContainers"]
    ports = {container["ports"][0]["containerPort"]: free_port()}
    # As the kubelet writes a secret's files for a pod with fsGroup.
    write_secrets(tmp_path / "run/secrets/flyball", ["admin-token", "registration-token"], 0o440)
    for folder in ("run/flyball-tokens", "var/lib/flyball-server"):
        (tmp_path / folder).mkdir(parents=True)
    words = program([mapped(word, tmp_path, pod, container, ports) for word in container["command"]])
    log = tmp_path / "server.log"

    # What the init container is for.
    direct = [word.replace("/run/flyball-tokens/", "/run/secrets/flyball/") for word in words]
    refused = subprocess.run(direct, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode != 0 and "others than its owner may read" in refused.stderr

    subprocess.run([mapped(word, tmp_path, pod, first, {}) for word in first["command"]], check=True)
    with running(words, dict(os.environ), log) as process:
        port = probe_until_well(process, container, ports, log)
        annotations = manifest("server/statefulset.yaml")["spec"]["template"]["metadata"]["annotations"]
        status, text = get(port, annotations["prometheus.io/path"])
        assert status == 200 and "flyball_server_jobs{" in text
        assert get(port, "/v1/jobs")[0] == 401
        assert get(port, "/v1/jobs", TOKENS["admin-token"])[0] == 200
    assert {path.name for path in (tmp_path / "var/lib/flyball-server").iterdir()} >= {"server.db", "server-history.db"}


@pytest.mark.skipif(not (BUILD / "pipeline_trainer").exists(), reason="pipeline_trainer is not built")
def test_trial_registers_its_job(tmp_path):
    (container,) = manifest("examples/simulated.yaml")["spec"]["template"]["spec"]["containers"]
    script = container["command"]
    assert script[:2] == ["sh", "-euc"]
    script = [*script[:2], script[2].replace("/tmp/", f"{tmp_path}/")]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("flyball", "pipeline_trainer"):
        (programs / name).symlink_to(BUILD / name)
    port, uid = free_port(), str(uuid.uuid4())
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "FLYBALL_SIM": f"trial-{os.getpid()}-{uid[:8]}"}
    values = {"FLYBALL_SERVER": f"127.0.0.1:{port}", "FLYBALL_REGISTRATION_TOKEN": TOKENS["registration-token"],
              "JOB": "flyball-simulated-x7k2p", "JOB_TOKEN": uid}  # the pod's name and uid, as Kubernetes makes them
    assert set(values) == {each["name"] for each in container["env"]}
    write_secrets(tmp_path / "secrets", ["admin-token", "registration-token"], 0o400)
    words = [PROGRAM, "serve", f"--listen=127.0.0.1:{port}", "--in-memory",
             f"--admin-token-file={tmp_path}/secrets/admin-token",
             f"--registration-token-file={tmp_path}/secrets/registration-token"]
    log, text = tmp_path / "trial.log", ""
    with running(words, environment, tmp_path / "server.log"):
        with log.open("w") as out:
            trial = subprocess.Popen(script, env={**environment, **values}, stdout=out, stderr=subprocess.STDOUT,
                                     start_new_session=True)
        try:
            # All four ranks are known to the server, and hold leases of the agent.
            for _ in range(2400):
                assert trial.poll() is None, log.read_text()
                with contextlib.suppress(OSError):
                    text = get(port, f"/v1/jobs/{values['JOB']}", uid)[1]
                if '"state":' in text and log.read_text().count("event=lease_granted") >= 4:
                    break
                time.sleep(0.05)
            else:
                raise AssertionError(f"{text}\n{log.read_text()}")
        finally:
            # With its agent and its trainers, whose GPUs go with the machine.
            os.killpg(trial.pid, signal.SIGKILL)
            trial.wait(60)
            subprocess.run([PROGRAM, "sim", "down"], env=environment, check=True)
    assert "Insufficient Permissions" not in log.read_text()


def test_agent_is_no_more_than_its_unit_lets_it():
    unit = (SOURCE / "packaging/flyball-agent.service.in").read_text()
    allowed = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[1].split()
    pod = manifest("agent/daemonset.yaml")["spec"]["template"]["spec"]
    capabilities = pod["containers"][0]["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    assert {f"CAP_{name}" for name in capabilities["add"]} == set(allowed)
    others = [container for name in PODS[1:3] for container in containers(manifest(name)["spec"]["template"]["spec"])]
    assert len(others) == 3
    for container in others:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


# --- The image -----------------------------------------------------------------------------------------------------


def instructions():
    """Pairs of an instruction and its words, continued lines joined."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def hadolint(text):
    return subprocess.run([pathlib.Path(sys.executable).parent / "hadolint", "-"], input=text, text=True,
                          capture_output=True, check=False)


def test_dockerfile_passes_its_linter():
    text = DOCKERFILE.read_text()
    done = hadolint(text)
    assert done.returncode == 0, done.stdout
    assert "DL3020" in hadolint(text.replace("COPY . .", "ADD . .")).stdout


def test_dockerfile_copies_what_is_there():
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().split("\n")
    run = " ".join(words for name, words in instructions() if name == "RUN")
    stages = {words.split()[-1] for name, words in instructions() if name == "FROM" and " AS " in words}
    copies = [shlex.split(words) for name, words in instructions() if name == "COPY"]
    assert len(copies) == 4
    for words in copies:
        source = words[-2]
        if not words[0].startswith("--from="):
            assert (SOURCE / source).exists() and source not in ignored
            continue
        assert words[0][len("--from="):] in stages
        assert f"DESTDIR={source.removesuffix('/usr')} cmake --install /build" in run
    components = re.findall(r"--component (\w+)", run)
    assert components == ["program", "client", "sim"]
    rules = (SOURCE / "packaging/CMakeLists.txt").read_text()
    for component in components:
        assert re.search(rf"COMPONENT {component}\b", rules)
    for option in re.findall(r"-D(FLYBALL_\w+)", run):
        assert option in (SOURCE / "CMakeLists.txt").read_text() + "".join(
            path.read_text() for path in (SOURCE / "cmake").glob("*.cmake"))
    # A Dockerfile's last stage is what is built; it runs as nobody in particular.
    assert [words for name, words in instructions() if name == "FROM"][-1] == "program"
    assert ("USER", "65532:65532") in instructions()


def test_dockerfile_installs_what_programs_are_linked_to():
    release = pathlib.Path("/etc/os-release").read_text() if pathlib.Path("/etc/os-release").exists() else ""
    if "VERSION_CODENAME=bookworm" not in release or not shutil.which("readelf"):
        pytest.skip("the image's packages are those of Debian 12")
    (listed,) = [re.search(r"--no-install-recommends(.*?)&&", words)[1].split()
                 for name, words in instructions() if name == "RUN" and "--no-install-recommends" in words]
    needed = set()
    for name in ("flyball", "pipeline_trainer", "lib/libflyball.so"):
        if not (BUILD / name).exists():
            continue
        direct = re.findall(r"NEEDED.*\[(.*)\]", subprocess.check_output(["readelf", "-d", BUILD / name], text=True))
        found = dict(re.findall(r"(\S+) => (\S+)", subprocess.check_output(["ldd", BUILD / name], text=True)))
        for library in direct:
            path = found.get(library, "")
            if not path or path.startswith(str(BUILD)):
                continue  # the loader itself, or ours
            for candidate in (path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")):
                owner = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True, check=False)
                if owner.returncode == 0:
                    needed.add(owner.stdout.split(":")[0])
                    break
            else:
                raise AssertionError(f"no package has {path}")
    assert needed - {"libc6"} <= set(listed)
    assert set(listed) - needed == {"ca-certificates"}

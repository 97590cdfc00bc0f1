"""flyball.Session as it is installed, on a simulated GPU, without server and agent: what Python adds to the client."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from servers import started
from simulated import PROGRAM, machine

pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")


@pytest.fixture(scope="module")
def one_gpu():
    with machine("--gpus", "1", "--model", "a100", "--time-scale", "10") as environment:
        yield {**environment, "FLYBALL_SIM_PRIVILEGED": "1"}


def run(program, environment):
    """What a program prints as JSON."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_rank_profiles_itself_without_a_server(one_gpu):
    states, csv, window = run("""
        import ctypes, flyball, json
        sim = ctypes.CDLL("libnvidia-ml.so.1")
        states = []
        with flyball.Session(clocks="device", time_scale=10, sampling_s=0.001, settle_s=0, clock_poll_s=0.0001,
                             clock_stride=20, steps_per_clock=2, microbatches=2) as session:
            with session.window() as window:
                while session.state.phase == "profiling":
                    with session.step():
                        for _ in range(2):
                            for kind in ("forward", "backward"):
                                session.set_speed(kind)
                                with session.instruction(kind):
                                    sim.flyball_sim_work(0, kind.encode(), ctypes.c_double(0.1), None)
            states.append(session.state.phase)
            assert session.schedule == [] and session.state.steps > 0
            assert not session.state.server_reachable
            csv = session.profile_csv
        print(json.dumps([states, csv, [window.time_s, window.energy_j]]))
        """, one_gpu)
    assert states == ["idle"]
    lines = csv.splitlines()
    assert lines[0] == "stage,instruction,frequency,time,energy"
    assert lines[1].startswith("0,backward,1410,") and len(lines) > 4
    time_s, energy_j = window
    assert 20 < energy_j / time_s < 400  # watts of an A100 at work


def test_an_engine_that_runs_ahead_is_profiled_in_its_stream(one_gpu):
    """The whole step is queued before its first computation is done. A forward takes 0.1 s at the highest clock, and a
    backward twice that; the tenths of a millisecond that a thread needs to wake up count tenfold."""
    csv, refused = run(f"""
        import ctypes, flyball, json
        refused = []
        cuda = ctypes.CDLL({os.path.join(os.path.dirname(PROGRAM), "sim/cuda/libcuda.so.1")!r})
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        with flyball.Session(clocks="device", time_scale=10, sampling_s=0.001, settle_s=0, clock_poll_s=0.0001,
                             clock_stride=20, steps_per_clock=2, microbatches=2) as session:
            try:
                session.set_speed_in("forward")
            except ValueError as error:
                refused.append(str(error))
            while session.state.phase == "profiling":
                with session.step():
                    for _ in range(2):
                        for kind, seconds in (("forward", 0.1), ("backward", 0.2)):
                            session.set_speed_in(kind, stream.value)
                            with session.instruction_in(kind, stream.value):
                                cuda.flyball_sim_queue_work(stream, kind.encode(), ctypes.c_double(seconds))
                    cuda.cuStreamSynchronize(stream)
            csv = session.profile_csv
        print(json.dumps([csv, refused]))
        """, one_gpu)
    assert refused == ["there is no PyTorch that uses a GPU in this process: pass the stream"]
    times = {tuple(line.split(",")[1:3]): float(line.split(",")[3]) for line in csv.splitlines()[1:]}
    assert 0.0999 < times["forward", "1410"] < 0.15
    assert 0.1999 < times["backward", "1410"] < 0.25


def test_hooks_follow_a_gpu_that_pytorch_runs_ahead_of(one_gpu):
    """The same by hooks, with PyTorch's current stream: a forward and a loss of 0.05 s each, a backward of 0.2 s, and an
    optimizer's step of 0.03 s."""
    csv, waits, steps = run(f"""
        import ctypes, flyball, json, sys, types
        cuda = ctypes.CDLL({os.path.join(os.path.dirname(PROGRAM), "sim/cuda/libcuda.so.1")!r})
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        waits = []

        def synchronize(*_):
            waits.append(1)
            cuda.cuStreamSynchronize(stream)

        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(
            is_initialized=lambda: True, is_available=lambda: True, synchronize=synchronize,
            current_stream=lambda: types.SimpleNamespace(cuda_stream=stream.value))
        sys.modules["torch"] = torch

        def queues(kind, seconds):
            return lambda: cuda.flyball_sim_queue_work(stream, kind, ctypes.c_double(seconds))

        with flyball.Session(clocks="device", time_scale=10, sampling_s=0.001, settle_s=0, clock_poll_s=0.0001,
                             clock_stride=20, steps_per_clock=2, microbatches=2) as session:
            forward = session.hook_begin("forward", queues(b"forward", 0.05))
            loss = session.hook_end("forward", queues(b"forward", 0.05))
            backward = session.hook("backward", queues(b"backward", 0.2))
            optimizer = session.hook("optimizer_step", queues(b"forward", 0.03))

            @session.hook_step
            def step():
                for _ in range(2):
                    forward(), loss(), backward()
                optimizer()

            steps = 0
            while session.state.phase == "profiling":
                step()
                cuda.cuStreamSynchronize(stream)  # steps that nobody measures do not wait
                steps += 1
            csv = session.profile_csv
        print(json.dumps([csv, len(waits), steps]))
        """, one_gpu)
    times = {tuple(line.split(",")[1:3]): float(line.split(",")[3]) for line in csv.splitlines()[1:]}
    assert 0.0999 < times["forward", "1410"] < 0.15
    assert 0.1999 < times["backward", "1410"] < 0.25
    assert 0.0299 < times["optimizer_step", "1410"] < 0.06
    assert waits <= steps + 1  # the session waits for the GPU at the end of a step only; the last step may not be measured


def test_arguments_that_do_not_fit_are_value_errors(one_gpu):
    words = run("""
        import flyball, json
        words = []
        def refused(action):
            try:
                action()
            except flyball.UsageError as error:
                assert isinstance(error, ValueError)
                words.append(str(error))
        refused(lambda: flyball.Session(clocks="none", steps_per_clock=0))
        refused(lambda: flyball.Session(clocks="none", server="planner:4940"))
        refused(lambda: flyball.Session(clocks="none", server="planner:4940", job="job", token="t" * 32, ca_file="ca"))
        session = flyball.Session(clocks="none")
        refused(lambda: session.end("forward"))
        refused(lambda: session.set_straggler(0, degree=0.5))
        assert session.order_held() == 0 and session.order_in_use == [] and session.state.order == 0
        session.use_order(0)
        refused(lambda: session.use_order(5))
        with session.step():
            refused(session.order_held)
        session.close()
        try:
            session.state
        except flyball.DeviceError as error:
            words.append(str(error))
        print(json.dumps(words))
        """, one_gpu)
    told = ["steps_per_clock", "token", "https://", "not begun", "degree", "order 5 is not what", "between steps",
            "this session is closed"]
    assert len(words) == len(told) and all(part in sentence for part, sentence in zip(told, words)), words


def test_options_are_read_as_they_are_given(one_gpu):
    assert run("""
        import flyball, json
        class Number:  # as NumPy's
            def tolist(self):
                return 3
        flyball.Session(clocks="none", stages=2, rank=Number(), pp_rank=1, memory_limit=range(1, 3),
                        blocking_w=(60, 70.5)).close()
        flyball.Session(clocks="none", memory_limit=2, blocking_w=0.0).close()
        words = []
        for wrong in dict(stages="two"), dict(chunks=65), dict(noise=float("nan")), dict(profile=2):
            try:
                flyball.Session(clocks="none", **wrong)
            except ValueError as error:
                words.append(str(error))
        assert "stages: is \\"two\\", not a whole number" in words[0], words
        assert "chunks: is 65, out of range" in words[1], words
        assert "profile: is 2, not true or false" in words[3], words
        print(json.dumps(len(words)))
        """, one_gpu) == 4


def test_training_goes_on_without_a_gpu(one_gpu):
    assert run("""
        import flyball, json, warnings
        try:
            flyball.Session(gpu=7)
        except flyball.DeviceError as error:
            assert "7" in str(error), error
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session = flyball.Session(gpu=7, required=False)
        assert "training without Flyball" in str(caught[0].message)
        forward = session.hook("forward", lambda x: 2 * x)
        with session.step():
            session.set_speed("forward")
            with session.instruction("forward"), session.window():
                pass
        assert session.state == flyball.SessionState() and session.schedule == []
        session.use_order(session.order_held())
        assert session.order_in_use == []
        assert session.profile_csv.count("\\n") == 1
        session.set_straggler(-1, degree=2.0)
        session.close()
        print(json.dumps([session.hook_step(forward)(4), forward(5)]))
        """, one_gpu) == [8, 10]


def test_a_server_is_told_of_a_rank_that_has_no_gpu(one_gpu, tmp_path):
    """The second of two ranks has no GPU: it trains without a session, and whoever asks for the job sees why it waits."""
    socket, token = tmp_path / "server.sock", tmp_path / "token"
    token.write_text("t" * 32)
    token.chmod(0o600)
    with started([PROGRAM, "serve", "--in-memory", "--socket", socket], socket, one_gpu, tmp_path / "server.log"):
        assert run(f"""
            import flyball, json, warnings
            warnings.simplefilter("ignore")
            with flyball.Session(server={str(socket)!r}, job="job", token="t" * 32, stages=2, rank=1, pp_rank=1, gpu=7,
                                 required=False) as session, session.step():
                print(json.dumps(session.state.phase))
            """, one_gpu) == "idle"
        told = subprocess.run([PROGRAM, "jobs", "job", "--server", socket, "--token-file", token], check=True,
                              capture_output=True, text=True).stdout
    assert "registering 1/2, 1 cannot" in told, told
    assert "rank 1 (pipeline 0, stage 1) does not profile itself, since 20" in told
    assert "its GPU cannot be used: " in told and "7" in told.partition("its GPU cannot be used: ")[2]
    assert "does not profile itself" in (tmp_path / "server.log").read_text()


# The session's thread calls Python while the program's own waits in C++, and after an exception training goes on.
def test_notices_and_exceptions(one_gpu):
    notices = run("""
        import flyball, json, time
        notices = []
        with flyball.Session(server="127.0.0.1:9", job="job", token="t" * 32, clocks="none", profile=False,
                             notice=notices.append) as session:
            deadline = time.monotonic() + 60
            while not notices and time.monotonic() < deadline:
                time.sleep(0.01)
            for _ in range(2):
                try:
                    with session.step(), session.instruction("forward"):
                        raise ZeroDivisionError
                except ZeroDivisionError:
                    pass
            assert session.state.steps == 2, session.state
        print(json.dumps(notices))
        """, one_gpu)
    assert len(notices) == 1 and "training goes on" in notices[0]


def test_a_server_with_a_certificate_of_its_own(one_gpu, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl is not installed")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out",
                    certificate, "-subj", "/CN=flyball", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                   capture_output=True)
    server = subprocess.Popen([PROGRAM, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--tls-cert", certificate,
                               "--tls-key", key], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().rpartition(" ")[2].strip()
        assert run(f"""
            import flyball, json, time
            job = dict(server="{address}", job="job", token="t" * 32, clocks="none", profile=False)
            with flyball.Session(**job, ca_file="{certificate}") as session:
                deadline = time.monotonic() + 60
                while not session.state.server_reachable and time.monotonic() < deadline:
                    time.sleep(0.01)
                reachable = session.state.server_reachable
            notices = []  # of a rank that says something else of the job
            for changes in dict(switch_latency_s=0.01), dict(min_dwell_s=0.05):
                with flyball.Session(**job, **changes, ca_file="{certificate}", notice=notices.append):
                    deadline = time.monotonic() + 60
                    while not notices and time.monotonic() < deadline:
                        time.sleep(0.01)
                assert "another job" in notices.pop(), changes
            try:
                flyball.Session(**job, ca_file="{key}")
            except flyball.DeviceError as error:
                assert "holds no certificates" in str(error), error
                print(json.dumps(reachable))
            """, one_gpu) is True
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_a_forked_child_leaves_the_session_alone(one_gpu):
    assert run("""
        import flyball, json, os
        session = flyball.Session(clocks="none", profile=False)
        child = os.fork()
        if child == 0:
            try:
                session.step_begin()
            except flyball.DeviceError as error:
                session.close()
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with session.step():
            pass
        session.close()
        print(json.dumps(status))
        """, one_gpu) == 0

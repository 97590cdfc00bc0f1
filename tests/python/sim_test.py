"""Other people's programs, unmodified, on simulated GPUs."""
import pathlib

import pytest
import simulated

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.parametrize("script", ["sim_nvidia_ml_py.py", "sim_zeus.py"])
def test_on_simulated_gpus(script):
    arguments = ["--gpus", "2", "--model", "a100", "--time-scale", "20"]
    assert simulated.run(str(FOLDER / script), arguments) == 0

"""The callbacks for Hugging Face's Trainer and PyTorch Lightning in their own training loops, on the processor, with
tiny models that are made here: nothing is downloaded. The joules are those of an idle simulated GPU."""

import json
import subprocess
import sys
import textwrap

import pytest
from simulated import machine

SETUP = """
import json, time
import flyball, torch
meter = flyball.EnergyMeter(gpus=[0], cpus=False, synchronize=None)
PAUSE_S, STEPS, EPOCHS = 0.05, 4, 2
"""

HUGGING_FACE = SETUP + """
from flyball.integrations.transformers import FlyballCallback
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
import sys

config = GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0,
                    eos_token_id=0)
tokens = torch.arange(8) % 32

class Slow(GPT2LMHeadModel):
    def forward(self, input_ids=None, labels=None, **named):
        time.sleep(PAUSE_S)
        return super().forward(input_ids=input_ids, labels=labels, **named)

callback = FlyballCallback(meter)
arguments = TrainingArguments(output_dir=sys.argv[1], num_train_epochs=EPOCHS, per_device_train_batch_size=2,
                              logging_steps=2, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True)
trainer = Trainer(model=Slow(config), args=arguments, callbacks=[callback],
                  train_dataset=[{"input_ids": tokens, "labels": tokens}] * (2 * STEPS))
begin = time.monotonic()
trainer.train()
logged = [line for line in trainer.state.log_history if "flyball_energy_j" in line]
"""

LIGHTNING = SETUP + """
import pytorch_lightning as lightning
from flyball.integrations.lightning import FlyballCallback
import sys

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        time.sleep(PAUSE_S)
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

class Seen(lightning.Callback):
    def on_train_epoch_end(self, trainer, module):
        logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})

logged = []
callback = FlyballCallback(meter)
loader = torch.utils.data.DataLoader(torch.randn(2 * STEPS, 4), batch_size=2)
trainer = lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", callbacks=[callback, Seen()], logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                            default_root_dir=sys.argv[1])
begin = time.monotonic()
trainer.fit(Model(), loader)
"""

REPORT = """
took_s = time.monotonic() - begin
print("REPORT", json.dumps({"took_s": took_s, "run": callback.run.as_dict(), "logged": logged,
                  "epochs": [epoch.as_dict() for epoch in callback.epochs]}))
"""


@pytest.fixture(scope="module")
def one_gpu():
    with machine("--gpus", "1", "--model", "a100") as environment:
        yield environment


@pytest.mark.parametrize("program", [HUGGING_FACE, LIGHTNING], ids=["transformers", "lightning"])
def test_joules_of_a_real_training(program, one_gpu, tmp_path):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program + REPORT), tmp_path], env=one_gpu,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.rpartition("REPORT ")[2])
    run, epochs, logged = report["run"], report["epochs"], report["logged"]
    # Eight steps of at least 50 ms; an idle A100 draws some tens of watts all the time.
    assert 8 * 0.05 <= run["time_s"] <= report["took_s"]
    idle_w = run["energy_j"] / run["time_s"]
    assert 20 < idle_w < 100
    assert len(epochs) == 2
    for epoch in epochs:
        assert epoch["time_s"] >= 4 * 0.05
        assert epoch["energy_j"] / epoch["time_s"] == pytest.approx(idle_w, rel=0.1)
    assert sum(epoch["energy_j"] for epoch in epochs) <= run["energy_j"] * 1.02
    assert [line["flyball_energy_j"] for line in logged] == sorted(line["flyball_energy_j"] for line in logged)
    assert len(logged) >= 2
    for line in logged:
        assert line["flyball_mean_w"] == pytest.approx(idle_w, rel=0.1)
    assert all(line["flyball_j_per_step"] > 0 for line in logged[:2])
    assert logged[-1]["flyball_energy_j"] <= run["energy_j"] * 1.02

"""DeepSpeed's PipelineEngine, which runs 1F1B, on its own CPU accelerator (DS_ACCELERATOR=cpu)."""

import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.pipe import PipelineModule
from deepspeed.runtime.pipe import schedule
from trainer import BATCH, all_are, batch_of, layers, manual_code


class Engine:
    def __init__(self, options, board):
        self.options = options
        ranks = dist.get_world_size()
        # A faster all-reduce, which it would compile first.
        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
        deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
        modules = [layers(number) for number in range(ranks)]
        model = PipelineModule(modules, num_stages=ranks, loss_fn=board.loss(torch.nn.functional.mse_loss),
                               partition_method="uniform")
        config = {"train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": options.microbatches,
                  "train_batch_size": BATCH * options.microbatches, "steps_per_print": 10**9}
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        optimizer.register_step_post_hook(board.work_of_optimizer)
        self.engine, *_ = deepspeed.initialize(model=model, config=config, optimizer=optimizer)
        self.parameters = list(model.parameters())
        instructions = dict(self.engine._INSTRUCTION_MAP)
        for kind, on_gpu in ((schedule.ForwardPass, board.forward), (schedule.BackwardPass, board.backward)):
            instructions[kind] = on_gpu(instructions[kind])
        self.engine._INSTRUCTION_MAP = instructions

    def iterate(self, step, done):
        batch, target = batch_of(step, self.options.microbatches)
        loss = self.engine.train_batch(data_iter=iter(zip(batch.split(BATCH), target.split(BATCH))))
        return [loss.item()], all_are(done)

    def hook(self):
        manual_code("hooking-deepspeed.md")["hook_flyball"](self.engine)

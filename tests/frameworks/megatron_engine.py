"""Megatron Core's pipeline schedules. Its tensors are on the GPU throughout; here "cuda" is the processor. The package
has no training loop: `megatron.training` is the few lines below, which call what Megatron's own calls."""

import sys
import types

import torch
import torch.distributed as dist
from trainer import BATCH, WIDTH, all_are, batch_of, layers, manual_code

torch.cuda.current_device = lambda: torch.device("cpu")
_zeros = torch.zeros
torch.zeros = lambda *shape, device=None, **more: _zeros(*shape, device="cpu" if device == "cuda" else device, **more)

from megatron.core import parallel_state  # noqa: E402
from megatron.core.enums import ModelType  # noqa: E402
from megatron.core.num_microbatches_calculator import (  # noqa: E402
    get_num_microbatches, init_num_microbatches_calculator)
from megatron.core.pipeline_parallel import schedules  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402


class Stage(torch.nn.Module):
    """What the schedules ask of a model chunk."""

    def __init__(self, number, config):
        super().__init__()
        self.layers, self.config, self.model_type = layers(number), config, ModelType.encoder_or_decoder
        self.input = None

    def set_input_tensor(self, tensors):
        self.input = tensors[0]

    def forward(self, batch):
        return self.layers(batch if self.input is None else self.input)


class Engine:
    def __init__(self, options, board):
        self.options, self.board = options, board
        self.rank, ranks = dist.get_rank(), dist.get_world_size()
        self.chunks = 2 if options.schedule.startswith("Interleaved1F1B") else 1
        parallel_state.initialize_model_parallel(
            pipeline_model_parallel_size=ranks,
            virtual_pipeline_model_parallel_size=self.chunks if self.chunks > 1 else None)
        init_num_microbatches_calculator(rank=self.rank, rampup_batch_size=None,
                                         global_batch_size=options.microbatches * BATCH, micro_batch_size=BATCH,
                                         data_parallel_size=1)
        self.config = TransformerConfig(
            num_layers=ranks * self.chunks, hidden_size=WIDTH, num_attention_heads=1, pipeline_dtype=torch.float32,
            pipeline_model_parallel_size=ranks, batch_p2p_comm=False,
            overlap_p2p_comm=options.schedule == "Interleaved1F1B",  # what Megatron-LM does unless it is told not to
            virtual_pipeline_model_parallel_size=self.chunks if self.chunks > 1 else None)
        self.config.finalize_model_grads_func = lambda *_, **__: None
        self.model = [Stage(chunk * ranks + self.rank, self.config) for chunk in range(self.chunks)]
        self.parameters = [parameter for chunk in self.model for parameter in chunk.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3)
        self.optimizer.register_step_post_hook(board.work_of_optimizer)
        schedules.forward_step = board.forward(schedules.forward_step, self.chunks)
        schedules.backward_step = board.backward(schedules.backward_step, self.chunks)
        self.loss = board.loss(torch.nn.functional.mse_loss)
        self.training = types.ModuleType("megatron.training.training")
        self.training.train_step = self.train_step

    def forward_step_func(self, data, model):
        batch, target = next(data)
        # Sequence first, as Megatron's activations are: the pipeline's tensors are (sequence, batch, width).
        output = model(batch.unsqueeze(0))
        return output, lambda output: self.losses_of(output, target)

    def losses_of(self, output, target):
        loss = self.loss(output, target.unsqueeze(0))
        return loss, {"loss": loss.item()}

    def train_step(self, forward_step_func, data_iterator, model, optimizer, opt_param_scheduler, config,
                   forward_backward_func):
        optimizer.zero_grad()
        losses = forward_backward_func(
            forward_step_func=forward_step_func, data_iterator=data_iterator, model=model,
            num_microbatches=get_num_microbatches(), seq_length=1, micro_batch_size=BATCH, forward_only=False)
        optimizer.step()
        return [loss["loss"] for loss in losses], all_are(self.done)

    def iterate(self, step, done):
        self.done = done
        batch, target = batch_of(step, self.options.microbatches)
        data = [iter(list(zip(batch.split(BATCH), target.split(BATCH)))) for _ in self.model]
        return self.training.train_step(
            self.forward_step_func, data if self.chunks > 1 else data[0],
            self.model if self.chunks > 1 else self.model[0], self.optimizer, None, self.config,
            schedules.get_forward_backward_func())

    def hook(self):
        package = types.ModuleType("megatron.training")
        package.get_args = lambda: types.SimpleNamespace(rank=self.rank, local_rank=self.rank)
        package.training = self.training
        sys.modules.update({"megatron.training": package, "megatron.training.training": self.training})
        manual_code("hooking-megatron.md")

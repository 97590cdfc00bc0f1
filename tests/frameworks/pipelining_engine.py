"""torch.distributed.pipelining, with any of its schedules that Flyball plans."""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from trainer import all_are, batch_of, layers, manual_code

SCHEDULES = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe, "Interleaved1F1B": ScheduleInterleaved1F1B}


class Engine:
    def __init__(self, options, board):
        self.options, self.board = options, board
        rank, ranks = dist.get_rank(), dist.get_world_size()
        chunks = 2 if options.schedule == "Interleaved1F1B" else 1
        numbers = [chunk * ranks + rank for chunk in range(chunks)]
        modules = [layers(number) for number in numbers]
        self.stages = [PipelineStage(module, number, chunks * ranks, torch.device("cpu"))
                       for module, number in zip(modules, numbers)]
        for stage in self.stages:
            stage.forward_one_chunk = board.forward(stage.forward_one_chunk, chunks)
            stage.backward_one_chunk = board.backward(stage.backward_one_chunk, chunks)
        self.schedule = SCHEDULES[options.schedule](self.stages if chunks > 1 else self.stages[0], options.microbatches,
                                                    loss_fn=board.loss(torch.nn.functional.mse_loss))
        self.parameters = [parameter for module in modules for parameter in module.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3)
        self.optimizer.register_step_post_hook(board.work_of_optimizer)  # before the hook that ends what is timed

    def iterate(self, step, done):
        """Ends on all ranks together, as where gradients are clipped."""
        batch, target = batch_of(step, self.options.microbatches)
        self.optimizer.zero_grad()
        losses = []
        arguments = [batch] if self.stages[0].is_first else []
        if self.stages[-1].is_last:
            self.schedule.step(*arguments, target=target, losses=losses)
        else:
            self.schedule.step(*arguments)
        self.optimizer.step()
        return [loss.item() for loss in losses], all_are(done)

    def hook(self):
        hook_flyball = manual_code("hooking-pipelining.md")["hook_flyball"]
        session = hook_flyball(self.stages, self.schedule, self.optimizer, self.options.microbatches)
        self.iterate = session.hook_step(self.iterate)

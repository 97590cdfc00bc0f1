"""PyTorch's profiler told where it is in a model, and its traces in a file that `flyball account` reads.

    with flyball.torch.annotate(model), torch.profiler.profile() as profiler:
        train_a_step()
    profiler.export_chrome_trace("trace.json")  # rows such as encoder/layer/3/attention/query/aten::addmm
"""

from flyball.torch.annotation import Annotation, annotate
from flyball.torch.model_account import ModelAccount
from flyball.torch.profiling import Profile

__all__ = ["Annotation", "ModelAccount", "Profile", "annotate"]

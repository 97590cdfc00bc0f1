"""The training of docs/manual/account.md that knows nothing of Flyball."""
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU())
        self.head = torch.nn.Linear(512, 256)

    def forward(self, x):
        return self.head(self.encoder(x))


model = Model()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(60):
    optimizer.zero_grad()
    model(torch.ones(256, 256)).square().mean().backward()
    optimizer.step()

"""Small models to train, of kinds that people have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from stopwav.record import Record
from stopwav.studies.step.run import step

# The reference, of sizes that train in no time.
TINY = "conformer-transducer,layers=2,width=16,heads=2,feed_forward=24,kernel=3,symbols=20"


def run_steps(model: nn.Module, make_batch: Any, loss_fn: Any, folder: Path, **options: Any) -> Record:
    """Return the run of a few steps of a model."""
    optimizer = options.pop("optimizer", None) or torch.optim.AdamW(model.parameters(), lr=1e-4)
    return step(model, make_batch, loss_fn, optimizer, steps=options.pop("steps", 3), save=folder, **options)


def rows_of(results: list[Any]) -> dict[str, Any]:
    """Return the results of rows by name."""
    return {result.name: result for result in results if result.params["kind"] not in ("step", "rank")}


def small_cnn() -> nn.Module:
    """Convolutions, batch norms and in-place activations in blocks, as networks for images have them."""

    def block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

    class Cnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = block(3, 8)
            self.blocks = nn.Sequential(block(8, 8), block(8, 8))
            self.head = nn.Linear(8, 5)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))

    return Cnn()


class SmallLstm(nn.Module):
    """An LSTM between an embedding and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.lstm = nn.LSTM(16, 16, num_layers=2, batch_first=True)
        self.out = nn.Linear(16, 30)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(tokens))[0])

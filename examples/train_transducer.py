"""A small transducer learns 20 utterances by heart: what `transducer_loss` is given, and what comes of it.

python examples/train_transducer.py [UTTERANCES]
"""

import sys
import time

import torch
from torch import nn

from stopwav.losses import transducer_loss
from stopwav.models.features import LogMel
from stopwav.speech.audio import load
from stopwav.speech.corpus import bundled_corpus

torch.manual_seed(0)
HIDDEN, WIDTH = 160, 64  # of the networks, and of the joiner: its cells are many
STACK = 12  # frames of 10 ms that become one: a transducer may take several letters in a frame
EPOCHS, BATCH = 50, 4
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20
LETTERS = "abcdefghijklmnopqrstuvwxyz' "  # 0 is the blank, so letters begin at 1

# By length, so that a batch has little padding.
utterances = sorted(bundled_corpus().utterances[:COUNT], key=lambda utterance: len(utterance.text or ""))
features = [LogMel()(torch.from_numpy(load(utterance.path, 16_000).samples)) for utterance in utterances]
frames = [mel[: len(mel) // STACK * STACK].reshape(-1, STACK * mel.shape[1]) for mel in features]
spoken = [(utterance.text or "").lower() for utterance in utterances]
texts = [[LETTERS.index(letter) + 1 for letter in text if letter in LETTERS] for text in spoken]

audio = nn.utils.rnn.pad_sequence(frames, batch_first=True)
audio = (audio - torch.cat(frames).mean(0)) / torch.cat(frames).std(0)
targets = nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
# Lengths stay on the host, so that the loss knows how many cells are real and computes no others.
frame_lengths, target_lengths = torch.tensor([*map(len, frames)]), torch.tensor([*map(len, texts)])


class Transducer(nn.Module):
    """Encoder, predictor, and the joiner's linear layer, which the loss applies itself."""

    def __init__(self) -> None:
        super().__init__()
        self.listen = nn.LSTM(audio.shape[2], HIDDEN, bidirectional=True, batch_first=True)
        self.encoding = nn.Linear(2 * HIDDEN, WIDTH)
        self.embedding = nn.Embedding(len(LETTERS) + 1, HIDDEN)
        self.read = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.prediction = nn.Linear(HIDDEN, WIDTH)
        self.joiner = nn.Linear(WIDTH, len(LETTERS) + 1)

    def encode(self, features: torch.Tensor) -> torch.Tensor:
        """A vector for each frame: `(batch, frames, WIDTH)`."""
        encodings: torch.Tensor = self.encoding(self.listen(features)[0])
        return encodings

    def predict(self, symbols: torch.Tensor) -> torch.Tensor:
        """A vector after each number of symbols, from none to all: `(batch, symbols + 1, WIDTH)`."""
        predictions: torch.Tensor = self.prediction(self.read(self.embedding(nn.functional.pad(symbols, (1, 0))))[0])
        return predictions


@torch.no_grad()
def transcribe(model: Transducer, index: int) -> str:
    """The likeliest symbol at every step, of one utterance."""
    symbols: list[int] = []
    prediction = model.predict(torch.tensor([symbols], dtype=torch.int64))[0, -1]
    for encoding in model.encode(audio[index : index + 1, : frame_lengths[index]])[0]:
        while (symbol := int(model.joiner(torch.tanh(encoding + prediction)).argmax())) and len(symbols) < 200:
            symbols.append(symbol)
            prediction = model.predict(torch.tensor([symbols]))[0, -1]
    return "".join(LETTERS[symbol - 1] for symbol in symbols)


model = Transducer()
optimiser = torch.optim.Adam(model.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-2, total_steps=EPOCHS * len(texts) // BATCH)
start = time.perf_counter()
for epoch in range(1, EPOCHS + 1):
    total = 0.0
    for rows in torch.randperm(len(texts) // BATCH)[:, None] * BATCH + torch.arange(BATCH):
        longest, most = frame_lengths[rows].max(), target_lengths[rows].max()
        loss = transducer_loss(
            *(model.encode(audio[rows, :longest]), model.predict(targets[rows, :most])),
            *(model.joiner.weight, model.joiner.bias),
            *(targets[rows, :most], frame_lengths[rows], target_lengths[rows]),
        )
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        schedule.step()
        total += loss.item() * BATCH / len(texts)
    if epoch % 10 == 0:
        print(f"epoch {epoch}: {total:.3f} nats an utterance, {time.perf_counter() - start:.0f} s", flush=True)

written = ["".join(LETTERS[symbol - 1] for symbol in text) for text in texts]
right = sum(transcribe(model, index) == text for index, text in enumerate(written))
print(f"{right} of {len(texts)} transcripts without a mistake; the first: {transcribe(model, 0)!r}")

"""Search over a transducer written for reading: texts are tuples, each has its own state of the predictor."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from stopwav.models.transducer import Joiner, Predictor

Text = tuple[int, ...]


class Network:
    """A predictor and a joiner, asked for one text in one frame."""

    def __init__(self, predictor: Predictor, joiner: Joiner) -> None:
        self.predictor = predictor
        self.joiner = joiner
        self.blank = joiner.linear.out_features - 1
        self._after: dict[Text, tuple[Tensor, Tensor]] = {}

    def after(self, text: Text) -> tuple[Tensor, Tensor]:
        """The prediction after a text, and the state of the predictor."""
        if text not in self._after:
            states = self.after(text[:-1])[1] if text else self.predictor.initial_state()[None]
            self._after[text] = self.predictor(torch.tensor([text[-1] if text else self.blank]), states)
        return self._after[text]

    def scores(self, encoding: Tensor, text: Text) -> Tensor:
        """The log-probabilities of all symbols."""
        return self.joiner(encoding, self.after(text)[0][0]).log_softmax(-1)


def greedy(network: Network, encodings: Tensor, max_symbols: int) -> Text:
    """The text that takes the likeliest symbol, until that is blank."""
    text: Text = ()
    for encoding in encodings:
        for _ in range(max_symbols):
            likeliest = int(network.scores(encoding, text).argmax())
            if likeliest == network.blank:
                break
            text = (*text, likeliest)
    return text


def beam_search(network: Network, encodings: Tensor, beam: int, max_symbols: int) -> list[tuple[Text, float]]:
    """The texts and their log-probabilities, best first."""
    texts: dict[Text, float] = {(): 0.0}
    for encoding in encodings:
        texts = _one_frame(network, encoding, texts, beam, max_symbols)
    return list(texts.items())


def _one_frame(
    network: Network, encoding: Tensor, texts: dict[Text, float], beam: int, max_symbols: int
) -> dict[Text, float]:
    ended: dict[Text, float] = {}
    growing = texts
    for length in range(max_symbols + 1):
        longer: dict[Text, float] = {}
        for text, score in growing.items():
            *scores, blank = network.scores(encoding, text).tolist()
            ended[text] = math.log(math.exp(ended.get(text, -math.inf)) + math.exp(score + blank))
            longer |= {(*text, symbol): score + more for symbol, more in enumerate(scores)}
        if length == max_symbols:
            break
        enough = sorted(ended.values(), reverse=True)[beam - 1 : beam]
        growing = {
            text: longer[text] for text in _best(longer, longer.get, beam) if not enough or longer[text] > enough[0]
        }
        if not growing:
            break
    return {text: ended[text] for text in _best(ended, lambda text: ended[text] / (len(text) + 2), beam)}


def _best(texts: Iterable[Text], score: Callable[[Text], float], count: int) -> list[Text]:
    return sorted(texts, key=score, reverse=True)[:count]

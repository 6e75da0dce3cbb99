"""A transducer loss of your own: `stopwav loss examples/my_loss.py:my_loss torch --batch-size 2 --vocab 100`.

It is given padded logits and int64 targets and lengths, and returns the loss of each utterance, or their sum. One that
wants something else says so: `my_loss.py:my_loss,logits=packed,log_softmax=outside,integers=int32`.
"""

import torch
from torch import Tensor


def my_loss(logits: Tensor, targets: Tensor, frame_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """-log p of each utterance, a frame at a time: the tokens of one frame are a cumulative sum."""
    count, frames, _, _ = logits.shape
    scores = logits.log_softmax(-1)
    blanks = scores[..., blank]
    wanted = targets[:, None, :, None].expand(count, frames, -1, 1)
    tokens = scores[:, :, :-1].gather(3, wanted).squeeze(3)
    # What it takes to have said the first u tokens, all within frame t.
    said = torch.nn.functional.pad(tokens, (1, 0)).cumsum(2)
    alphas = [said[:, 0]]
    for t in range(1, frames):
        entered = alphas[-1] + blanks[:, t - 1]
        alphas.append(said[:, t] + torch.logcumsumexp(entered - said[:, t], 1))
    ends = torch.stack(alphas, 1) + blanks
    return -ends[torch.arange(count), frame_lengths - 1, target_lengths]

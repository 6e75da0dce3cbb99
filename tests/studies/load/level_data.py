"""Rounds of a level as its file holds them, with sessions written by hand."""

from pathlib import Path

from stopwav.speech.events import RemoteFacts, remote_trace
from stopwav.speech.utterance import Utterance, Word
from stopwav.studies.load.level_table import read_level

# Two words in a second of audio; the last one ends 0.1 s before the audio does.
UTTERANCE = Utterance("u", Path("u.wav"), "red fox", words=(Word("red", 0.1, 0.5), Word("fox", 0.5, 0.9)))
CHUNKS = [round(0.1 * number, 1) for number in range(1, 11)]
STEADY_S = 20.0


def session(first=0.2, second=0.2, final=0.2, *, begin_s=0.0, late_s=0.0, ready_s=-0.01, held_s=0.0, text="red fox"):
    """A session that is over: each word is seen so long after its end, the final text so long after the audio's."""
    words = text.split()
    texts = [(0.5 + first, words[0]), (0.9 + second, text)]
    texts.append((max(1.0 + final, texts[-1][0]), text))
    sent_s = [max(due_s, ready_s) + late_s for due_s in CHUNKS]
    # As a server does it: what comes after the end of the audio is the final text.
    trace = remote_trace((1.0, 0.1, 0.0), [*CHUNKS, 1.0], [*sent_s, sent_s[-1]], texts, (), RemoteFacts(0.001))
    return fields(begin_s, True, None, ready_s, held_s, trace.to_json())


def unfinished(begin_s=0.0, shown=True):
    """A session that had only said its first word when it was cut, or nothing."""
    texts = [(0.7, "red")] if shown else []
    trace = remote_trace((1.0, 0.1, 0.0), [*CHUNKS, 1.0], [*CHUNKS, 1.0], texts, (), RemoteFacts())
    return fields(begin_s, False, None, 0.0, 0.0, trace.to_json())


def failed(reason="closed", begin_s=0.0, sent=True):
    """A session that failed after its audio, without a text, or before the server accepted it."""
    trace = remote_trace((1.0, 0.1, 0.0), CHUNKS, CHUNKS, [], (), RemoteFacts()).to_json() if sent else {}
    return fields(begin_s, True, [reason, f"server: {reason}"], 0.0 if sent else None, 0.0, trace)


def fields(begin_s, over, failure, ready_s, held_s, trace):
    return {
        "utterance": "u",
        "begin_s": begin_s,
        "part": "steady",
        "over": over,
        "failure": failure,
        "ready_s": ready_s,
        "held_s": held_s,
        "trace": trace,
    }


def level(*rounds, processors=(0.1,), virtual=False):
    """The level of these rounds, each a list of sessions."""
    data = {
        index: {
            "ramp_s": 2.0,
            "steady_s": STEADY_S,
            "processors": list(processors),
            "sessions": sessions,
            "faults": [],
            "looks": [],
            **({} if virtual else {"prime_s": 0.1}),
        }
        for index, sessions in enumerate(rounds)
    }
    return read_level([UTTERANCE], 4, data)

"""The same utterances in every format of corpora, each written by the format's own package where there is one."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

RATE_HZ = 16_000
# A word is this long, and follows as long a silence: whoever listens for levels can count them.
WORD_S = 0.2


@dataclass(frozen=True)
class Spoken:
    """An utterance: bursts of noise for its words, each after a silence of the same length."""

    id: str
    words: tuple[str, ...]
    speaker: str
    samples: NDArray[np.int16]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def times_s(self) -> list[tuple[str, float, float]]:
        return [(word, (2 * i + 1) * WORD_S, 2 * (i + 1) * WORD_S) for i, word in enumerate(self.words)]

    @property
    def duration_s(self) -> float:
        return len(self.samples) / RATE_HZ


@dataclass(frozen=True)
class Written:
    """A corpus on disk: its name for --corpus, and the id there of each utterance."""

    name: str
    ids: dict[str, str]
    has_texts: bool = True
    # Whether the format itself says when each word is spoken.
    has_times: bool = False


def make_spoken() -> list[Spoken]:
    """Return six utterances of one to three words, by two speakers; each has samples of its own."""
    noise = np.random.default_rng(0)
    spoken = []
    for number in range(6):
        words = ("one", "two", "three")[: 1 + number % 3]
        levels = [level for _ in words for level in (5, 9000)] + [5]
        parts = [noise.integers(-level, level, round(WORD_S * RATE_HZ)) for level in levels]
        speaker = ("ann", "bob")[number % 2]
        spoken.append(Spoken(f"u{number}", words, speaker, np.concatenate(parts).astype(np.int16)))
    return spoken


def write_ctm(path: Path, spoken: Sequence[Spoken], ids: dict[str, str]) -> Path:
    """Write the times of all words under the ids of a corpus."""
    lines = [f"{ids[u.id]} 1 {a:.3f} {b - a:.3f} {word}\n" for u in spoken for word, a, b in u.times_s]
    path.write_text("".join(lines))
    return path


def _same_ids(spoken: Sequence[Spoken]) -> dict[str, str]:
    return {utterance.id: utterance.id for utterance in spoken}


def _files(folder: Path, spoken: Sequence[Spoken], suffix: str = ".flac") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for utterance in spoken:
        soundfile.write(folder / f"{utterance.id}{suffix}", utterance.samples, RATE_HZ)


def _long_file(path: Path, spoken: Sequence[Spoken]) -> list[float]:
    """Write all utterances into one stereo recording, spoken on its left; the right is noise. Return their starts."""
    parts, starts_s, at = [], [], 0
    gap = np.zeros(RATE_HZ // 2, np.int16)
    for utterance in spoken:
        parts += [gap, utterance.samples]
        starts_s.append((at + len(gap)) / RATE_HZ)
        at += len(gap) + len(utterance.samples)
    left = np.concatenate(parts)
    right = np.random.default_rng(1).integers(-9000, 9000, len(left)).astype(np.int16)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.stack([left, right], axis=1), RATE_HZ)
    return starts_s


def folder(root: Path, spoken: Sequence[Spoken]) -> Written:
    _files(root, spoken)
    (root / "transcripts.txt").write_text("".join(f"{u.id} {u.text}\n" for u in spoken))
    return Written(str(root), _same_ids(spoken))


def manifest(root: Path, spoken: Sequence[Spoken]) -> Written:
    _files(root, spoken)
    rows = ({"audio_filepath": f"{u.id}.flac", "text": u.text, "duration": u.duration_s} for u in spoken)
    (root / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Written(str(root / "m.jsonl"), _same_ids(spoken))


def table(root: Path, spoken: Sequence[Spoken]) -> Written:
    """A table as spreadsheets write it, with columns of no usual name, and quotes."""
    _files(root / "audio", spoken)
    with (root / "t.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["Nr", "recording", "said", "speaker"])
        writer.writerows([i, f"audio/{u.id}.flac", f'"{u.text}"', u.speaker] for i, u in enumerate(spoken))
    return Written(f"{root}/t.csv,audio=recording,text=said", {u.id: f"audio/{u.id}" for u in spoken})


def common_voice(root: Path, spoken: Sequence[Spoken]) -> Written:
    _files(root / "clips", spoken)
    rows = [f"{u.speaker}\t{u.id}.flac\t“{u.text}\t2\t0\ttwenties\t\t\ten\t\n" for u in spoken]
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\tsegment\n"
    (root / "test.tsv").write_text(header + "".join(rows))
    (root / "train.tsv").write_text(header)
    return Written(str(root), _same_ids(spoken))


def audiofolder(root: Path, spoken: Sequence[Spoken]) -> Written:
    _files(root, spoken)
    rows = "".join(f"{u.id}.flac,{u.text}\n" for u in spoken)
    (root / "metadata.csv").write_text(f"file_name,transcription\n{rows}")
    return Written(str(root), _same_ids(spoken))


def kaldi(root: Path, spoken: Sequence[Spoken]) -> Written:
    _files(root, spoken)
    (root / "wav.scp").write_text("".join(f"{u.id} {u.id}.flac\n" for u in spoken))
    (root / "text").write_text("".join(f"{u.id} {u.text}\n" for u in spoken))
    return Written(str(root), _same_ids(spoken))


def cuts(root: Path, spoken: Sequence[Spoken]) -> Written:
    """Cuts of a long recording's left channel, with the words' times, as lhotse writes them."""
    lhotse = pytest.importorskip("lhotse", reason="needs lhotse: pip install 'stopwav[lhotse]'")
    from lhotse.supervision import AlignmentItem

    starts_s = _long_file(root / "long.flac", spoken)
    recording = lhotse.Recording.from_file(root / "long.flac")
    segments = []
    for utterance, start_s in zip(spoken, starts_s, strict=True):
        items = [AlignmentItem(word, start_s + a, b - a) for word, a, b in utterance.times_s]
        segment = lhotse.SupervisionSegment(
            utterance.id, recording.id, start_s, utterance.duration_s, 0, utterance.text, speaker=utterance.speaker
        )
        segments.append(segment.with_alignment("word", items))
    made = lhotse.CutSet.from_manifests(
        lhotse.RecordingSet.from_recordings([recording]), lhotse.SupervisionSet.from_segments(segments)
    )
    trimmed = list(made.trim_to_supervisions(keep_overlapping=False))
    singles = [cut.to_mono()[0] if hasattr(cut, "to_mono") else cut for cut in trimmed]
    named = [cut.with_id(cut.supervisions[0].id) for cut in singles]
    lhotse.CutSet.from_cuts(named).to_file(root / "cuts.jsonl.gz")
    return Written(str(root / "cuts.jsonl.gz"), _same_ids(spoken), has_times=True)


def webdataset(root: Path, spoken: Sequence[Spoken]) -> Written:
    """Two archives: transcripts as text in one, in the description in the other."""
    package = pytest.importorskip("webdataset", reason="needs webdataset, whose writer makes the archives")
    _files(root / "files", spoken)
    root = root / "shards"
    root.mkdir()
    for number, part in enumerate((spoken[:3], spoken[3:])):
        with package.TarWriter(str(root / f"shard-{number:03d}.tar")) as writer:
            for u in part:
                audio = (root.parent / "files" / f"{u.id}.flac").read_bytes()
                text = {"json": {"text": u.text, "speaker": u.speaker}} if number else {"txt": u.text}
                writer.write({"__key__": u.id, "flac": audio, **text})
    return Written(str(root), _same_ids(spoken))


def stm(root: Path, spoken: Sequence[Spoken]) -> Written:
    starts_s = _long_file(root / "audio" / "talk.flac", spoken)
    lines, ids = [";; comment\n"], {}
    for u, start_s in zip(spoken, starts_s, strict=True):
        end_s = start_s + u.duration_s
        lines.append(f"talk 1 {u.speaker} {start_s:.4f} {end_s:.4f} <o,f0,male> {u.text}\n")
        ids[u.id] = f"talk@{start_s:.3f}-{end_s:.3f}"
    (root / "talk.stm").write_text("".join(lines))
    return Written(f"{root}/talk.stm,audio_folder={root}/audio", ids)


def rttm(root: Path, spoken: Sequence[Spoken]) -> Written:
    starts_s = _long_file(root / "talk.flac", spoken)
    lines, ids = [], {}
    for u, start_s in zip(spoken, starts_s, strict=True):
        lines.append(f"SPEAKER talk 1 {start_s:.4f} {u.duration_s:.4f} <NA> <NA> {u.speaker} <NA> <NA>\n")
        ids[u.id] = f"talk@{start_s:.3f}-{start_s + u.duration_s:.3f}"
    (root / "talk.rttm").write_text("".join(lines))
    return Written(str(root / "talk.rttm"), ids, has_texts=False)


def _dataset(root: Path, spoken: Sequence[Spoken]) -> object:
    datasets = pytest.importorskip("datasets", reason="needs datasets: pip install 'stopwav[datasets]'")
    datasets.disable_progress_bars()
    _files(root / "files", spoken)
    columns = {
        "audio": [{"path": f"{u.id}.flac", "bytes": (root / f"files/{u.id}.flac").read_bytes()} for u in spoken],
        "id": [u.id for u in spoken],
        "sentence": [u.text for u in spoken],
    }
    return datasets.Dataset.from_dict(columns).cast_column("audio", datasets.Audio())


def saved_dataset(root: Path, spoken: Sequence[Spoken]) -> Written:
    dataset = _dataset(root, spoken)
    dataset.save_to_disk(root / "saved")  # type: ignore[attr-defined]
    return Written(str(root / "saved"), _same_ids(spoken))


def parquet(root: Path, spoken: Sequence[Spoken]) -> Written:
    dataset = _dataset(root, spoken)
    (root / "clone" / "data").mkdir(parents=True)
    for split in ("test", "train"):
        dataset.to_parquet(root / f"clone/data/{split}-00000-of-00001.parquet")  # type: ignore[attr-defined]
    return Written(f"hf:{root}/clone,split=train,text=sentence", _same_ids(spoken))


FORMATS: tuple[Callable[[Path, Sequence[Spoken]], Written], ...] = (
    manifest, table, common_voice, audiofolder, kaldi, cuts, webdataset, stm, rttm, saved_dataset, parquet,
)  # fmt: skip

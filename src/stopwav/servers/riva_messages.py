"""The messages of Riva's streaming recognition, made at run time from the numbers of their fields.

NVIDIA's own package pins old versions of others, and generated code has to match the installed protobuf. The fields
here are those that a client of one stream needs; a server does not notice that it could have had more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from stopwav.errors import StopwavError

PACKAGE = "nvidia.riva.asr"
METHOD = f"/{PACKAGE}.RivaSpeechRecognition/StreamingRecognize"
# The number of 16-bit samples among the encodings of audio.
LINEAR_PCM = 1


@dataclass(frozen=True)
class _Field:
    """A field by its number; its type is a scalar of protobuf, or else a message or enumeration of these files."""

    number: int
    name: str
    type: str
    repeated: bool = False
    # Fields of one choice exclude each other; an optional one is a choice of its own.
    choice: str = ""
    optional: bool = False


_ENCODINGS = {"ENCODING_UNSPECIFIED": 0, "LINEAR_PCM": LINEAR_PCM, "FLAC": 2, "MULAW": 3, "OGGOPUS": 4, "ALAW": 20}
_MESSAGES: dict[str, tuple[_Field, ...]] = {
    "EndpointingConfig": (
        _Field(1, "start_history", "int32", optional=True),
        _Field(2, "start_threshold", "float", optional=True),
        _Field(3, "stop_history", "int32", optional=True),
        _Field(4, "stop_threshold", "float", optional=True),
        _Field(5, "stop_history_eou", "int32", optional=True),
        _Field(6, "stop_threshold_eou", "float", optional=True),
    ),
    "RecognitionConfig": (
        _Field(1, "encoding", ".nvidia.riva.AudioEncoding"),
        _Field(2, "sample_rate_hertz", "int32"),
        _Field(3, "language_code", "string"),
        _Field(4, "max_alternatives", "int32"),
        _Field(7, "audio_channel_count", "int32"),
        _Field(8, "enable_word_time_offsets", "bool"),
        _Field(11, "enable_automatic_punctuation", "bool"),
        _Field(13, "model", "string"),
        _Field(14, "verbatim_transcripts", "bool"),
        _Field(25, "endpointing_config", "EndpointingConfig", optional=True),
    ),
    "StreamingRecognitionConfig": (_Field(1, "config", "RecognitionConfig"), _Field(2, "interim_results", "bool")),
    "StreamingRecognizeRequest": (
        _Field(1, "streaming_config", "StreamingRecognitionConfig", choice="streaming_request"),
        _Field(2, "audio_content", "bytes", choice="streaming_request"),
    ),
    "WordInfo": (
        _Field(1, "start_time", "int32"),
        _Field(2, "end_time", "int32"),
        _Field(3, "word", "string"),
        _Field(4, "confidence", "float"),
    ),
    "SpeechRecognitionAlternative": (
        _Field(1, "transcript", "string"),
        _Field(2, "confidence", "float"),
        _Field(3, "words", "WordInfo", repeated=True),
    ),
    "StreamingRecognitionResult": (
        _Field(1, "alternatives", "SpeechRecognitionAlternative", repeated=True),
        _Field(2, "is_final", "bool"),
        _Field(3, "stability", "float"),
        _Field(5, "channel_tag", "int32"),
        _Field(6, "audio_processed", "float"),
    ),
    "StreamingRecognizeResponse": (_Field(1, "results", "StreamingRecognitionResult", repeated=True),),
}


@cache
def message_class(name: str) -> Any:
    """Return the class of a message."""
    try:
        from google.protobuf import message_factory
    except ImportError:  # gRPC itself works without it
        raise StopwavError("riva needs the package protobuf: pip install 'stopwav[grpc]'") from None
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    """The descriptions of all messages, in a pool of their own: NVIDIA's package puts the same names into the usual."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    audio = descriptor_pb2.FileDescriptorProto(name="riva/proto/riva_audio.proto", package="nvidia.riva")
    audio.syntax = "proto3"
    encoding = audio.enum_type.add(name="AudioEncoding")
    for name, number in _ENCODINGS.items():
        encoding.value.add(name=name, number=number)
    speech = descriptor_pb2.FileDescriptorProto(name="riva/proto/riva_asr.proto", package=PACKAGE)
    speech.syntax = "proto3"
    speech.dependency.append(audio.name)
    for name, fields in _MESSAGES.items():
        _describe(speech.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(audio)
    pool.Add(speech)
    return pool


def _describe(message: Any, fields: tuple[_Field, ...]) -> None:
    """Add the fields to the description of a message; choices before optional fields, as protobuf wants them."""
    choices = list(dict.fromkeys(field.choice for field in fields if field.choice))
    choices += [f"_{field.name}" for field in fields if field.optional]
    for choice in choices:
        message.oneof_decl.add(name=choice)
    for field in fields:
        described = message.field.add(name=field.name, number=field.number)
        described.label = described.LABEL_REPEATED if field.repeated else described.LABEL_OPTIONAL
        if field.type.startswith("."):
            described.type, described.type_name = described.TYPE_ENUM, field.type
        elif field.type in _MESSAGES:
            described.type, described.type_name = described.TYPE_MESSAGE, f".{PACKAGE}.{field.type}"
        else:
            described.type = getattr(described, f"TYPE_{field.type.upper()}")
        if field.optional:
            described.proto3_optional = True
        if field.choice or field.optional:
            described.oneof_index = choices.index(field.choice or f"_{field.name}")

"""`stopwav serve`: any engine behind the protocols of Vosk, Deepgram, OpenAI and sherpa-onnx."""

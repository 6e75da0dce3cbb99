# stopwav with the recognisers and servers of its extras, on the CPU:
#   docker build -t stopwav . && docker run --rm -v "$PWD:/runs" stopwav demo
# PyTorch and what needs it are gigabytes: --build-arg EXTRAS=moonshine,torch,transformers
FROM python:3.11-slim

# libgomp for sherpa-onnx and Vosk; the rest of what they need is in their packages.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=moonshine,faster-whisper,sherpa-onnx,vosk,servers,grpc
COPY . /stopwav
RUN pip install --no-cache-dir --constraint /stopwav/constraints.txt "/stopwav[${EXTRAS}]" && rm -rf /stopwav

# Run files belong to whoever starts the container: docker run --user "$(id -u):$(id -g)"
ENV HOME=/tmp
WORKDIR /runs
ENTRYPOINT ["stopwav"]
CMD ["--help"]

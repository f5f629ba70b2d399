# Training: the service's image, with torch. Run it as a job with the data folder mounted.
FROM python:3.11 AS build
WORKDIR /src
COPY pyproject.toml setup.py constraints.txt README.md LICENSE NOTICE ./
COPY foundation foundation
COPY corpus corpus
COPY encoder encoder
COPY evaluation evaluation
COPY hummingbit hummingbit
COPY index index
COPY service service
COPY training training
# PyTorch's CPU wheels. For an NVIDIA GPU, set this build argument to the empty string: pip then takes
# the wheel of PyPI, which includes CUDA and takes 6 GB.
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/hummingbit \
    && /opt/hummingbit/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt \
        '.[train,parquet]'

FROM python:3.11-slim
LABEL org.opencontainers.image.title="hummingbit training" \
      org.opencontainers.image.description="Learns binary codes from few labels" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/hummingbit/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --no-create-home hummingbit \
    && install --directory --owner=hummingbit --group=hummingbit /data
COPY --from=build /opt/hummingbit /opt/hummingbit
USER 10001:10001
VOLUME /data
WORKDIR /data
ENTRYPOINT ["hummingbit"]
CMD ["train", "--help"]

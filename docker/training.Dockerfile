# Training: everything the service has, and torch. Run it as a job over a mounted data folder.
FROM python:3.11 AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY foundation foundation
COPY corpus corpus
COPY encoder encoder
COPY evaluation evaluation
COPY experiments experiments
COPY hummingbit hummingbit
COPY index index
COPY service service
COPY training training
# Give an index of CPU wheels as the build argument PIP_EXTRA_INDEX_URL where no GPU is there: the
# default torch wheel for Linux brings CUDA and weighs gigabytes.
ARG PIP_EXTRA_INDEX_URL=""
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

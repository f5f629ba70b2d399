# The service: it loads encoders, stores collections and serves them over REST. It has no torch.
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
# EXTRAS=report,map,model installs what HTML reports, maps and language models need, too.
ARG EXTRAS=""
# The libraries' tests and uvloop's debugging symbols would only make the image larger.
RUN python -m venv /opt/hummingbit \
    && /opt/hummingbit/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt ".[serve${EXTRAS:+,$EXTRAS}]" \
    && find /opt/hummingbit/lib -type d -name tests -prune -exec rm -r {} + \
    && find /opt/hummingbit/lib -path '*/uvloop/*.so' -exec strip --strip-unneeded {} +

FROM python:3.11-slim
LABEL org.opencontainers.image.title="hummingbit" \
      org.opencontainers.image.description="Semantic hashing: exact Hamming search over learned codes" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/hummingbit/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib \
    HUMMINGBIT_DATA_DIR=/data \
    HUMMINGBIT_CREATE=true \
    HUMMINGBIT_HOST=0.0.0.0 \
    HUMMINGBIT_PORT=8000
RUN useradd --system --uid 10001 --no-create-home hummingbit \
    && install --directory --owner=hummingbit --group=hummingbit /data
COPY --from=build /opt/hummingbit /opt/hummingbit
USER 10001:10001
VOLUME /data
EXPOSE 8000
# /livez needs no key; with one, hummingbit ready checks more.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
ENTRYPOINT ["hummingbit"]
CMD ["serve"]

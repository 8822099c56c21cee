# stream-osr with its Kafka service, its report and its live page, on Debian's own Python (docs/installing.md):
#
#     docker build -t stream-osr .
#     docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/data" stream-osr demo
#
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv
RUN python3 -m venv /opt/stream-osr
ENV PATH=/opt/stream-osr/bin:$PATH NUMBA_CACHE_DIR=/var/cache/stream-osr
WORKDIR /sources
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY stream_osr stream_osr
COPY connectors connectors
COPY tools tools
ARG EXTRAS=kafka,plot,live
RUN pip install --no-cache-dir -c constraints.txt ".[$EXTRAS]" wheel
# the machine code comes along: for any x86-64-v3 processor (2013), elsewhere for processors like the one that builds
RUN mkdir -p "$NUMBA_CACHE_DIR" \
    && if [ "$(uname -m)" = x86_64 ]; \
       then python -m tools.wheel dist && pip install --no-deps --force-reinstall dist/*manylinux*.whl; \
       else cd / && stream-osr warmup; fi \
    && chmod -R a+rwX "$NUMBA_CACHE_DIR"

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/stream-osr /opt/stream-osr
COPY --from=build /var/cache/stream-osr /var/cache/stream-osr
# no one's home and no root: what it writes is in the folder that is mounted at /data
RUN useradd --uid 10001 --no-create-home --home-dir /data osr && install -d -o osr -g osr /data
USER osr
WORKDIR /data
# the service listens here; whoever publishes the port says for whom (docs/kafka.md)
ENV PATH=/opt/stream-osr/bin:$PATH NUMBA_CACHE_DIR=/var/cache/stream-osr \
    STREAM_OSR_METRICS_HOST=0.0.0.0 STREAM_OSR_METRICS_PORT=9464
EXPOSE 9464
# of commands that end by themselves there is nothing to ask
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD grep -qzxE 'serve|reconcile|--config(=.*)?' /proc/1/cmdline || exit 0; \
        python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:$STREAM_OSR_METRICS_PORT/healthz', timeout=5)"
ENTRYPOINT ["stream-osr"]
CMD ["--help"]

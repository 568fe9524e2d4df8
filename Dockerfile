# What the pods of a pipeline run in; `headrace image` builds it. By hand: docker build -t headrace .
#
# Nothing in it belongs to the user it runs as, and nothing has to be written outside of /tmp, so the root file system
# may be read-only. Layers, from what seldom changes to what often does: Python, the locked packages, this project, your
# own packages, your own modules. No instruction needs BuildKit.
ARG BASE=docker.io/library/python:3.11-slim-trixie
# cpu, or gpu: TensorFlow with CUDA's libraries
ARG VARIANT=cpu
# without, or with: the authorities of --ca stay in the image, and its programs trust them
ARG CA=without
# The time of all files, so that the same content gives the same layers. Zip files know none before 1980.
ARG SOURCE_DATE_EPOCH=315619200

# --- the locked packages, with all that is needed to install them ---
FROM ${BASE} AS packages
ARG SOURCE_DATE_EPOCH
WORKDIR /build
COPY image/trust.sh image/ca.txt ./
# For the packages without a wheel. This stage is thrown away, so its compiler need not be pinned.
# hadolint ignore=DL3008
RUN . ./trust.sh && apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
ENV UV_PROJECT_ENVIRONMENT=/opt/venv UV_PYTHON=/usr/local/bin/python3 UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy
COPY image/uv_requirement.py uv.lock ./
RUN python uv_requirement.py uv.lock > uv.txt && . ./trust.sh \
    && pip install --no-cache-dir --no-deps --require-hashes -r uv.txt
COPY pyproject.toml image/install.sh image/compile.sh image/sbom.py image/left-out-packages.txt image/left-out-files.txt ./
ARG VARIANT
RUN sh install.sh "${VARIANT}"

# --- packages of the user's ---
FROM packages AS added
COPY image/requirements.txt image/add.sh ./
ARG SOURCE_DATE_EPOCH
RUN sh add.sh /opt/added

# --- this project and the user's modules, compiled ---
FROM ${BASE} AS project
COPY image/compile.sh /build/
COPY src/headrace/__init__.py src/headrace/__main__.py /opt/headrace/headrace/
COPY common /opt/headrace/headrace/common
COPY configs /opt/headrace/headrace/configs
COPY trainer /opt/headrace/headrace/trainer
COPY components /opt/headrace/headrace/components
COPY pipeline /opt/headrace/headrace/pipeline
ARG VERSION=unknown
ARG SOURCE_DATE_EPOCH
RUN mkdir "/opt/headrace/headrace-${VERSION}.dist-info" \
    && printf 'Metadata-Version: 2.1\nName: headrace\nVersion: %s\n' "${VERSION}" \
        > "/opt/headrace/headrace-${VERSION}.dist-info/METADATA" \
    && sh /build/compile.sh /opt/headrace

FROM ${BASE} AS code
COPY image/compile.sh /build/
COPY image/code /opt/code
ARG SOURCE_DATE_EPOCH
RUN rm -f /opt/code/README.md && sh /build/compile.sh /opt/code

# --- what both variants run in ---
FROM ${BASE} AS cpu
# GCC's OpenMP runtime, which came with the compiler: LightGBM's wheel needs it and does not have it.
COPY --from=packages /usr/lib/*-linux-gnu/libgomp.so.1* /usr/local/lib/
# Python's published image has its own library without compiled modules, and no pod could keep them.
RUN ldconfig \
    && python -m compileall -q -j 0 -x 'site-packages|lib2to3' --invalidation-mode unchecked-hash /usr/local/lib/python3.11 \
    && groupadd --gid 1000 headrace \
    && useradd --uid 1000 --gid 1000 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin headrace
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/opt/headrace \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    XDG_CACHE_HOME=/tmp/.cache

FROM cpu AS gpu
# Where some clusters mount the driver; and the one library of CUDA's that TensorFlow's wheel does not look for itself,
# without which it takes no GPU at all.
ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/opt/venv/lib/python3.11/site-packages/nvidia/cusolver/lib

# hadolint ignore=DL3006
FROM ${VARIANT} AS without-ca

# hadolint ignore=DL3006
FROM ${VARIANT} AS with-ca
COPY --from=packages /opt/ca /opt/ca
ENV SSL_CERT_FILE=/opt/ca/bundle.pem REQUESTS_CA_BUNDLE=/opt/ca/bundle.pem CURL_CA_BUNDLE=/opt/ca/bundle.pem \
    AWS_CA_BUNDLE=/opt/ca/bundle.pem GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/opt/ca/bundle.pem

# hadolint ignore=DL3006
FROM ${CA}-ca
COPY --from=packages /opt/venv /opt/venv
COPY --from=project /opt/headrace /opt/headrace
COPY --from=added /opt/added /opt/added
COPY --from=code /opt/code /opt/code
ARG VARIANT
ARG CONTENT=unknown
ARG VERSION=unknown
ARG BASE
LABEL org.opencontainers.image.title="headrace" \
      org.opencontainers.image.description="Components of Headrace pipelines, for the pods of Kubeflow Pipelines" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${CONTENT}" \
      org.opencontainers.image.base.name="${BASE}" \
      headrace.variant="${VARIANT}" \
      headrace.sbom="/opt/venv/sbom.cdx.json"
USER 1000:1000
WORKDIR /opt/code
ENTRYPOINT ["python", "-P", "-m", "headrace"]
CMD ["--help"]

# The image of Dataflow's workers with Parapet in it: docs/running.md.
# The Beam of the machine that submits a job must be of the same version, and so must its Python.
# For a build that nobody can change under you, name the image by its digest: BASE=apache/beam_python3.11_sdk@sha256:...
ARG BEAM_VERSION=2.77.0
ARG BASE=apache/beam_python3.11_sdk:${BEAM_VERSION}
FROM ${BASE}
ARG BEAM_VERSION
# Files of requirements/, space-separated: "gcp demo" for speech_errors.
ARG LOCKS=gcp
COPY . /tmp/parapet
WORKDIR /tmp/parapet/requirements
RUN grep -qE "^apache-beam[^ ]*==${BEAM_VERSION} " gcp.txt || { echo "gcp.txt locks another apache-beam" >&2; exit 1; }
RUN pip install --no-cache-dir --no-deps --require-hashes -r tools.txt && \
    for lock in ${LOCKS}; do pip install --no-cache-dir --no-deps --require-hashes -r "${lock}.txt" || exit 1; done
RUN pip install --no-cache-dir --no-deps --no-build-isolation /tmp/parapet && rm -r /tmp/parapet
WORKDIR /

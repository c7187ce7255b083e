# The image of Dataflow's workers with Parapet in it: docs/dataflow.md.
# The Beam of the machine that submits a job must be of the same version, and so must its Python.
ARG BEAM_VERSION=2.77.0
FROM apache/beam_python3.11_sdk:${BEAM_VERSION}
ARG BEAM_VERSION
# Extras of setup.py, comma-separated.
ARG EXTRAS=gcp
COPY . /tmp/parapet
RUN pip install --no-cache-dir "apache-beam[gcp]==${BEAM_VERSION}" "/tmp/parapet[${EXTRAS}]" && rm -r /tmp/parapet

# Parapet's commands in an image: docs/running.md. Dataflow's workers have another, ../Dockerfile.
# Built from the root of the checkout: docker build --file docker/user.Dockerfile --tag parapet .
# For a build that nobody can change under you, name the image by its digest: BASE=python@sha256:...
ARG PYTHON_VERSION=3.11
ARG BASE=python:${PYTHON_VERSION}-slim

FROM ${BASE} AS build
# A file of requirements/: core, or demo, which has the extras speech, models and translate.
ARG LOCK=core
COPY . /tmp/parapet
WORKDIR /tmp/parapet
RUN python -m venv /opt/parapet && requirements/install.sh /opt/parapet "${LOCK}" locked

FROM ${BASE}
COPY --from=build /opt/parapet /opt/parapet
ENV PATH=/opt/parapet/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Without a home: a key for the workers' hashes would be lost with the container, so compose asks for one instead.
RUN useradd --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin parapet
USER parapet
WORKDIR /data
ENTRYPOINT ["parapet"]
CMD ["--help"]

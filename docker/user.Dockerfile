# Parapet's commands in an image: docs/running.md. Dataflow's workers have another, ../Dockerfile.
# Built from the root of the checkout: docker build --file docker/user.Dockerfile --tag parapet .
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS build
# Extras of setup.py, comma-separated: speech,models
ARG EXTRAS=
# Builds of torch without CUDA; only the extras with models take torch.
ARG EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
COPY . /tmp/parapet
RUN python -m venv /opt/parapet
RUN /opt/parapet/bin/pip install --no-cache-dir --extra-index-url "${EXTRA_INDEX_URL}" "/tmp/parapet${EXTRAS:+[${EXTRAS}]}"

FROM python:${PYTHON_VERSION}-slim
COPY --from=build /opt/parapet /opt/parapet
ENV PATH=/opt/parapet/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Without a home: a key for the workers' hashes would be lost with the container, so compose asks for one instead.
RUN useradd --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin parapet
USER parapet
WORKDIR /data
ENTRYPOINT ["parapet"]
CMD ["--help"]

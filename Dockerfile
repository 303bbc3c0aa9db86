# syntax=docker/dockerfile:1
# The operator's image: its wheel and its locked dependencies, nothing else; not root, no shell needed.

FROM python:3.13-slim AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements-operator.lock ./
RUN python -m venv /opt/inferplan \
 && /opt/inferplan/bin/pip install --require-hashes --requirement requirements-operator.lock
COPY pyproject.toml README.md LICENSE ./
COPY planner planner
COPY operator operator
RUN /opt/inferplan/bin/pip install --no-deps . \
 && /opt/inferplan/bin/python -m compileall -q /opt/inferplan/lib

FROM python:3.13-slim
LABEL org.opencontainers.image.title="inferplan-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/inferplan /opt/inferplan
ENV PATH=/opt/inferplan/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/tmp/huggingface
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["inferplan-operator"]
CMD ["run"]

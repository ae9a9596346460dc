# mcpproxy with the extras fleet and otel, and nothing else; add a server by building on this image or by mounting one.
#
#   docker build -t mcpproxy .
#   docker run -i --rm -v mcpproxy:/var/lib/mcpproxy mcpproxy -- COMMAND [ARG...]
#
# The base image by its digest, every package by its hash. The digest of today:
#   docker buildx imagetools inspect python:3.13-slim

ARG PYTHON=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY rules rules
COPY mcpproxy mcpproxy
COPY .ci .ci
RUN .ci/install /opt/mcpproxy

FROM ${PYTHON}
# Apart from the system's packages, which belong to the server. What it holds is told by bom.cdx.json in it.
COPY --from=build /opt/mcpproxy /opt/mcpproxy
RUN ln -s /opt/mcpproxy/bin/mcpproxy /usr/local/bin/mcpproxy \
    && useradd --system --uid 999 --user-group --home-dir /nonexistent --shell /usr/sbin/nologin mcpproxy \
    && install -d -o mcpproxy -g mcpproxy -m 0700 /var/lib/mcpproxy /var/lib/mcpproxy/mcpproxy
# Recordings go to $XDG_STATE_HOME/mcpproxy.
ENV XDG_STATE_HOME=/var/lib/mcpproxy
USER 999
VOLUME /var/lib/mcpproxy
EXPOSE 8765 9464
# For `mcpproxy http` on its usual port, whatever address: whether the traffic passes, of which the trace says
# nothing. Not the admin port: a recorder in trouble must not have the traffic stopped. A container that wraps
# a stdio server has no port: run it with --no-healthcheck; with another port give --health-cmd.
HEALTHCHECK --interval=30s --timeout=5s CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 8765), 3)"]
ENTRYPOINT ["mcpproxy"]
CMD ["--help"]

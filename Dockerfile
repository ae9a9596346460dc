# mcpproxy and nothing else; add a server by building on this image or by mounting one.
#
#   docker build -t mcpproxy .
#   docker run -i --rm -v mcpproxy:/var/lib/mcpproxy mcpproxy -- COMMAND [ARG...]

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY rules rules
COPY mcpproxy mcpproxy
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels mcpproxy \
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

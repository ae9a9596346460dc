"""The recipes for Kubernetes and Compose are valid by the schemas of both, and their parts fit each other."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mcpproxy.cli.commands import http
from tests.fleet.recipes import COMPOSE, KUBERNETES, Object, documents, manifest, merged
from tests.peers.fixtures import Peers

VERSIONS: Final = ("1.33", "1.37")
"""The oldest version of Kubernetes that has all fields by default, and the newest one known."""

EMPTY_DIR: Final = KUBERNETES / "empty-dir.yaml"
MANIFESTS: Final = sorted(set(KUBERNETES.rglob("*.yaml")) - {EMPTY_DIR})
DOCKERFILE: Final = (Path(__file__).parent.parent.parent / "Dockerfile").read_text("utf-8")

Validated = subprocess.CompletedProcess[str]


def by_schemas(peers: Peers, *paths: Path, version: str = VERSIONS[-1]) -> Validated:
    """Hold manifests to the schemas of Kubernetes, which allow no members that they do not name."""
    command = [peers.recipe_validators(), "-m", "kubernetes_validate", "--strict", "-k", version, *paths]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def by_compose_schema(peers: Peers, path: Path) -> Validated:
    builtin = ["--builtin-schema", "vendor.compose-spec"]
    command = [peers.recipe_validators(), "-m", "check_jsonschema", *builtin, path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_are_valid(peers: Peers, version: str) -> None:
    ran = by_schemas(peers, *MANIFESTS, version=version)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (ran.stdout + ran.stderr).count("passed for resource") == sum(
        len(documents(path)) for path in MANIFESTS
    )


def test_the_manifest_with_an_empty_dir_is_valid(peers: Peers, tmp_path: Path) -> None:
    (patch,) = documents(EMPTY_DIR)
    deployment = merged(manifest("Deployment", "mcp-server"), patch)
    volumes = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes.keys() == {"recordings", "ship-tmp"}
    assert volumes["recordings"].keys() == {"name", "emptyDir"}
    (tmp_path / "patched.yaml").write_text(yaml.safe_dump(deployment))
    ran = by_schemas(peers, tmp_path / "patched.yaml")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("deployment.yaml", "startupProbe:", "startupProb:"),
        ("deployment.yaml", "terminationGracePeriodSeconds: 60", 'terminationGracePeriodSeconds: "60s"'),
        ("deployment.yaml", "{cpu: 20m, memory: 96Mi}", "{cpu: [20m], memory: 96Mi}"),
        (
            "deployment.yaml",
            "      terminationGrace",
            "      readOnlyRootFilesystem: true\n      terminationGrace",
        ),
        ("check.yaml", "completionMode: Indexed", "completionMode: [Indexed]"),
        ("network-policy.yaml", "cidr: 0.0.0.0/0", "cdir: 0.0.0.0/0"),
    ],
)
def test_the_validator_of_kubernetes_finds_mistakes(
    peers: Peers, tmp_path: Path, file: str, right: str, wrong: str
) -> None:
    text = (KUBERNETES / file).read_text("utf-8")
    assert right in text
    (tmp_path / file).write_text(text.replace(right, wrong, 1))
    assert by_schemas(peers, tmp_path / file).returncode != 0


def test_the_compose_file_is_valid(peers: Peers) -> None:
    ran = by_compose_schema(peers, COMPOSE)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("right", "wrong"), [("read_only: true", "readonly: true"), ("depends_on: [store]", "depends_on: store")]
)
def test_the_validator_of_compose_finds_mistakes(
    peers: Peers, tmp_path: Path, right: str, wrong: str
) -> None:
    text = COMPOSE.read_text("utf-8")
    assert right in text
    (tmp_path / "compose.yaml").write_text(text.replace(right, wrong, 1))
    ran = by_compose_schema(peers, tmp_path / "compose.yaml")
    assert ran.returncode == 1
    assert "Schema validation errors" in ran.stdout


# What no schema knows: the parts have to fit.


def pods() -> list[Object]:
    """The templates of all pods."""
    deployments = [manifest("Deployment", name) for name in ("mcp-server", "otel-collector")]
    job = manifest("CronJob", "mcpproxy-check")["spec"]["jobTemplate"]
    return [each["spec"]["template"] for each in (*deployments, job)]


def containers() -> list[Object]:
    specs = [pod["spec"] for pod in pods()]
    return [each for spec in specs for each in (*spec.get("initContainers", ()), *spec["containers"])]


def sidecar(name: str) -> Object:
    spec = manifest("Deployment", "mcp-server")["spec"]["template"]["spec"]
    return next(each for each in spec["initContainers"] if each["name"] == name)


def test_no_container_is_root_or_writes_to_its_image() -> None:
    assert all(pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods())
    for container in containers():
        context = container["securityContext"]
        assert context["runAsUser"] > 0
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def test_mcpproxy_is_the_user_of_its_image() -> None:
    (user,) = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    ours = [each for each in containers() if each["image"] == "mcpproxy"]
    assert len(ours) == 3
    assert {str(each["securityContext"]["runAsUser"]) for each in ours} == {user}
    services = documents(COMPOSE)[0]["services"].values()
    assert {each["user"] for each in services if each["image"] == "mcpproxy"} == {f"{user}:{user}"}


def test_every_mount_has_its_volume_and_every_volume_is_mounted() -> None:
    for pod in pods():
        spec = pod["spec"]
        inside = (*spec.get("initContainers", ()), *spec["containers"])
        mounted = {mount["name"] for each in inside for mount in each.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in spec.get("volumes", ())}


def test_services_policies_and_budgets_select_the_pods() -> None:
    labels = {pod["metadata"]["labels"]["app"]: pod["metadata"]["labels"] for pod in pods()}
    every = [each for path in MANIFESTS for each in documents(path)]
    for each in every:
        match each["kind"]:
            case "Service":
                assert each["spec"]["selector"].items() <= labels[each["spec"]["selector"]["app"]].items()
            case "Deployment" | "PodDisruptionBudget":
                selected = each["spec"]["selector"]["matchLabels"]
                assert selected.items() <= labels[selected["app"]].items()
            case "NetworkPolicy":
                assert each["spec"]["podSelector"]["matchLabels"]["app"] in labels
            case _:
                pass


def test_the_proxy_stands_before_the_server() -> None:
    proxy = sidecar("mcpproxy")
    ran = http.parse(proxy["args"][1:])
    spec = manifest("Deployment", "mcp-server")["spec"]["template"]["spec"]
    (server,) = spec["containers"]
    assert ran.upstream is not None
    assert ran.upstream.host == "127.0.0.1"
    assert {"name": "PORT", "value": str(ran.upstream.port)} in server["env"]
    assert {"name": "HOST", "value": "127.0.0.1"} in server["env"]
    ports = {each["name"]: each["containerPort"] for each in proxy["ports"]}
    assert ports == {"mcp": ran.port, "metrics": int(ran.admin.rpartition(":")[2])}
    assert proxy["readinessProbe"]["tcpSocket"]["port"] == "mcp"
    assert proxy["livenessProbe"]["tcpSocket"]["port"] == "mcp"
    annotations = manifest("Deployment", "mcp-server")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])
    (port,) = manifest("Service", "mcp-server")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (ran.port, "mcp")


def test_the_policy_allows_what_the_commands_use() -> None:
    policy = manifest("NetworkPolicy", "mcp-server")["spec"]
    ran = http.parse(sidecar("mcpproxy")["args"][1:])
    reached = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert reached == [ran.port, int(ran.admin.rpartition(":")[2])]
    (collector,) = manifest("Service", "otel-collector")["spec"]["ports"]
    assert f"--otlp=http://otel-collector:{collector['port']}" in sidecar("mcpproxy")["args"]
    assert collector["port"] in [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert policy["egress"] == manifest("NetworkPolicy", "mcpproxy-check")["spec"]["egress"]


def test_the_grace_period_has_room_for_all_that_follows_the_signal() -> None:
    spec = manifest("Deployment", "mcp-server")["spec"]["template"]["spec"]
    arguments: list[str] = sidecar("ship")["args"]
    grace_s = int(arguments[arguments.index("--grace") + 1])
    (server,) = spec["containers"]
    paused_s = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert paused_s + 15 + 10 + grace_s <= spec["terminationGracePeriodSeconds"]
    ship = documents(COMPOSE)[0]["services"]["ship"]
    assert float(ship["stop_grace_period"].rstrip("s")) > grace_s


def test_each_index_of_the_job_is_a_shard() -> None:
    job = manifest("CronJob", "mcpproxy-check")["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    shard = container["args"][container["args"].index("--shard") + 1]
    assert shard == f"$(JOB_COMPLETION_INDEX)/{job['completions']}"
    assert job["completionMode"] == "Indexed"
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["containerName"] == container["name"]


def test_one_account_in_three_clouds() -> None:
    accounts = [documents(path)[0] for path in sorted((KUBERNETES / "identity").glob("*.yaml"))]
    assert len(accounts) == 3
    assert {each["metadata"]["name"] for each in accounts} == {"mcpproxy"}
    users = [
        pod["spec"] for pod in pods() if any(c["image"] == "mcpproxy" for c in pod["spec"]["containers"])
    ]
    assert all(each["serviceAccountName"] == "mcpproxy" for each in users)


def test_compose_and_kubernetes_run_the_same_commands() -> None:
    services = documents(COMPOSE)[0]["services"]
    pod: list[Any] = sidecar("mcpproxy")["args"]
    assert services["mcpproxy"]["command"] == [
        each.replace("127.0.0.1:3000", "server:3000") if "3000" in each else each for each in pod
    ]
    shipped: list[str] = sidecar("ship")["args"]
    assert services["ship"]["command"] == [
        each.replace("$(STORE_URL)", "s3://recordings/fleet") for each in shipped
    ]

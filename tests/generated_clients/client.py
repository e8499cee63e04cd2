"""Publishes a folder, shares a page and reads statistics with the client that was generated into `generated`."""

import io
import json
import os
import tarfile

from generated.api.deployments import create_deployment, list_deployments
from generated.api.projects import create_project, show_project
from generated.api.shares import create_share
from generated.api.statistics import show_traffic
from generated.client import AuthenticatedClient
from generated.models import CreateProject, Error, LiveStats, ProjectDetail, Uploaded
from generated.types import File


def tarball(files: dict[str, bytes]) -> File:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))
    packed.seek(0)
    return File(payload=packed)


client = AuthenticatedClient(base_url=os.environ["SVC_API"], token=os.environ["SVC_TOKEN"])
name = "from-python"
assert create_project.sync(client=client, body=CreateProject(name=name)).name == name
uploaded = create_deployment.sync(name, client=client, body=tarball({"index.html": b"from Python"}))
assert isinstance(uploaded, Uploaded), uploaded
share = create_share.sync(client=client, body=tarball({"index.html": b"shared from Python"}), ttl=1)
assert isinstance(share, Uploaded) and share.expires_at, share
assert [one.id for one in list_deployments.sync(name, client=client).deployments] == [uploaded.deployment_id]
detail = show_project.sync(name, client=client)
assert isinstance(detail, ProjectDetail) and detail.active_deployment_id == uploaded.deployment_id, detail
stats = show_traffic.sync(name, client=client)
assert isinstance(stats, LiveStats) and stats.project == name, stats
refused = create_project.sync(client=client, body=CreateProject(name=name))
assert isinstance(refused, Error) and refused.error.code == "name_taken", refused
print(json.dumps({"site": uploaded.url, "share": share.url}))

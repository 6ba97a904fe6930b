"""A manager in another language, against a provider of ours: client.py ADDRESS [TLS-FOLDER]."""
import json
import sys

import grpc
import documented_pb2 as pb
import documented_pb2_grpc as rpc

CLASS = {
    "CPU": 2, "MemoryMiB": 2048, "Firmware": "BIOS", "DiskDefaults": {"Type": "thin", "SizeGiB": 20},
    "GuestToolsPolicy": "", "ExtraConfig": None, "PerformanceProfile": None,
    "SecurityProfile": None, "ResourceLimits": None,
}
IMAGE = {"TemplateName": "debian-13", "Path": "", "URL": "", "Format": "template", "Checksum": "",
         "ChecksumType": ""}


def connect(address, folder):
    if folder is None:
        return grpc.insecure_channel(address)
    read = lambda name: open(f"{folder}/{name}", "rb").read()
    credentials = grpc.ssl_channel_credentials(read("ca.crt"), read("tls.key"), read("tls.crt"))
    options = [("grpc.ssl_target_name_override", "provider.test")]
    return grpc.secure_channel(address, credentials, options)


def refused(code, call, request):
    try:
        call(request, timeout=20)
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error.details()
    raise AssertionError(f"{request} was not refused")


def wait(provider, task):
    while task.id:
        status = provider.TaskStatus(pb.TaskStatusRequest(task=task), timeout=20)
        if status.done or status.error:
            assert not status.error, status
            return


def main():
    channel = connect(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    provider = rpc.ProviderStub(channel)
    assert provider.Validate(pb.ValidateRequest(), timeout=20).ok
    can = provider.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=20)
    assert can.supports_snapshots and can.supports_disk_export, can
    assert list(can.supported_export_formats) == ["qcow2", "raw"], can

    create = pb.CreateRequest(
        name="web", user_data=b"#cloud-config\n", class_json=json.dumps(CLASS),
        image_json=json.dumps(IMAGE), networks_json="null", disks_json="null", tags=["a"])
    made = provider.Create(create, timeout=20)
    wait(provider, made.task)
    assert provider.Create(create, timeout=20).id == made.id
    seen = provider.Describe(pb.DescribeRequest(id=made.id), timeout=20)
    assert seen.exists and seen.power_state == "On" and len(seen.ips) == 1, seen
    assert json.loads(seen.provider_raw_json)["name"] == "web"
    assert not provider.Describe(pb.DescribeRequest(id="nowhere"), timeout=20).exists
    vms = provider.ListVMs(pb.ListVMsRequest(), timeout=20).vms
    assert [(vm.id, vm.name, vm.cpu, vm.memory_mib) for vm in vms] == [(made.id, "web", 2, 2048)]
    assert vms[0].disks[0].size_gib == 20

    wrong = pb.CreateRequest(name="Not A Name", class_json=json.dumps(CLASS))
    assert "name" in refused(grpc.StatusCode.INVALID_ARGUMENT, provider.Create, wrong)
    broken = pb.CreateRequest(name="x", disks_json="{")
    assert "disks_json" in refused(grpc.StatusCode.INVALID_ARGUMENT, provider.Create, broken)
    nowhere = pb.PowerRequest(id="nowhere", op=pb.POWER_OP_ON)
    refused(grpc.StatusCode.NOT_FOUND, provider.Power, nowhere)
    unknown = pb.TaskStatusRequest(task=pb.TaskRef(id="task-999"))
    refused(grpc.StatusCode.NOT_FOUND, provider.TaskStatus, unknown)
    unspecified = pb.PowerRequest(id=made.id)
    refused(grpc.StatusCode.INVALID_ARGUMENT, provider.Power, unspecified)

    for op, state in [(pb.POWER_OP_SHUTDOWN_GRACEFUL, "Off"), (pb.POWER_OP_ON, "On"),
                      (pb.POWER_OP_REBOOT, "On"), (pb.POWER_OP_OFF, "Off")]:
        request = pb.PowerRequest(id=made.id, op=op, graceful_timeout_seconds=60)
        wait(provider, provider.Power(request, timeout=20).task)
        seen = provider.Describe(pb.DescribeRequest(id=made.id), timeout=20)
        assert seen.power_state == state, (op, seen)

    # Any case of the keys.
    desired = {"name": "web", "class": {"cpu": 4, "memorymib": 4096}, "networks": None, "disks": None,
               "tags": None}
    request = pb.ReconfigureRequest(id=made.id, desired_json=json.dumps(desired))
    wait(provider, provider.Reconfigure(request, timeout=20).task)
    assert provider.ListVMs(pb.ListVMsRequest(), timeout=20).vms[0].cpu == 4

    snapshot = provider.SnapshotCreate(
        pb.SnapshotCreateRequest(vm_id=made.id, name_hint="before", description="x"), timeout=20)
    wait(provider, snapshot.task)
    request = pb.SnapshotRevertRequest(vm_id=made.id, snapshot_id=snapshot.snapshot_id)
    wait(provider, provider.SnapshotRevert(request, timeout=20).task)
    info = provider.GetDiskInfo(pb.GetDiskInfoRequest(vm_id=made.id), timeout=20)
    assert info.virtual_size_bytes == 20 << 30 and list(info.snapshots) == [snapshot.snapshot_id]
    request = pb.SnapshotDeleteRequest(vm_id=made.id, snapshot_id=snapshot.snapshot_id)
    for _ in range(2):
        wait(provider, provider.SnapshotDelete(request, timeout=20).task)

    clone = provider.Clone(pb.CloneRequest(
        source_vm_id=made.id, target_name="copy", linked=True,
        class_json=json.dumps({"cpu": 1, "memory": "1Gi"})), timeout=20)
    wait(provider, clone.task)
    vms = {vm.name: vm for vm in provider.ListVMs(pb.ListVMsRequest(), timeout=20).vms}
    assert (vms["copy"].cpu, vms["copy"].memory_mib) == (1, 1024), vms["copy"]
    image = json.dumps({"source": {"http": {"url": "https://example.test/x.qcow2"}}})
    prepared = provider.ImagePrepare(
        pb.ImagePrepareRequest(image_json=image, target_name="img"), timeout=20)
    assert prepared.prepared_image_id == "img" and prepared.prepared_image_path
    sent = provider.ExportDisk(pb.ExportDiskRequest(
        vm_id=made.id, destination_url="s3://b/x", format="raw", backend_type="s3",
        credentials={"accessKeyID": "k"}), timeout=20)
    wait(provider, sent.task)
    brought = provider.ImportDisk(pb.ImportDiskRequest(
        source_url="s3://b/x", target_name="disk", format="raw", verify_checksum=True,
        expected_checksum=sent.checksum), timeout=20)
    assert brought.checksum == sent.checksum and brought.path
    wait(provider, provider.HardwareUpgrade(
        pb.HardwareUpgradeRequest(id=made.id, target_version=21), timeout=20).task)

    for id in [made.id, clone.target_vm_id, made.id]:
        wait(provider, provider.Delete(pb.DeleteRequest(id=id), timeout=20).task)
    assert not provider.ListVMs(pb.ListVMsRequest(), timeout=20).vms
    print("done")


main()

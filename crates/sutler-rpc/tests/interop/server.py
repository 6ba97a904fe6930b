"""A provider in another language, for our client: server.py [TLS-FOLDER]. Prints its port."""
import json
import sys
import threading
from concurrent import futures

import grpc
import documented_pb2 as pb
import documented_pb2_grpc as rpc


class Provider(rpc.ProviderServicer):
    def __init__(self):
        self.lock = threading.Lock()
        self.machines = {}
        self.tasks = {}
        self.next = 0

    def number(self):
        self.next += 1
        return self.next

    def task(self, polls=1, error=""):
        id = f"t-{self.number()}"
        self.tasks[id] = [polls, error]
        return pb.TaskRef(id=id)

    def get(self, id, context):
        if id not in self.machines:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no machine {id}")
        return self.machines[id]

    def Validate(self, request, context):
        return pb.ValidateResponse(ok=True)

    def GetCapabilities(self, request, context):
        return pb.GetCapabilitiesResponse(supports_snapshots=True, supported_disk_types=["thin"])

    def Create(self, request, context):
        # What is sent must be what is documented: exact keys, `null` for no list.
        klass = json.loads(request.class_json)
        image = json.loads(request.image_json)
        keys = ["CPU", "MemoryMiB", "Firmware", "DiskDefaults", "GuestToolsPolicy", "ExtraConfig",
                "PerformanceProfile", "SecurityProfile", "ResourceLimits"]
        if sorted(klass) != sorted(keys):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"class_json has {sorted(klass)}")
        if json.loads(request.disks_json) is not None and not json.loads(request.disks_json):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "an empty list is null")
        if request.name.startswith("vague"):
            # As servers do that return plain errors: nobody knows what happened.
            context.abort(grpc.StatusCode.UNKNOWN, "something went wrong")
        with self.lock:
            for id, machine in self.machines.items():
                if machine["name"] == request.name:
                    context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{request.name} is there")
            id = f"py-{self.number()}"
            self.machines[id] = {
                "name": request.name, "power": "On", "cpu": klass["CPU"],
                "memory": klass["MemoryMiB"], "image": image["TemplateName"], "snapshots": {}}
            return pb.CreateResponse(id=id, task=self.task())

    def Delete(self, request, context):
        self.get(request.id, context)
        del self.machines[request.id]
        return pb.TaskResponse()

    def Power(self, request, context):
        machine = self.get(request.id, context)
        on = request.op in (pb.POWER_OP_ON, pb.POWER_OP_REBOOT)
        machine["power"] = "On" if on else "Off"
        return pb.TaskResponse(task=self.task())

    def Reconfigure(self, request, context):
        machine = self.get(request.id, context)
        desired = json.loads(request.desired_json)
        machine["cpu"] = desired["Class"]["CPU"]
        machine["memory"] = desired["Class"]["MemoryMiB"]
        return pb.TaskResponse(task=self.task(error="no room" if machine["cpu"] > 64 else ""))

    def Describe(self, request, context):
        machine = self.machines.get(request.id)
        if machine is None:
            return pb.DescribeResponse(exists=False)
        return pb.DescribeResponse(
            exists=True, power_state=machine["power"], ips=["192.0.2.7"],
            provider_raw_json=json.dumps({"cpus": machine["cpu"]}))

    def TaskStatus(self, request, context):
        task = self.tasks.get(request.task.id)
        if task is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such task")
        if task[0] > 0:
            task[0] -= 1
            return pb.TaskStatusResponse(done=False)
        return pb.TaskStatusResponse(done=not task[1], error=task[1])

    def SnapshotCreate(self, request, context):
        machine = self.get(request.vm_id, context)
        id = f"s-{self.number()}"
        machine["snapshots"][id] = request.name_hint
        return pb.SnapshotCreateResponse(snapshot_id=id, task=self.task())

    def SnapshotDelete(self, request, context):
        machine = self.get(request.vm_id, context)
        if machine["snapshots"].pop(request.snapshot_id, None) is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such snapshot")
        return pb.TaskResponse()

    def ListVMs(self, request, context):
        vms = [pb.VMInfo(id=id, name=m["name"], power_state=m["power"], ips=["192.0.2.7"],
                         cpu=m["cpu"], memory_mib=m["memory"], provider_raw={"by": "python"})
               for id, m in self.machines.items()]
        return pb.ListVMsResponse(vms=vms)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    rpc.add_ProviderServicer_to_server(Provider(), server)
    if len(sys.argv) > 1:
        read = lambda name: open(f"{sys.argv[1]}/{name}", "rb").read()
        credentials = grpc.ssl_server_credentials(
            [(read("tls.key"), read("tls.crt"))], read("ca.crt"), require_client_auth=True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    # Ends with whoever started it.
    sys.stdin.read()


main()

//! The dialect of the vendor's Go library.

use serde_json::{Value, json};

use super::{
    reply::{Asked, Reply, fields, text},
    world::{Coming, DATACENTER, IMAGES, Machine, Node, SIZES, Snapshot, World, uuid},
};

type Answer = Result<Reply, Reply>;

/// The answer, or none where there is no such path.
pub(super) fn route(world: &mut World, asked: &Asked<'_>) -> Option<Answer> {
    let Asked { method, parts, body, .. } = asked;
    Some(match (*method, parts.as_slice()) {
        ("GET", ["api", "v2", "vm"]) => {
            let rows = world.listed_vms().iter().map(vm).collect();
            Ok(page(world, asked, rows))
        }
        ("POST", ["api", "v2", "vm"]) => create(world, *body),
        ("DELETE", ["api", "v2", "vm"]) => delete(world, *body),
        ("POST", ["api", "v2", "vm", action @ ("start" | "stop" | "restart")]) => {
            act(world, action, *body)
        }
        ("POST", ["api", "v2", "vm", "resize"]) => resize(world, *body),
        ("GET", ["api", "v2", "vm", id]) => match find(world, id) {
            Some(found) => Ok(Reply::ok(json!({"error": false, "data": {"vmData": vm(found)}}))),
            None => Err(Reply::missing("Vm")),
        },
        ("GET", ["apps", "v2", "vm", "pending"]) => Ok(pending(world)),
        ("GET", ["apps", "v2", "vms", "all", "user"]) => {
            let mut rows: Vec<Value> = world.listed_vms().iter().map(vm).collect();
            if world.shape.nodes_among_all {
                let clusters = world.listed_clusters().values();
                let nodes = clusters.flat_map(|cluster| &cluster.nodes);
                let new = nodes.map(|node| vm(&node.machine)).filter(|row| !rows.contains(row));
                let new: Vec<Value> = new.collect();
                rows.extend(new);
            }
            Ok(page(world, asked, rows))
        }
        ("GET", ["apps", "v2", "vm", "snapshot", id]) => {
            let of = world.snapshots.iter().filter(|one| one.vm == **id && one.due == 0);
            let rows = of.map(snapshot).collect();
            Ok(page(world, asked, rows))
        }
        ("POST", ["apps", "v2", "snapshot", "add"]) => add_snapshot(world, *body),
        ("POST", ["apps", "v2", "snapshot", "rollback"]) => rollback(world, *body),
        ("DELETE", ["apps", "v2", "snapshot"]) => delete_snapshot(world, *body),
        (method, ["apps", "v2", "k8s", rest @ ..]) => k8s(world, asked, method, rest)?,
        (_, ["api", "v2", "vm"] | ["apps", "v2", "snapshot"]) => {
            Err(Reply::wrong(405, "Method not allowed"))
        }
        _ => return None,
    })
}

fn k8s(world: &mut World, asked: &Asked<'_>, method: &str, rest: &[&str]) -> Option<Answer> {
    if let Some(answer) = shared(world, asked.body, method, rest) {
        return Some(answer);
    }
    Some(match (method, rest) {
        ("GET", ["cluster", "all"]) => {
            let one = |(id, cluster): (&String, &super::world::Cluster)| json!({"identifier": id, "cluster_name": cluster.name});
            let rows: Vec<Value> = world.listed_clusters().iter().map(one).collect();
            Ok(Reply::ok(json!({"error": false, "data": rows})))
        }
        ("GET", ["cluster", "byId", id]) => match world.listed_clusters().get(*id) {
            Some(cluster) => {
                let nodes: Vec<Value> = cluster.nodes.iter().map(node).collect();
                let data = json!({"identifier": id, "cluster_name": cluster.name, "nodes": nodes});
                Ok(Reply::ok(json!({"error": false, "data": data})))
            }
            None => Err(Reply::missing("Cluster")),
        },
        ("GET", ["node", "groups", "byClusterId", id]) => {
            groups(world, id).map(|rows| Reply::ok(json!({"error": false, "data": rows})))
        }
        ("DELETE", ["cluster", "byId", id, "reduce", "slave"]) => {
            let group = fields(asked.body, &["groupId"], &[]);
            match group.map(|map| map["groupId"].as_i64()) {
                Ok(Some(group)) => reduce(world, id, group),
                Ok(None) => Err(Reply::wrong(400, "groupId must be a number")),
                Err(reply) => Err(reply),
            }
        }
        _ => return None,
    })
}

/// What both dialects have under the same paths.
pub(super) fn shared(
    world: &mut World,
    body: Option<&Value>,
    method: &str,
    rest: &[&str],
) -> Option<Answer> {
    Some(match (method, rest) {
        ("POST", ["cluster", "add", "group"]) => add_group(world, body),
        ("POST", ["cluster", "byId", id, "add", "slave", "group", group]) => {
            if body.is_some() {
                return Some(Err(Reply::wrong(400, "no body is taken")));
            }
            add_node(world, id, group)
        }
        ("DELETE", ["cluster", "byId", id, "delete", "slave"]) => delete_node(world, id, body),
        _ => return None,
    })
}

fn add_group(world: &mut World, body: Option<&Value>) -> Answer {
    let map = fields(body, &["clusterIdentifier", "groupName", "KubeSizeID"], &[])?;
    let (cluster, name) = (text(map, "clusterIdentifier")?, text(map, "groupName")?);
    let size = map["KubeSizeID"].as_i64();
    let known = SIZES.into_iter().any(|(number, ..)| Some(number) == size);
    let Some(size) = size.filter(|_| known) else {
        return Err(Reply::wrong(400, "KubeSizeID is not valid"));
    };
    let Some(found) = world.clusters.get(&cluster) else { return Err(Reply::missing("Cluster")) };
    if let Some(other) = found.groups.iter().find(|group| group.size == size) {
        let message = format!("Group {} has same selected Size", other.name);
        return Ok(Reply::ok(json!({"error": true, "code": 400, "message": message})));
    }
    let id = world.add_group(&cluster, &name, size).unwrap_or_default();
    Ok(Reply::ok(json!({"error": false, "data": {"groupId": uuid(id)}})))
}

fn add_node(world: &mut World, cluster: &str, group: &str) -> Answer {
    let Some(found) = world.clusters.get(cluster) else { return Err(Reply::missing("Cluster")) };
    let group = group.parse::<i64>().ok();
    let group = group.filter(|group| found.groups.iter().any(|one| one.id == *group));
    let Some(group) = group else { return Err(Reply::missing("Group")) };
    let coming = Coming::Node { cluster: cluster.to_owned(), group };
    let after = world.shape.made_after;
    world.coming.push((after, coming));
    Ok(Reply::taken())
}

fn delete_node(world: &mut World, cluster: &str, body: Option<&Value>) -> Answer {
    let identifier = text(fields(body, &["identifier"], &[])?, "identifier")?;
    let after = world.shape.changed_after;
    let Some(found) = world.clusters.get_mut(cluster) else {
        return Err(Reply::missing("Cluster"));
    };
    let node = found.nodes.iter_mut().find(|node| node.machine.identifier == identifier);
    match node {
        // It does what it is told: keeping away from masters is up to whoever asks.
        Some(node) => {
            node.machine.leaves.get_or_insert(after);
            Ok(Reply::taken())
        }
        None => Err(Reply::missing("Node")),
    }
}

/// Removes whichever node comes first.
fn reduce(world: &mut World, cluster: &str, group: i64) -> Answer {
    let after = world.shape.changed_after;
    let Some(found) = world.clusters.get_mut(cluster) else {
        return Err(Reply::missing("Cluster"));
    };
    let mut members = found.nodes.iter_mut().filter(|node| node.group == Some(group));
    match members.find(|node| node.machine.leaves.is_none()) {
        Some(node) => {
            node.machine.leaves = Some(after);
            Ok(Reply::taken())
        }
        None => Err(Reply::wrong(400, "the group has no nodes")),
    }
}

/// A cluster's groups.
pub(super) fn groups(world: &World, id: &str) -> Result<Vec<Value>, Reply> {
    let Some(cluster) = world.listed_clusters().get(id) else {
        return Err(Reply::missing("Cluster"));
    };
    let one = |group: &super::world::Group| {
        let (_, _, cpu, ram, ssd) =
            SIZES.into_iter().find(|(number, ..)| *number == group.size).unwrap_or(SIZES[0]);
        let count = cluster.nodes.iter().filter(|node| node.group == Some(group.id)).count();
        json!({
            "id": group.id, "group_name": group.name, "identifier": group.identifier,
            "boxsize_id": group.size, "dcIdentifier": DATACENTER, "cpu": cpu, "ram": ram, "ssd": ssd,
            "nodes_count": count, "is_active": 1, "is_deleted": 0,
        })
    };
    Ok(cluster.groups.iter().map(one).collect())
}

fn page(world: &World, asked: &Asked<'_>, rows: Vec<Value>) -> Reply {
    let offset = asked.query.get("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
    let total = rows.len();
    let rows: Vec<Value> = rows.into_iter().skip(offset).take(world.shape.page_size).collect();
    Reply::ok(json!({"error": false, "data": rows, "total": total}))
}

fn vm(vm: &Machine) -> Value {
    json!({
        "id": vm.id, "user_id": 1, "boxsize_id": vm.size, "hostname": vm.hostname,
        "default_ip": ip(vm), "default_ipv6": "", "private_ip": null, "ram": vm.ram, "cpu": vm.cpu,
        "ssd": vm.ssd, "traffic": 1000, "notes": vm.notes, "created_on": written(vm),
        "is_active": 1, "is_deleted": 0, "identifier": vm.identifier, "power": u8::from(vm.on),
        "is_locked": 0, "is_suspended": 0, "is_terminated": 0, "dcIdentifier": DATACENTER,
        "state": "NY", "initial_password": "",
    })
}

fn node(node: &Node) -> Value {
    let machine = &node.machine;
    json!({
        "id": machine.id, "user_id": 1, "hostname": machine.hostname, "default_ip": ip(machine),
        "private_ip": private_ip(machine), "node_type": if node.master { 1 } else { 2 },
        "node_id": 9, "datacenter_id": 4, "created_on": written(machine),
    })
}

pub(super) fn ip(machine: &Machine) -> String {
    format!("192.0.2.{}", machine.id % 250)
}

pub(super) fn private_ip(machine: &Machine) -> String {
    format!("10.0.0.{}", machine.id % 250)
}

/// A time as this dialect writes it.
fn written(machine: &Machine) -> String {
    machine.created.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn snapshot(snapshot: &Snapshot) -> Value {
    json!({
        "identifier": snapshot.identifier, "name": snapshot.name, "note": snapshot.note,
        "vmIdentifier": snapshot.vm, "created_on": snapshot.created.to_string(),
        "backup_size": 1024, "is_snapshot": 1,
    })
}

fn pending(world: &World) -> Reply {
    let one = |(_, coming): &(u32, Coming)| match coming {
        Coming::Vm(vm) => Some(
            json!({"id": "p", "running": 1, "type": "create", "data": {"hostname": vm.hostname}}),
        ),
        Coming::Node { .. } => None,
    };
    let rows: Vec<Value> = world.coming.iter().filter_map(one).collect();
    Reply::ok(json!({"error": false, "data": rows}))
}

fn find<'a>(world: &'a World, identifier: &str) -> Option<&'a Machine> {
    world.vms.iter().find(|vm| vm.identifier == identifier)
}

fn create(world: &mut World, body: Option<&Value>) -> Answer {
    let needed = ["resourceIdentifier", "osIdentifier", "dcIdentifier", "hostname", "projectId"];
    let may = ["notes", "sshKeyIdentifier", "scriptIdentifier", "userData", "tags", "ssd"];
    let map = fields(body, &needed, &may)?;
    for name in needed {
        text(map, name)?;
    }
    let (plan, image) = (text(map, "resourceIdentifier")?, text(map, "osIdentifier")?);
    let size = SIZES.into_iter().find(|(_, id, ..)| *id == plan);
    let Some((size, ..)) = size else {
        return Err(Reply::wrong(400, "resourceIdentifier is not valid"));
    };
    if !IMAGES.contains(&image.as_str()) {
        return Err(Reply::wrong(400, "osIdentifier is not valid"));
    }
    if text(map, "dcIdentifier")? != DATACENTER {
        return Err(Reply::wrong(400, "dcIdentifier is not valid"));
    }
    let mut vm = world.machine(&text(map, "hostname")?, size);
    let said = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
    vm.notes = said("notes").unwrap_or_default();
    vm.user_data = said("userData");
    let tags = map.get("tags").and_then(Value::as_array).into_iter().flatten();
    vm.tags = tags.filter_map(Value::as_str).map(str::to_owned).collect();
    let after = world.shape.made_after;
    world.coming.push((after, Coming::Vm(Box::new(vm))));
    Ok(Reply::ok(json!({"error": false, "data": true})))
}

fn named<'a>(
    world: &'a mut World,
    map: &serde_json::Map<String, Value>,
) -> Result<&'a mut Machine, Reply> {
    let identifier = text(map, "vmIdentifier")?;
    let found = world.vms.iter_mut().find(|vm| vm.identifier == identifier);
    found.ok_or_else(|| Reply::missing("Vm"))
}

fn delete(world: &mut World, body: Option<&Value>) -> Answer {
    let map = fields(body, &["vmIdentifier", "password", "deleteStatistic"], &[])?;
    fields(map.get("deleteStatistic"), &["reason", "note"], &[])?;
    text(map, "password")?;
    let (after, only_off) = (world.shape.changed_after, world.shape.delete_only_off);
    let vm = named(world, map)?;
    leave(vm, after, only_off)
}

/// A machine goes.
pub(super) fn leave(vm: &mut Machine, after: u32, only_off: bool) -> Answer {
    if only_off && vm.on {
        return Err(Reply::wrong(409, "Vm is running"));
    }
    vm.leaves.get_or_insert(after);
    Ok(Reply::taken())
}

fn act(world: &mut World, action: &str, body: Option<&Value>) -> Answer {
    let map = fields(body, &["vmIdentifier"], &[])?;
    let after = world.shape.changed_after;
    let vm = named(world, map)?;
    turn(vm, action, after)
}

/// A machine's power changes.
pub(super) fn turn(vm: &mut Machine, action: &str, after: u32) -> Answer {
    let on = match action {
        "start" if vm.on => return Err(Reply::wrong(409, "Vm is already running")),
        "stop" if !vm.on => return Err(Reply::wrong(409, "Vm is already stopped")),
        "start" | "restart" => true,
        "stop" => false,
        _ => return Err(Reply::wrong(400, "action is not valid")),
    };
    match after {
        0 => vm.on = on,
        after => vm.turns = Some((on, after)),
    }
    Ok(Reply::taken())
}

fn resize(world: &mut World, body: Option<&Value>) -> Answer {
    let map = fields(body, &["vmIdentifier", "ram"], &["cpu", "cup"])?;
    let number = |name: &str| text(map, name).ok().and_then(|text| text.parse::<i64>().ok());
    let (Some(ram), Some(cpu)) = (number("ram"), number("cup").or_else(|| number("cpu"))) else {
        return Err(Reply::wrong(400, "ram and cpu must be numbers"));
    };
    let vm = named(world, map)?;
    (vm.ram, vm.cpu) = (ram, cpu);
    Ok(Reply::taken())
}

fn add_snapshot(world: &mut World, body: Option<&Value>) -> Answer {
    let map = fields(body, &["name", "vmIdentifier", "note"], &[])?;
    let (vm, name) = (named(world, map)?.identifier.clone(), text(map, "name")?);
    let (id, created) = (world.number(), world.clock.now());
    let (identifier, note, due) = (uuid(id), text(map, "note")?, world.shape.changed_after);
    world.snapshots.push(Snapshot { identifier, name, note, vm, created, due });
    Ok(Reply::taken())
}

fn rollback(world: &mut World, body: Option<&Value>) -> Answer {
    let identifier = text(fields(body, &["snapshotIdentifier"], &[])?, "snapshotIdentifier")?;
    match world.snapshots.iter().any(|one| one.identifier == identifier) {
        true => Ok(Reply::taken()),
        false => Err(Reply::missing("Snapshot")),
    }
}

fn delete_snapshot(world: &mut World, body: Option<&Value>) -> Answer {
    let map = fields(body, &["snapshotIdentifier", "deleteStatistic"], &[])?;
    let identifier = text(map, "snapshotIdentifier")?;
    let before = world.snapshots.len();
    world.snapshots.retain(|one| one.identifier != identifier);
    match world.snapshots.len() < before {
        true => Ok(Reply::taken()),
        false => Err(Reply::missing("Snapshot")),
    }
}

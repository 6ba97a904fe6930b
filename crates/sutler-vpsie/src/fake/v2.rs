//! The dialect of the vendor's autoscaler.

use serde_json::{Value, json};

use super::{
    govpsie::{groups, ip, leave, shared, turn},
    reply::{Asked, Reply, fields, text},
    world::{Coming, DATACENTER, IMAGES, Machine, Node, SIZES, World},
};

type Answer = Result<Reply, Reply>;

/// The answer, or none where there is no such path.
pub(super) fn route(world: &mut World, asked: &Asked<'_>) -> Option<Answer> {
    let Asked { method, parts, body, .. } = asked;
    let ["v2", rest @ ..] = parts.as_slice() else { return None };
    if let ["k8s", rest @ ..] = rest
        && let Some(answer) = shared(world, *body, method, rest)
    {
        return Some(answer);
    }
    Some(match (*method, rest) {
        ("GET", ["vm"]) => {
            let rows = world.listed_vms().iter().map(vm).collect();
            Ok(page(world, asked, rows))
        }
        ("POST", ["vm"]) => create(world, *body),
        ("GET", ["vm", id]) => match find(world, id) {
            Some(found) => Ok(Reply::ok(vm(found))),
            None => Err(Reply::missing("Vm")),
        },
        ("DELETE", ["vm", id]) => {
            let (after, only_off) = (world.shape.changed_after, world.shape.delete_only_off);
            match find(world, id) {
                Some(found) => leave(found, after, only_off),
                None => Err(Reply::missing("Vm")),
            }
        }
        ("POST", ["vm", id, "action"]) => {
            let action = fields(*body, &["action"], &[]).and_then(|map| text(map, "action"));
            let after = world.shape.changed_after;
            match (find(world, id), action) {
                (Some(found), Ok(action)) => turn(found, &action, after),
                (None, _) => Err(Reply::missing("Vm")),
                (_, Err(reply)) => Err(reply),
            }
        }
        ("GET", ["offerings"]) => Ok(page(world, asked, SIZES.into_iter().map(offering).collect())),
        ("GET", ["images"]) => {
            let image =
                |id: &&str| json!({"id": id, "name": id, "min_disk": 10, "available": true});
            Ok(page(world, asked, IMAGES.iter().map(image).collect()))
        }
        ("GET", ["k8s", "cluster", "all"]) => {
            let one = |(id, cluster): (&String, &super::world::Cluster)| json!({"identifier": id, "cluster_name": cluster.name});
            let rows = world.listed_clusters().iter().map(one).collect();
            Ok(page(world, asked, rows))
        }
        ("GET", ["k8s", "cluster", "byId", id]) => match world.listed_clusters().get(*id) {
            Some(cluster) => {
                let of = |master: bool| -> Vec<Value> {
                    cluster.nodes.iter().filter(|node| node.master == master).map(node).collect()
                };
                let data = json!({"nodes": [], "masters": of(true), "slaves": of(false)});
                Ok(Reply::ok(json!({"error": false, "data": data})))
            }
            None => Err(Reply::missing("Cluster")),
        },
        ("GET", ["k8s", "node", "groups", "byClusterId", id]) => {
            groups(world, id).map(|rows| page(world, asked, rows))
        }
        (_, ["vm"] | ["vm", _] | ["offerings"] | ["images"]) => {
            Err(Reply::wrong(405, "Method not allowed"))
        }
        _ => return None,
    })
}

fn page(world: &World, asked: &Asked<'_>, rows: Vec<Value>) -> Reply {
    let number = |name: &str| asked.query.get(name).and_then(|text| text.parse::<usize>().ok());
    let size = world.shape.page_size.min(number("per_page").unwrap_or(usize::MAX));
    let page = number("page").unwrap_or(1).max(1);
    let total = rows.len();
    let rows: Vec<Value> = rows.into_iter().skip((page - 1) * size).take(size).collect();
    Reply::ok(json!({
        "data": rows,
        "pagination": {
            "total": total, "count": rows.len(), "per_page": size, "current_page": page,
            "total_pages": total.div_ceil(size),
        },
    }))
}

fn vm(vm: &Machine) -> Value {
    let status = match (vm.leaves, vm.turns, vm.on) {
        (Some(_), ..) => "deleting",
        (None, None, true) => "running",
        (None, None, false) => "stopped",
        (None, Some((true, _)), _) => "starting",
        (None, Some((false, _)), _) => "stopping",
    };
    json!({
        "id": vm.id, "identifier": vm.identifier, "name": vm.hostname, "hostname": vm.hostname,
        "status": status, "cpu": vm.cpu, "ram": vm.ram, "ssd": vm.ssd, "traffic": 1000,
        "default_ip": ip(vm), "default_ipv6": "", "boxsize_id": vm.size, "datacenter_id": 4,
        "os_name": "debian", "os_version": "13", "created_on": vm.created.to_string(),
        "last_updated": vm.created.to_string(), "tags": vm.tags, "notes": vm.notes,
    })
}

fn node(node: &Node) -> Value {
    let Node { machine, master, .. } = node;
    json!({
        "identifier": machine.identifier, "hostname": machine.hostname, "ip": ip(machine),
        "status": "running", "role": if *master { "master" } else { "slave" },
        "cpu": machine.cpu, "ram": machine.ram, "disk": machine.ssd,
    })
}

fn offering((_, id, cpu, ram, disk): (i64, &str, i64, i64, i64)) -> Value {
    json!({
        "id": id, "name": id, "cpu": cpu, "ram": ram, "disk": disk, "bandwidth": 1000, "price": 5.0,
        "hourly_price": 0.01, "available": true, "datacenter_id": DATACENTER, "category": "standard",
    })
}

fn find<'a>(world: &'a mut World, id: &str) -> Option<&'a mut Machine> {
    let id = id.parse::<i64>().ok()?;
    world.vms.iter_mut().find(|vm| vm.id == id)
}

fn create(world: &mut World, body: Option<&Value>) -> Answer {
    let needed = ["name", "hostname", "offering_id", "datacenter_id", "os_image_id"];
    let may = [
        "resourceIdentifier",
        "projectId",
        "ssh_key_ids",
        "password",
        "notes",
        "tags",
        "user_data",
    ];
    let map = fields(body, &needed, &may)?;
    for name in needed {
        text(map, name)?;
    }
    let plan = text(map, "offering_id")?;
    let Some((size, ..)) = SIZES.into_iter().find(|(_, id, ..)| *id == plan) else {
        return Err(Reply::wrong(400, "offering_id is not valid"));
    };
    if !IMAGES.contains(&text(map, "os_image_id")?.as_str()) {
        return Err(Reply::wrong(400, "os_image_id is not valid"));
    }
    if text(map, "datacenter_id")? != DATACENTER {
        return Err(Reply::wrong(400, "datacenter_id is not valid"));
    }
    let mut made = world.machine(&text(map, "hostname")?, size);
    let said = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
    made.notes = said("notes").unwrap_or_default();
    made.user_data = said("user_data");
    let tags = map.get("tags").and_then(Value::as_array).into_iter().flatten();
    made.tags = tags.filter_map(Value::as_str).map(str::to_owned).collect();
    let answer = vm(&made);
    let after = world.shape.made_after;
    world.coming.push((after, Coming::Vm(Box::new(made))));
    Ok(Reply::ok(answer))
}

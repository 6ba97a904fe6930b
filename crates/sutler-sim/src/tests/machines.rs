//! Power, deletion, ownership, reconfiguration.

use sutler_provider::ReconfigureRequest;

use super::*;
use crate::{Call, Cause, Feature, Happened};

fn shutdown(seconds: u64) -> PowerOp {
    PowerOp::Shutdown { timeout: Duration::from_secs(seconds) }
}

#[tokio::test(start_paused = true)]
async fn power_goes_where_it_is_asked() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let ip = shown(&sim, &id).await.ips;
    for (op, after) in [
        (PowerOp::On, Power::On),
        (PowerOp::Pause, Power::Paused),
        (PowerOp::Pause, Power::Paused),
        (PowerOp::Resume, Power::On),
        (PowerOp::Reboot, Power::On),
        (shutdown(9), Power::Off),
        (PowerOp::Off, Power::Off),
        (PowerOp::On, Power::On),
        (PowerOp::Off, Power::Off),
    ] {
        assert_eq!(power(&sim, &id, "web", op).await.unwrap(), None);
        let machine = shown(&sim, &id).await;
        assert_eq!(machine.power, after, "{op:?}");
        // An address belongs to a machine, and is told while its guest is up.
        assert_eq!(machine.ips, if after == Power::Off { vec![] } else { ip.clone() });
    }
    for op in [PowerOp::Reboot, PowerOp::Pause, PowerOp::Resume] {
        assert_eq!(kind(power(&sim, &id, "web", op).await), ErrorKind::Conflict, "{op:?}");
    }
    let nowhere = MachineId::from("vm-1");
    assert_eq!(kind(power(&sim, &nowhere, "web", PowerOp::On).await), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn nobody_touches_what_is_not_theirs() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let mut elsewhere = proof("web");
    elsewhere.owner.installation = "there".to_owned();
    let mut older = proof("web");
    older.owner.token.incarnation = 2;
    for wrong in [proof("db"), elsewhere, older] {
        let id = id.clone();
        let result = sim.delete(DeleteRequest { id: id.clone(), proof: wrong.clone() }).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("not ours"), "{error}");
        let off = PowerRequest { id: id.clone(), proof: wrong.clone(), op: PowerOp::Off };
        assert_eq!(kind(sim.power(off).await), ErrorKind::Conflict);
        let change = ReconfigureRequest {
            id: id.clone(),
            proof: wrong.clone(),
            desired: request("web"),
            remove_disks: vec!["data".to_owned()],
            remove_nics: Vec::new(),
        };
        assert_eq!(kind(sim.reconfigure(change).await), ErrorKind::Conflict);
        assert_eq!(kind(sim.disown(&id, &wrong).await), ErrorKind::Conflict);
        assert_eq!(kind(sim.adopt(&id, &wrong.owner).await), ErrorKind::Conflict);
    }
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.power, machine.disks.unwrap().len()), (Power::On, 2));
    assert_eq!(sim.history().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_no_token_is_carried_the_name_is_the_proof() {
    let settings = Settings {
        token: false,
        unique_by: sutler_provider::UniqueBy::Name,
        ..Settings::default()
    };
    let sim = sim(settings);
    let id = make(&sim, "web").await;
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.token, machine.installation), (None, None));
    assert_eq!(sim.machines()[0].machine.token, Some(Token::new("web", 1)));
    assert_eq!(kind(delete(&sim, &id, "db").await), ErrorKind::Conflict);
    assert_eq!(kind(sim.adopt(&id, &owner("db")).await), ErrorKind::Unsupported);
    // A machine that was adopted is proven by the record alone.
    let adopted = Proof { owner: owner("db"), name: None };
    sim.delete(DeleteRequest { id, proof: adopted }).await.unwrap();
    assert!(sim.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_deleted() {
    let sim = quick();
    let id = make(&sim, "web").await;
    assert_eq!(delete(&sim, &id, "web").await, Ok(None));
    assert_eq!(delete(&sim, &id, "web").await, Ok(None));
    assert_eq!(sim.describe(&id).await.unwrap(), None);
    let gone = sim.history().pop().unwrap();
    assert_eq!((gone.what, gone.cause), (Happened::Gone, Cause::Call(Call::Delete)));
    assert_eq!((gone.token, gone.by), (Some(Token::new("web", 1)), Some(owner("web"))));
}

#[tokio::test(start_paused = true)]
async fn tokens_are_taken_off_and_put_on() {
    let sim = quick();
    let (web, db) = (make(&sim, "web").await, make(&sim, "db").await);
    sim.disown(&web, &proof("web")).await.unwrap();
    assert_eq!(shown(&sim, &web).await.token, None);
    assert_eq!(kind(delete(&sim, &web, "web").await), ErrorKind::Conflict);
    // A token that another machine carries cannot be put on.
    assert_eq!(kind(sim.adopt(&web, &owner("db")).await), ErrorKind::Conflict);
    sim.adopt(&web, &owner("new")).await.unwrap();
    sim.adopt(&web, &owner("new")).await.unwrap();
    assert_eq!(kind(sim.adopt(&db, &owner("new")).await), ErrorKind::Conflict);
    delete(&sim, &web, "new").await.unwrap();
}

fn change(id: &MachineId, desired: CreateRequest) -> ReconfigureRequest {
    ReconfigureRequest {
        id: id.clone(),
        proof: proof("web"),
        desired,
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_becomes_what_is_desired() {
    let sim = quick();
    let id = make(&sim, "web").await;
    sim.reconfigure(change(&id, request("web"))).await.unwrap();
    assert_eq!(sim.history().len(), 1, "nothing to do is no change");
    let mut desired = request("web");
    desired.class = Some(Class { root_gib: Some(30), ..class(4, 4096) });
    desired.disks = vec![Disk { name: "log".to_owned(), size_gib: 7, ..Disk::default() }];
    desired.nics = vec![sutler_provider::Nic { name: "b".to_owned(), ..Default::default() }];
    desired.tags = vec!["green".to_owned()];
    let mut full = change(&id, desired);
    full.remove_disks = vec!["data".to_owned(), "root".to_owned()];
    full.remove_nics = vec!["eth0".to_owned()];
    sim.reconfigure(full.clone()).await.unwrap();
    let machine = shown(&sim, &id).await;
    let disks = machine.disks.clone().unwrap();
    let sizes: Vec<_> = disks.iter().map(|disk| (disk.name.as_str(), disk.size_gib)).collect();
    assert_eq!(sizes, [("root", 30), ("log", 7)]);
    assert_eq!((machine.cpu, machine.memory_mib), (Some(4), Some(4096)));
    assert_eq!(machine.tags, ["green"]);
    assert_eq!(machine.interfaces.as_ref().unwrap()[0].name.as_deref(), Some("b"));
    assert_eq!(machine.interfaces.as_ref().unwrap().len(), 1);
    sim.reconfigure(full).await.unwrap();
    assert_eq!(shown(&sim, &id).await, machine);
}

#[tokio::test(start_paused = true)]
async fn disks_do_not_shrink_and_what_is_too_large_is_refused() {
    let sim = sim(Settings {
        hosts: vec![crate::HostSettings {
            name: "a".to_owned(),
            cpu: 4,
            memory_mib: 9000,
            ..crate::HostSettings::default()
        }],
        ..Settings::default()
    });
    let id = make(&sim, "web").await;
    make(&sim, "db").await;
    let before = shown(&sim, &id).await;
    let mut smaller = request("web");
    smaller.disks[0].size_gib = 4;
    let error = sim.reconfigure(change(&id, smaller)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::Invalid, Some("spec.disks[data].sizeGiB"))
    );
    let mut smaller = request("web");
    smaller.class.as_mut().unwrap().root_gib = Some(15);
    let error = sim.reconfigure(change(&id, smaller)).await.unwrap_err();
    assert_eq!(error.field(), Some("spec.disks[root].sizeGiB"));
    let mut larger = request("web");
    larger.class = Some(class(3, 2048));
    assert_eq!(kind(sim.reconfigure(change(&id, larger)).await), ErrorKind::Exhausted);
    let mut larger = request("web");
    larger.class = Some(class(5, 2048));
    let error = sim.reconfigure(change(&id, larger)).await.unwrap_err();
    assert_eq!(error.field(), Some("spec.resources.cpu"));
    assert_eq!(shown(&sim, &id).await, before);
}

#[tokio::test(start_paused = true)]
async fn some_platforms_change_only_what_is_off() {
    let without = [Feature::ReconfigureOnline, Feature::DiskGrowthOnline].into();
    let sim = sim(Settings { without, ..Settings::default() });
    let id = make(&sim, "web").await;
    let mut resized = request("web");
    resized.class = Some(class(4, 2048));
    let mut grown = request("web");
    grown.disks[0].size_gib = 50;
    for desired in [&resized, &grown] {
        let result = sim.reconfigure(change(&id, desired.clone())).await;
        assert_eq!(kind(result), ErrorKind::Conflict);
    }
    power(&sim, &id, "web", PowerOp::Off).await.unwrap();
    sim.reconfigure(change(&id, resized)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn guests_are_told_of_while_they_are_up_and_changes_as_they_happen() {
    let sim = quick();
    let mut changes = sim.changes();
    assert!(!changes.has_changed().unwrap());
    let id = make(&sim, "web").await;
    assert!(changes.has_changed().unwrap());
    let up = sim.guests();
    let [guest] = up.as_slice() else { panic!("{up:?}") };
    assert_eq!((guest.id.clone(), guest.hostname.as_str()), (id.clone(), "web"));
    assert_eq!((guest.cpu, guest.memory_mib), (2, 2048));
    assert_eq!(guest.ips, shown(&sim, &id).await.ips);
    assert_eq!(guest.user_data, request("web").user_data);
    changes.mark_unchanged();
    for op in [PowerOp::Pause, PowerOp::Resume, PowerOp::Off] {
        power(&sim, &id, "web", op).await.unwrap();
        assert_eq!(sim.guests().len(), usize::from(op == PowerOp::Resume), "{op:?}");
    }
    assert!(changes.has_changed().unwrap());
}

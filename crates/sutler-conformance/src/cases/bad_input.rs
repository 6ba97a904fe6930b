//! Requests that can never work.

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, refused},
};

cases! { "bad_input":
    a_name_that_is_no_name [BAD_INPUT] nothing,
    a_name_that_is_empty [BAD_INPUT] nothing,
    a_name_that_is_too_long [BAD_INPUT] nothing,
    no_cpu [BAD_INPUT] nothing,
    no_memory [BAD_INPUT] nothing,
    a_disk_without_a_size [BAD_INPUT] nothing,
    two_disks_of_one_name [BAD_INPUT] nothing,
    two_cards_of_one_name [BAD_INPUT] nothing,
    an_address_that_is_none [BAD_INPUT] nothing,
    a_snapshot_without_a_name [BAD_INPUT] snapshots,
    an_image_without_a_name [BAD_INPUT] image_import,
    an_import_without_a_name [BAD_INPUT] disk_import,
    a_format_that_is_none [BAD_INPUT] disk_export,
    a_command_of_nothing [BAD_INPUT] guest_commands,
    shrinking_to_no_cpu [BAD_INPUT] reconfigure,
}

/// A create that is refused, and leaves nothing.
async fn refuses(context: &Context, request: CreateRequest, what: &str) -> Check {
    let answer = context.provider.create(request.clone()).await;
    if let Ok(Accepted { id: Some(id), .. }) = &answer {
        context.remember(id, &request);
    }
    refused(answer, ErrorKind::Invalid, what)?;
    if context.can.list {
        let listing = context.provider.list().await?;
        let made = listing.machines.iter().find(|machine| machine.name == request.name);
        ensure!(made.is_none(), "{what}: it was refused, and a machine was made: {made:?}");
    }
    Ok(())
}

async fn a_name_that_is_no_name(context: &Context) -> Check {
    let request = CreateRequest { name: "No Name/At_All".to_owned(), ..context.request() };
    refuses(context, request, "a name with spaces and a slash").await
}

async fn a_name_that_is_empty(context: &Context) -> Check {
    let request = CreateRequest { name: String::new(), ..context.request() };
    refuses(context, request, "an empty name").await
}

async fn a_name_that_is_too_long(context: &Context) -> Check {
    let name = "a".repeat(context.can.name_limit + 1);
    let request = CreateRequest { name, ..context.request() };
    refuses(context, request, "a name beyond the limit that is reported").await
}

async fn no_cpu(context: &Context) -> Check {
    let mut request = context.request();
    request.class.iter_mut().for_each(|class| class.cpu = 0);
    refuses(context, request, "no CPU").await
}

async fn no_memory(context: &Context) -> Check {
    let mut request = context.request();
    request.class.iter_mut().for_each(|class| class.memory_mib = 0);
    refuses(context, request, "no memory").await
}

fn disk(name: &str, size_gib: u64) -> Disk {
    Disk { name: name.to_owned(), size_gib, ..Disk::default() }
}

async fn a_disk_without_a_size(context: &Context) -> Check {
    let request = CreateRequest { disks: vec![disk("data", 0)], ..context.request() };
    refuses(context, request, "a disk of 0 GiB").await
}

async fn two_disks_of_one_name(context: &Context) -> Check {
    let disks = vec![disk("data", 1), disk("data", 2)];
    refuses(context, CreateRequest { disks, ..context.request() }, "two disks of one name").await
}

async fn two_cards_of_one_name(context: &Context) -> Check {
    let nic = Nic { name: "eth0".to_owned(), ..Nic::default() };
    let nics = vec![nic.clone(), nic];
    refuses(context, CreateRequest { nics, ..context.request() }, "two cards of one name").await
}

async fn an_address_that_is_none(context: &Context) -> Check {
    let ip = Some("10.0.0.999".to_owned());
    let nics = vec![Nic { name: "eth0".to_owned(), ip, ..Nic::default() }];
    refuses(context, CreateRequest { nics, ..context.request() }, "10.0.0.999").await
}

async fn a_snapshot_without_a_name(context: &Context) -> Check {
    let made = context.make().await?;
    let request = super::honesty::snapshot(&made, "", false);
    let answer = context.provider.snapshot_create(request).await;
    refused(answer, ErrorKind::Invalid, "an empty name").map(drop)
}

async fn an_image_without_a_name(context: &Context) -> Check {
    let answer = context.provider.image_prepare(context.image("")).await;
    refused(answer, ErrorKind::Invalid, "an empty name").map(drop)
}

async fn an_import_without_a_name(context: &Context) -> Check {
    let request = super::transfer::import(context.import_from(), "");
    refused(context.provider.disk_import(request).await, ErrorKind::Invalid, "an empty name")
        .map(drop)
}

async fn a_format_that_is_none(context: &Context) -> Check {
    let made = context.make().await?;
    let format = Some("no-such-format".to_owned());
    let request = super::transfer::export(context, &made, &context.word("out"));
    let answer = context.provider.disk_export(ExportRequest { format, ..request }).await;
    refused(answer, ErrorKind::Invalid, "a format that is not reported").map(drop)
}

async fn a_command_of_nothing(context: &Context) -> Check {
    let made = context.make().await?;
    super::guest::up(context, &made).await?;
    let answer = context.provider.guest_exec(super::guest::command(&made, &[])).await;
    refused(answer, ErrorKind::Invalid, "a command of no words").map(drop)
}

async fn shrinking_to_no_cpu(context: &Context) -> Check {
    let made = context.make().await?;
    let mut desired = made.request.clone();
    desired.class.iter_mut().for_each(|class| class.cpu = 0);
    let request = super::reconfigure::to(&made, desired);
    refused(context.provider.reconfigure(request).await, ErrorKind::Invalid, "no CPU")?;
    ensure!(context.shown(&made.id).await?.cpu != Some(0), "it was refused and applied");
    Ok(())
}

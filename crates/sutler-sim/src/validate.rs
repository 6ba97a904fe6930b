//! What no hypervisor takes.

use sutler_provider::{CreateRequest, Error, Image, Result, check};

use crate::{
    row::{Card, addresses, mac},
    settings::{Feature, Settings},
    txn::Txn,
};

/// Refuses requests that can never work.
pub(crate) fn request(settings: &Settings, request: &CreateRequest) -> Result<()> {
    for (index, disk) in request.disks.iter().enumerate() {
        if disk.kept.is_some() && !settings.can(Feature::KeptDisks) {
            let why = "this provider has no disks that outlive their machines";
            return Err(Error::unsupported(why).at(check::disk_kept(index)));
        }
    }
    check::request(request, settings.name_limit)?;
    let tools = request.class.as_ref().and_then(|class| class.guest_tools.as_deref());
    if let Some(policy @ ("upgrade" | "uninstall")) = tools {
        let why = format!("{policy:?}: simulated guests have the tools that they have");
        return Err(Error::invalid("spec.guestToolsPolicy", why));
    }
    if request.managed_node.is_some() && !settings.can(Feature::ManagedNodes) {
        return Err(Error::unsupported("this provider cannot make nodes of managed groups"));
    }
    Ok(())
}

/// What an image is called on the platform, and how large it is; strict platforms know which exist.
pub(crate) fn image(txn: &Txn<'_>, image: &Image) -> Result<(String, u64)> {
    const DEFAULT_GIB: u64 = 10;
    let named = [&image.id, &image.template, &image.path, &image.url];
    let wanted = named.into_iter().flatten().next().unwrap_or(&image.name);
    let settings = txn.settings;
    if let Some(template) = settings.templates.iter().find(|template| template.name == *wanted) {
        return Ok((wanted.clone(), template.size_gib));
    }
    let prepared = txn
        .state
        .images
        .iter()
        .find(|(target, row)| row.ready && (*target == wanted || row.path == *wanted));
    if let Some((target, row)) = prepared {
        return Ok((target.clone(), row.size_gib));
    }
    if let Some(disk) = txn.state.imports.get(wanted).filter(|disk| disk.ready) {
        return Ok((wanted.clone(), disk.size_bytes.div_ceil(1 << 30)));
    }
    if settings.strict_templates {
        return Err(Error::not_found(format!("there is no template or image {wanted:?}")));
    }
    Ok((wanted.clone(), DEFAULT_GIB))
}

/// The network cards of a request, each with an address of its own.
pub(crate) fn cards(txn: &mut Txn<'_>, request: &CreateRequest) -> Vec<Card> {
    if request.nics.is_empty() {
        let number = txn.number();
        let ips = addresses(txn.settings.first_address + number, txn.settings.ipv6);
        return vec![Card { name: "eth0".to_owned(), mac: mac(number), network: None, ips }];
    }
    request.nics.iter().map(|nic| card(txn, nic)).collect()
}

/// One network card, with an address of its own.
pub(crate) fn card(txn: &mut Txn<'_>, nic: &sutler_provider::Nic) -> Card {
    let number = txn.number();
    let ips = match &nic.ip {
        Some(ip) => vec![ip.clone()],
        None => addresses(txn.settings.first_address + number, txn.settings.ipv6),
    };
    Card {
        name: nic.name.clone(),
        mac: nic.mac.clone().unwrap_or_else(|| mac(number)),
        network: nic.network.clone().or_else(|| nic.bridge.clone()),
        ips,
    }
}

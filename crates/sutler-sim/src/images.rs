//! Images that are brought to the platform.

use sutler_provider::{Error, PrepareRequest, Prepared, Result, Started};

use crate::{
    answer::Begun,
    lifecycle::started,
    row::{Doing, ImageRow},
    state::Op,
    txn::{Txn, task_id},
};

const SIZE_GIB: u64 = 10;

/// Brings an image in, or says that it is there.
pub(crate) fn prepare(txn: &mut Txn<'_>, request: &PrepareRequest) -> Result<Begun<Prepared>> {
    let target = &request.target;
    if target.is_empty() {
        return Err(Error::invalid("metadata.name", "an image needs a name"));
    }
    match txn.state.images.get(target) {
        Some(image) if image.work.is_some() || (image.ready && !request.force) => {
            return Ok(prepared(target, image));
        }
        _ => {}
    }
    let size_gib = match &request.image.template {
        Some(template) if txn.settings.strict_templates => {
            let known = txn.settings.templates.iter().find(|known| known.name == *template);
            let unknown = || Error::not_found(format!("there is no template {template:?}"));
            known.ok_or_else(unknown)?.size_gib
        }
        _ => SIZE_GIB,
    };
    let path = format!("/sim/images/{target}.qcow2");
    let mut image = ImageRow { path, size_gib, ready: true, work: None };
    let takes = txn.settings.work.image;
    if !txn.at_once(takes) {
        image.ready = txn.state.images.get(target).is_some_and(|old| old.ready);
        let doing = Doing::ImagePrepare(target.clone(), image.clone());
        image.work = Some(txn.begin(None, doing, takes));
    }
    txn.apply(Op::Image(target.clone(), Some(image.clone())));
    Ok(prepared(target, &image))
}

/// Removes an image that no machine uses. One that is not there is no error.
pub(crate) fn remove(txn: &mut Txn<'_>, target: &str) -> Result<Begun<Started>> {
    let Some(mut image) = txn.state.images.get(target).cloned() else { return Ok(started(None)) };
    if txn.state.uses_image(target) {
        return Err(Error::conflict(format!("machines use the image {target:?}")));
    }
    let doing = Doing::ImageRemove(target.to_owned());
    if let Some(work) = image.work {
        let same = txn.state.works.get(&work).is_some_and(|work| work.doing == doing);
        return match same {
            true => Ok(started(Some(work))),
            false => Err(Error::conflict(format!("the image {target:?} is on its way"))),
        };
    }
    let takes = txn.settings.work.image;
    if txn.at_once(takes) {
        txn.apply(Op::Image(target.to_owned(), None));
        return Ok(started(None));
    }
    let work = txn.begin(None, doing, takes);
    image.work = Some(work);
    txn.apply(Op::Image(target.to_owned(), Some(image)));
    Ok(started(Some(work)))
}

pub(crate) fn end_prepare(txn: &mut Txn<'_>, target: &str, fails: bool) {
    let Some(image) = txn.state.images.get(target).cloned() else { return };
    let image = match (fails, image.ready) {
        (true, false) => None,
        _ => Some(ImageRow { ready: true, work: None, ..image }),
    };
    txn.apply(Op::Image(target.to_owned(), image));
}

pub(crate) fn end_remove(txn: &mut Txn<'_>, target: &str, fails: bool) {
    let Some(image) = txn.state.images.get(target).cloned() else { return };
    // A machine may have been made from it meanwhile.
    let stays = fails || txn.state.uses_image(target);
    txn.apply(Op::Image(target.to_owned(), stays.then_some(ImageRow { work: None, ..image })));
}

fn prepared(target: &str, image: &ImageRow) -> Begun<Prepared> {
    let answer = Prepared {
        id: Some(target.to_owned()),
        path: Some(image.path.clone()),
        task: image.work.map(task_id),
        size_bytes: Some(image.size_gib << 30),
    };
    Begun::new(answer, image.work)
}

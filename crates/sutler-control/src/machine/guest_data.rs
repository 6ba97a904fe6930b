//! What a guest is given on its first boot.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use sutler_api::{
    infra::{GuestData, VirtualMachineSpec},
    names::reasons,
};

use crate::{context::Context, fleet::Key, plan::Blocker};

/// Keys under which a Secret may hold user data, in the order in which they are tried.
const USER_DATA_KEYS: [&str; 4] = ["userdata", "user-data", "cloud-init", "cloud-config"];
/// Keys under which a Secret may hold metadata.
const META_DATA_KEYS: [&str; 3] = ["metadata", "meta-data", "meta_data"];
/// Keys under which a Secret may hold an Ignition configuration.
const IGNITION_KEYS: [&str; 3] = ["ignition", "config.ign", "userdata"];

/// What a guest is given on its first boot.
#[derive(Default)]
pub(super) struct Guest {
    pub(super) user_data: Option<Vec<u8>>,
    pub(super) ignition: bool,
    pub(super) meta_data: Option<Vec<u8>>,
}

/// Reads what the record says and what its Secrets hold.
pub(super) async fn of(
    context: &Context,
    own: &str,
    spec: &VirtualMachineSpec,
) -> Result<Guest, Blocker> {
    let user = spec.user_data.as_ref();
    let cloud_init = user.and_then(|data| data.cloud_init.as_ref());
    let ignition = user.and_then(|data| data.ignition.as_ref());
    let meta = spec.meta_data.as_ref().and_then(|data| data.cloud_init.as_ref());
    let (user_data, ignition) = match (cloud_init, ignition) {
        (Some(data), _) => {
            let field = "spec.userData.cloudInit";
            let parts = read(context, own, data, &USER_DATA_KEYS, field).await?;
            (merge_cloud_init(parts), false)
        }
        (None, Some(data)) => {
            let field = "spec.userData.ignition";
            let parts = read(context, own, data, &IGNITION_KEYS, field).await?;
            (one(parts, field)?, true)
        }
        (None, None) => (None, false),
    };
    let meta_data = match meta {
        Some(data) => {
            let parts =
                read(context, own, data, &META_DATA_KEYS, "spec.metaData.cloudInit").await?;
            merge_lines(parts)
        }
        None => None,
    };
    Ok(Guest { user_data, ignition, meta_data })
}

/// The inline document and the Secret's, as far as they are there.
async fn read(
    context: &Context,
    own: &str,
    data: &GuestData,
    keys: &[&str],
    field: &str,
) -> Result<Vec<Vec<u8>>, Blocker> {
    let mut parts: Vec<Vec<u8>> =
        data.inline.iter().map(|text| text.clone().into_bytes()).collect();
    let Some(reference) = &data.secret_ref else { return Ok(parts) };
    let key = Key::new(own, &reference.name);
    let field = format!("{field}.secretRef");
    let secret = match context.secret(&key).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Err(Blocker::missing("Secret", &field, &key)),
        Err(error) => {
            let message = format!("{field}: Secret {} could not be read: {error}", key.name);
            return Err(Blocker::waits(reasons::WAITING, message, Duration::from_secs(10)));
        }
    };
    match find(&secret, keys) {
        Some(found) => parts.push(found),
        None => {
            let message = format!("Secret {} has none of the keys {}", key.name, keys.join(", "));
            return Err(Blocker::invalid(&field, &message));
        }
    }
    Ok(parts)
}

fn find(secret: &Arc<Secret>, keys: &[&str]) -> Option<Vec<u8>> {
    let data = secret.data.as_ref()?;
    keys.iter().find_map(|key| data.get(*key)).map(|bytes| bytes.0.clone())
}

/// Several documents for cloud-init are one with parts, which it merges by its own rules.
fn merge_cloud_init(mut parts: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    const BOUNDARY: &str = "==sutler-part==";
    if parts.len() <= 1 {
        return parts.pop();
    }
    let mut out =
        format!("Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\nMIME-Version: 1.0\n\n")
            .into_bytes();
    for part in parts {
        let kind = match () {
            () if part.starts_with(b"#!") => "text/x-shellscript",
            () if part.starts_with(b"#include") => "text/x-include-url",
            () => "text/cloud-config",
        };
        out.extend_from_slice(
            format!("--{BOUNDARY}\nContent-Type: {kind}; charset=\"utf-8\"\nMIME-Version: 1.0\n\n")
                .as_bytes(),
        );
        out.extend_from_slice(&part);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("--{BOUNDARY}--\n").as_bytes());
    Some(out)
}

/// Metadata is one document of lines: what comes later wins where a reader takes the last.
fn merge_lines(parts: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    parts.into_iter().reduce(|mut all, part| {
        if !all.ends_with(b"\n") {
            all.push(b'\n');
        }
        all.extend_from_slice(&part);
        all
    })
}

/// Ignition reads one document: two would have to be merged, which only their author can.
fn one(mut parts: Vec<Vec<u8>>, field: &str) -> Result<Option<Vec<u8>>, Blocker> {
    match parts.len() {
        0 | 1 => Ok(parts.pop()),
        _ => Err(Blocker::invalid(
            field,
            "set either inline or secretRef: Ignition reads one document",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_stays_as_it_is_and_two_become_parts() {
        assert_eq!(merge_cloud_init(vec![]), None);
        assert_eq!(
            merge_cloud_init(vec![b"#cloud-config\n".to_vec()]).unwrap(),
            b"#cloud-config\n"
        );
        let two =
            merge_cloud_init(vec![b"#cloud-config\na: 1".to_vec(), b"#!/bin/sh\nid".to_vec()]);
        let text = String::from_utf8(two.unwrap()).unwrap();
        assert!(text.starts_with("Content-Type: multipart/mixed"), "{text}");
        assert_eq!(text.matches("text/cloud-config").count(), 1);
        assert_eq!(text.matches("text/x-shellscript").count(), 1);
        assert!(text.ends_with("--==sutler-part==--\n"));
    }

    #[test]
    fn metadata_is_put_together_line_by_line() {
        let all = merge_lines(vec![b"a: 1".to_vec(), b"b: 2\n".to_vec()]).unwrap();
        assert_eq!(all, b"a: 1\nb: 2\n");
    }

    #[test]
    fn ignition_takes_one_document() {
        assert!(one(vec![b"{}".to_vec(), b"{}".to_vec()], "f").is_err());
        assert_eq!(one(vec![b"{}".to_vec()], "f").unwrap().unwrap(), b"{}");
    }
}

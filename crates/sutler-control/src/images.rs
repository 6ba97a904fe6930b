//! The controller of VMImages: brings them to the platforms whose machines need them.

use crate::fleet::Key;

/// The name under which an image's status speaks of a provider: its own name, with the namespace
/// where that is another one.
pub(crate) fn status_key(image: &Key, provider: &Key) -> String {
    match image.namespace == provider.namespace {
        true => provider.name.clone(),
        false => provider.to_string(),
    }
}

//! How many keys follow a page, without counting them again for each page of a list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Version;

/// How many lists that are being paged through are remembered. More than that at once only count
/// again.
const CURSORS: usize = 64;

/// What followed the last page of each list that goes on. A snapshot never changes, so what
/// follows the next page is that less the page.
#[derive(Debug, Default)]
pub(crate) struct Remaining {
    cursors: Mutex<VecDeque<Cursor>>,
}

#[derive(Debug)]
struct Cursor {
    prefix: String,
    version: Version,
    last: Arc<str>,
    follow: u64,
}

impl Remaining {
    /// How many keys of the snapshot sort after `after`, where the page that ended there is known.
    pub(crate) fn following(&self, prefix: &str, version: Version, after: &str) -> Option<u64> {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cursors.iter().position(|cursor| {
            cursor.version == version && &*cursor.last == after && cursor.prefix == prefix
        })?;
        // A page may be asked for again: the cursor stays, as the newest.
        let cursor = cursors.remove(at)?;
        let follow = cursor.follow;
        cursors.push_back(cursor);
        Some(follow)
    }

    /// Remembers that `follow` keys of the snapshot sort after `last`.
    pub(crate) fn remember(&self, prefix: &str, version: Version, last: Arc<str>, follow: u64) {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        if cursors.len() >= CURSORS {
            cursors.pop_front();
        }
        cursors.push_back(Cursor { prefix: prefix.to_owned(), version, last, follow });
    }
}

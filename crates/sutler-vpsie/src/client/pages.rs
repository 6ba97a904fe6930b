//! Lists that come in pages: to the end, or not at all.

use std::collections::BTreeSet;

use sutler_provider::{Error, Result};

/// How often a list is read that changes while it is.
const ATTEMPTS: usize = 4;

/// The most pages of one list: beyond it something is wrong with the answers.
const MOST: usize = 10_000;

/// One page of a list.
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    /// How many rows there are in all, where it is told.
    pub(super) total: Option<u64>,
}

/// Reads all pages. `fetch` gets the number of the page, from 1, and how many rows have come so far;
/// `key` tells rows apart.
///
/// A row that is deleted from a page that was read lets another slip from the next page onto it, unseen,
/// and one that is made meanwhile hides that in the total. So a list of several pages is read until it
/// comes out the same twice: the deleted row was read the first time, and is not the second.
pub(super) async fn all<T, K, F>(
    what: &str,
    key: impl Fn(&T) -> K,
    fetch: impl Fn(usize, usize) -> F,
) -> Result<Vec<T>>
where
    K: Ord,
    F: Future<Output = Result<Page<T>>>,
{
    let mut before: Option<BTreeSet<K>> = None;
    for _ in 0..ATTEMPTS {
        match once(&key, &fetch).await? {
            Read::Whole(rows) => return Ok(rows),
            Read::Pieces(rows) => {
                let keys = rows.iter().map(&key).collect();
                if before.as_ref() == Some(&keys) {
                    return Ok(rows);
                }
                before = Some(keys);
            }
            Read::Torn => before = None,
        }
    }
    Err(Error::unavailable(format!(
        "{what}: the list changed while it was read, or holds fewer rows than it says, {ATTEMPTS} times"
    )))
}

/// What came of reading a list once.
enum Read<T> {
    /// It came on one page.
    Whole(Vec<T>),
    /// It came on several, as many rows as were told.
    Pieces(Vec<T>),
    /// Its pages do not fit together.
    Torn,
}

async fn once<T, K, F>(
    key: &impl Fn(&T) -> K,
    fetch: &impl Fn(usize, usize) -> F,
) -> Result<Read<T>>
where
    K: Ord,
    F: Future<Output = Result<Page<T>>>,
{
    let mut page = fetch(1, 0).await?;
    let total = page.total;
    let mut seen: BTreeSet<K> = BTreeSet::new();
    let mut rows = Vec::new();
    for number in 2..=MOST {
        if page.total != total {
            return Ok(Read::Torn);
        }
        let before = rows.len();
        for row in page.rows {
            if seen.insert(key(&row)) {
                rows.push(row);
            }
        }
        if total.is_none_or(|total| rows.len() as u64 == total) {
            return Ok(if number == 2 { Read::Whole(rows) } else { Read::Pieces(rows) });
        }
        if rows.len() == before || total.is_some_and(|total| rows.len() as u64 > total) {
            return Ok(Read::Torn);
        }
        page = fetch(number, rows.len()).await?;
    }
    Ok(Read::Torn)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    /// A list of pages that is answered in order.
    async fn read(script: Vec<Result<(Vec<u32>, Option<u64>)>>) -> Result<Vec<u32>> {
        let script = Mutex::new(script.into_iter());
        let fetch = |_, _| async {
            let next = script.lock().unwrap().next().expect("a page too many was asked for");
            next.map(|(rows, total)| Page { rows, total })
        };
        all("numbers", |row| *row, fetch).await
    }

    fn pages() -> [Result<(Vec<u32>, Option<u64>)>; 3] {
        [Ok((vec![1, 2], Some(5))), Ok((vec![3, 4], Some(5))), Ok((vec![5], Some(5)))]
    }

    #[tokio::test]
    async fn every_page_is_read_until_it_is_the_same_twice() {
        let twice = pages().into_iter().chain(pages()).collect();
        assert_eq!(read(twice).await.unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(read(vec![Ok((vec![1], None))]).await.unwrap(), [1]);
        assert!(read(vec![Ok((vec![], Some(0)))]).await.unwrap().is_empty());
        assert_eq!(
            read(vec![Ok((vec![1, 2], Some(2)))]).await.unwrap(),
            [1, 2],
            "one page is whole"
        );
    }

    #[tokio::test]
    async fn a_page_that_fails_fails_the_list() {
        let pages = vec![Ok((vec![1, 2], Some(3))), Err(Error::unavailable("down"))];
        assert_eq!(read(pages).await.unwrap_err().message(), "down");
    }

    #[tokio::test]
    async fn a_list_that_is_never_whole_is_an_error() {
        let short = || [Ok((vec![1], Some(2))), Ok((vec![1], Some(2)))];
        let pages = (0..ATTEMPTS).flat_map(|_| short()).collect();
        assert!(read(pages).await.unwrap_err().message().contains("fewer rows"));
    }

    proptest! {
        /// Rows come and go between any two pages: what was there all along is in the list, or there is
        /// none.
        #[test]
        fn what_was_there_all_along_is_listed(
            count in 1u32..12,
            size in 1usize..5,
            by_offset: bool,
            changes in prop::collection::vec((0u8..4, any::<prop::sample::Index>()), 0..40),
        ) {
            let world = Mutex::new(((0..count).collect::<Vec<u32>>(), changes.into_iter(), count));
            let fetch = |page: usize, offset: usize| {
                let mut world = world.lock().unwrap();
                let (rows, changes, next) = &mut *world;
                match changes.next() {
                    Some((0, at)) if !rows.is_empty() => drop(rows.remove(at.index(rows.len()))),
                    Some((1, _)) => {
                        rows.push(*next);
                        *next += 1;
                    }
                    // One goes and another comes: the total stays.
                    Some((2, at)) if !rows.is_empty() => {
                        rows.remove(at.index(rows.len()));
                        rows.push(*next);
                        *next += 1;
                    }
                    _ => {}
                }
                let skip = if by_offset { offset } else { (page - 1) * size };
                let page = rows.iter().skip(skip).take(size).copied().collect();
                let total = Some(rows.len() as u64);
                async move { Ok(Page { rows: page, total }) }
            };
            let listed = all("numbers", |row| *row, fetch).now_or_never().unwrap();
            if let Ok(listed) = listed {
                // IDs only grow, so what is left of the first rows was there all along.
                let world = world.lock().unwrap();
                for row in world.0.iter().filter(|row| **row < count) {
                    prop_assert!(listed.contains(row), "{row} is not in {listed:?}");
                }
            }
        }
    }
}

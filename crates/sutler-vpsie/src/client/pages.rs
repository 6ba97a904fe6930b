//! Lists that come in pages: to the end, or not at all.

use std::collections::BTreeSet;

use sutler_provider::{Error, Result};

/// How often a list is begun anew that changes while it is read.
const ATTEMPTS: usize = 3;

/// The most pages of one list: beyond it something is wrong with the answers.
const MOST: usize = 10_000;

/// One page of a list.
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    /// How many rows there are in all, where it is told.
    pub(super) total: Option<u64>,
}

/// Reads all pages. `fetch` gets the number of the page, from 1, and how many rows have come so far;
/// `key` tells rows apart. Rows move between pages when one is deleted meanwhile, so that another is
/// skipped: a list whose length changes, or that does not come to what was told, is read again.
pub(super) async fn all<T, K, F>(
    what: &str,
    key: impl Fn(&T) -> K,
    fetch: impl Fn(usize, usize) -> F,
) -> Result<Vec<T>>
where
    K: Ord,
    F: Future<Output = Result<Page<T>>>,
{
    for _ in 0..ATTEMPTS {
        if let Some(rows) = once(&key, &fetch).await? {
            return Ok(rows);
        }
    }
    Err(Error::unavailable(format!(
        "{what}: the list changed while it was read, or holds fewer rows than it says, {ATTEMPTS} times"
    )))
}

/// Reads all pages once; none where they do not fit together.
async fn once<T, K, F>(
    key: &impl Fn(&T) -> K,
    fetch: &impl Fn(usize, usize) -> F,
) -> Result<Option<Vec<T>>>
where
    K: Ord,
    F: Future<Output = Result<Page<T>>>,
{
    let first = fetch(1, 0).await?;
    let total = first.total;
    let mut seen: BTreeSet<K> = BTreeSet::new();
    let mut rows = Vec::new();
    let mut page = first;
    for number in 2..=MOST {
        if page.total != total {
            return Ok(None);
        }
        let before = rows.len();
        for row in page.rows {
            if seen.insert(key(&row)) {
                rows.push(row);
            }
        }
        let Some(total) = total else { return Ok(Some(rows)) };
        if rows.len() as u64 == total {
            return Ok(Some(rows));
        }
        if rows.len() == before || rows.len() as u64 > total {
            return Ok(None);
        }
        page = fetch(number, rows.len()).await?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

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

    #[tokio::test]
    async fn every_page_is_read() {
        let pages =
            vec![Ok((vec![1, 2], Some(5))), Ok((vec![3, 4], Some(5))), Ok((vec![5], Some(5)))];
        assert_eq!(read(pages).await.unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(read(vec![Ok((vec![1], None))]).await.unwrap(), [1]);
        assert!(read(vec![Ok((vec![], Some(0)))]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_page_that_fails_fails_the_list() {
        let pages = vec![Ok((vec![1, 2], Some(3))), Err(Error::unavailable("down"))];
        assert_eq!(read(pages).await.unwrap_err().message(), "down");
    }

    #[tokio::test]
    async fn a_list_that_moves_is_read_again() {
        // 1 is deleted after the first page, and 3 moves onto it unseen.
        let moved = vec![
            Ok((vec![1, 2], Some(4))),
            Ok((vec![4], Some(3))),
            Ok((vec![2, 3], Some(3))),
            Ok((vec![4], Some(3))),
        ];
        assert_eq!(read(moved).await.unwrap(), [2, 3, 4]);
    }

    #[tokio::test]
    async fn a_list_that_is_never_whole_is_an_error() {
        let short = || [Ok((vec![1], Some(2))), Ok((vec![1], Some(2)))];
        let pages = short().into_iter().chain(short()).chain(short()).collect();
        assert!(read(pages).await.unwrap_err().message().contains("fewer rows"));
    }
}

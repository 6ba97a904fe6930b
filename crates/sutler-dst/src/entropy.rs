//! The system's randomness, replaced by the seed's: hash maps, jitter and IDs of libraries that ask
//! the system follow the seed too.

use std::cell::RefCell;

use rand::{RngCore as _, SeedableRng as _, rngs::StdRng};

std::thread_local! {
    static SOURCE: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// From now on, everything that is random on this thread follows `seed`.
pub fn begin(seed: u64) {
    SOURCE.with(|source| *source.borrow_mut() = Some(StdRng::seed_from_u64(seed)));
}

/// What libraries call for random bytes. On threads that are no simulation it is the system's.
///
/// # Safety
///
/// `buffer` has room for `length` bytes, as for the C library's function of this name.
#[expect(unsafe_code, reason = "this is the C library's function, with its signature")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller gives a buffer of this length, as for the function that this replaces.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    let filled = SOURCE.try_with(|source| match source.try_borrow_mut() {
        Ok(mut source) => match source.as_mut() {
            Some(source) => {
                source.fill_bytes(bytes);
                true
            }
            None => false,
        },
        Err(_) => false,
    });
    if !matches!(filled, Ok(true)) && fill_from_system(bytes).is_err() {
        return -1;
    }
    isize::try_from(length).unwrap_or(-1)
}

fn fill_from_system(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read as _;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

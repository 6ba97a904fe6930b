//! The parity suite: every subject on every form of our server, compared with the real one.
//!
//! - `SUTLER_CASES=text` runs only cases whose name contains the text.
//! - `SUTLER_TRANSCRIPTS=folder` writes what each server answered.
//! - `SUTLER_RANDOM_SEEDS=n` sets how many random programs are run.
//! - `SUTLER_REQUIRE_PEERS=1` fails where the real server's programs are missing.

#[path = "all/corpus.rs"]
mod corpus;
#[path = "all/parity.rs"]
mod parity;
#[path = "all/random.rs"]
mod random;

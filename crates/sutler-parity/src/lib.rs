//! Test harness: real peers and the parity suite.
//!
//! A [case](case::Case) is a sequence of requests. It runs unchanged against any [target], and
//! leaves a [transcript] in which generated values are replaced by names. What the real
//! kube-apiserver answered is the truth; ours must leave the same transcript.
//!
//! - [`peer`] starts and stops the real server.
//! - [`ours`] starts ours, in its three forms.
//! - [`target`] is a server under test: over TLS, or in process.
//! - [`suite`] runs cases, many at once, and compares.
//! - [`cases`] holds them, one module per subject.
//! - [`random`] makes operation sequences from a seed.

pub mod case;
pub mod cases;
pub mod diff;
pub mod ours;
pub mod peer;
pub mod random;
pub mod suite;
pub mod target;
pub mod transcript;

//! Tests of the kinds as a whole.

#[path = "all/corpus.rs"]
mod corpus;
#[path = "all/deployed.rs"]
mod deployed;
#[path = "all/round_trip.rs"]
mod round_trip;
#[path = "all/served.rs"]
mod served;

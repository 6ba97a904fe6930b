//! Operation sequences made from a seed.

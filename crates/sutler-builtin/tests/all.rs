//! Everything the crate does with whole objects, against what a real server did with them.

#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod protobuf;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod tables;

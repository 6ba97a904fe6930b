//! The whole contract as messages of `sutler.provider.v1`: each type here and there, and nothing
//! forgotten, since every structure is taken apart field by field.

mod capabilities;
pub(crate) mod identity;
mod machine;
mod request;
mod transfer;

use crate::malformed::Malformed;

/// A message that has to be there.
pub(crate) fn required<T>(field: &str, message: Option<T>) -> Result<T, Malformed> {
    message.ok_or_else(|| Malformed::missing(field))
}

/// A number that is narrower here than on the wire.
pub(crate) fn narrow<T: TryFrom<u32>>(
    field: &str,
    number: Option<u32>,
) -> Result<Option<T>, Malformed> {
    number
        .map(|number| T::try_from(number).map_err(|_| Malformed::new(field, "it is too large")))
        .transpose()
}

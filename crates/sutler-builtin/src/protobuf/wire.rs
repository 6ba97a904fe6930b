//! The wire format: tags, varints, and runs of bytes.

/// Wire type of integers and flags.
pub(super) const VARINT: u8 = 0;
/// Wire type of doubles.
pub(super) const FIXED64: u8 = 1;
/// Wire type of strings, bytes and messages.
pub(super) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const GROUP_END: u8 = 4;
const FIXED32: u8 = 5;

/// Groups within groups that are skipped.
const MAX_GROUPS: usize = 32;

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireError(pub(super) &'static str);

const TRUNCATED: WireError = WireError("unexpected EOF");
const WRONG_TYPE: WireError = WireError("proto: wrong wireType for a field");

/// Reads one message from front to back.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number and wire type of the next field; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, u8)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.raw_varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or(WireError("proto: illegal tag"))?;
        Ok(Some((number, (tag & 7) as u8)))
    }

    pub(super) fn varint(&mut self, wire: u8) -> Result<u64, WireError> {
        if wire == VARINT { self.raw_varint() } else { Err(WRONG_TYPE) }
    }

    pub(super) fn bytes(&mut self, wire: u8) -> Result<&'b [u8], WireError> {
        if wire != BYTES {
            return Err(WRONG_TYPE);
        }
        let length = usize::try_from(self.raw_varint()?).map_err(|_| TRUNCATED)?;
        self.take(length)
    }

    pub(super) fn double(&mut self, wire: u8) -> Result<f64, WireError> {
        if wire != FIXED64 {
            return Err(WRONG_TYPE);
        }
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// Passes over a value that nobody wants.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), WireError> {
        let mut open = 0;
        let mut wire = wire;
        loop {
            match wire {
                VARINT => drop(self.raw_varint()?),
                FIXED64 => drop(self.take(8)?),
                BYTES => drop(self.bytes(BYTES)?),
                FIXED32 => drop(self.take(4)?),
                GROUP if open < MAX_GROUPS => open += 1,
                GROUP_END if open > 0 => open -= 1,
                _ => return Err(WireError("proto: illegal wireType")),
            }
            if open == 0 {
                return Ok(());
            }
            wire = self.field()?.ok_or(TRUNCATED)?.1;
        }
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    fn raw_varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(TRUNCATED)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError("proto: integer overflow"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_and_fields() {
        let mut reader = Reader::new(&[0x08, 0x96, 0x01, 0x12, 2, b'h', b'i']);
        assert_eq!(reader.field(), Ok(Some((1, VARINT))));
        assert_eq!(reader.varint(VARINT), Ok(150));
        assert_eq!(reader.field(), Ok(Some((2, BYTES))));
        assert_eq!(reader.bytes(BYTES), Ok(&b"hi"[..]));
        assert_eq!(reader.field(), Ok(None));
    }

    #[test]
    fn bad_bytes_are_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).field(), Err(WireError("proto: integer overflow")));
        assert_eq!(Reader::new(&[0x80]).field(), Err(TRUNCATED));
        assert_eq!(Reader::new(&[5, 1]).bytes(BYTES), Err(TRUNCATED));
        assert_eq!(Reader::new(&[0x00]).field(), Err(WireError("proto: illegal tag")));
        // A group that is closed is skipped; one that is not, and one within too many, are not.
        assert_eq!(Reader::new(&[0x08, 1, 0x0c]).skip(GROUP), Ok(()));
        assert_eq!(Reader::new(&[0x08, 1]).skip(GROUP), Err(TRUNCATED));
        assert!(Reader::new(&[0x0b; 100]).skip(GROUP).is_err());
    }
}

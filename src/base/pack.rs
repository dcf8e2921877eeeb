//! Numbers and byte strings as state files store them: little-endian, lengths before contents.
//!
//! [`Pack`] appends to a buffer and cannot fail. [`Unpack`] reads back and returns `None` when the
//! bytes are not what was packed. Files are checked by their checksums first, but even so no byte
//! read from a disk may bring a core down.

/// Appends to a buffer.
pub struct Pack<'o>(pub &'o mut Vec<u8>);

impl Pack<'_> {
    pub fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn u128(&mut self, number: u128) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Appends the length in four bytes, then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("no field is near 4 GiB"));
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Packs what `fill` packs as one byte string, and fills in its length afterwards.
    pub fn nested(&mut self, fill: impl FnOnce(&mut Pack<'_>)) {
        let at = self.0.len();
        self.u32(0);
        fill(&mut Pack(self.0));
        let size = u32::try_from(self.0.len() - at - 4).expect("no field is near 4 GiB");
        self.0[at..at + 4].copy_from_slice(&size.to_le_bytes());
    }
}

/// Reads from the front of a buffer.
#[derive(Clone, Copy)]
pub struct Unpack<'b>(pub &'b [u8]);

impl<'b> Unpack<'b> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        let size = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn text(&mut self) -> Option<&'b str> {
        str::from_utf8(self.bytes()?).ok()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back_and_every_cut_is_noticed() {
        let mut bytes = Vec::new();
        let mut pack = Pack(&mut bytes);
        pack.u8(1);
        pack.u16(2);
        pack.u32(3);
        pack.u64(4);
        pack.u128(u128::MAX - 5);
        pack.nested(|inner| inner.text("six"));
        pack.bytes(b"");
        let read = |bytes| {
            let mut unpack = Unpack(bytes);
            let numbers = (unpack.u8()?, unpack.u16()?, unpack.u32()?, unpack.u64()?);
            let (large, mut nested) = (unpack.u128()?, Unpack(unpack.bytes()?));
            let text = nested.text()?;
            Some((numbers, large, text, unpack.bytes()?, unpack.is_empty()))
        };
        let whole = Some(((1, 2, 3, 4), u128::MAX - 5, "six", &b""[..], true));
        assert_eq!(read(&bytes), whole);
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), None, "cut at {cut}");
        }
    }
}

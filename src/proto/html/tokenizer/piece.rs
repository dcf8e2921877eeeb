//! A part of a token: a range of the current chunk, and a copy of what came before it.

/// A part of a token. It is cut at `byte_count_max` however the chunks fall, so it is bounded and
/// the same for any chunking.
#[derive(Default)]
pub struct Piece {
    start: usize,
    end: usize,
    held: Vec<u8>,
    cut: bool,
    pub byte_count_max: usize,
}

impl Piece {
    #[inline]
    pub fn begin(&mut self, at: usize, byte_count_max: usize) {
        self.start = at;
        self.end = at;
        self.held.clear();
        self.cut = false;
        self.byte_count_max = byte_count_max;
    }

    #[inline]
    pub fn end(&mut self, at: usize) {
        self.end = at;
    }

    /// Copies the part up to `at`, because the chunk ends inside the piece.
    pub fn keep(&mut self, chunk: &[u8], at: usize) {
        let room = self.byte_count_max - self.held.len();
        let part = &chunk[self.start..at];
        self.cut |= part.len() > room;
        self.held.extend_from_slice(&part[..part.len().min(room)]);
        self.start = 0;
        self.end = 0;
    }

    /// Copies the piece, because the chunk ends after the piece did.
    pub fn keep_ended(&mut self, chunk: &[u8]) {
        self.keep(chunk, self.end);
    }

    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Returns the whole piece, and whether it was longer than its bound. To be called after `end`.
    #[inline]
    pub fn read<'a>(&'a mut self, chunk: &'a [u8]) -> (&'a [u8], bool) {
        if self.held.is_empty() {
            let part = &chunk[self.start..self.end];
            return match part.get(..self.byte_count_max) {
                Some(head) if part.len() > self.byte_count_max => (head, true),
                _ => (part, self.cut),
            };
        }
        self.keep_ended(chunk);
        (&self.held, self.cut)
    }
}

//! Files that nothing in RAM refers to: kept while a checkpoint may name them, then removed.
//!
//! Owns their names. In: names of files that were replaced or read to their end. Out: names to
//! remove. Invariant: a name leaves only by [`Leftovers::take_retired`]. One core.

#[derive(Debug, Default)]
pub struct Leftovers {
    superseded: Vec<String>,
    retired: Vec<String>,
}

impl Leftovers {
    /// A checkpoint may still name these.
    pub fn supersede(&mut self, names: impl IntoIterator<Item = String>) {
        self.superseded.extend(names);
    }

    pub fn superseded(&self) -> &[String] {
        &self.superseded
    }

    /// Those that no checkpoint names any more are to be removed.
    pub fn retire_unless(&mut self, is_named: impl Fn(&String) -> bool) {
        self.retired.extend(self.superseded.extract_if(.., |name| !is_named(name)));
    }

    /// To be removed, whatever any checkpoint says: no one ever named them, or the disk refused to
    /// remove them before.
    pub fn condemn(&mut self, names: impl IntoIterator<Item = String>) {
        self.retired.extend(names);
    }

    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// The files to remove now.
    pub fn take_retired(&mut self) -> Vec<String> {
        std::mem::take(&mut self.retired)
    }
}

//! Leftovers: files that nothing in RAM refers to. They are kept while a checkpoint may name them,
//! then removed.
//!
//! This module owns their names. The names of files that were replaced or read to their end flow
//! in; the names of files to remove flow out. Invariant: a name leaves only by
//! [`Leftovers::take_retired`]. Only its own core touches it.

#[derive(Debug, Default)]
pub struct Leftovers {
    superseded: Vec<String>,
    retired: Vec<String>,
}

impl Leftovers {
    /// Adds files that a checkpoint may still name.
    pub fn supersede(&mut self, names: impl IntoIterator<Item = String>) {
        self.superseded.extend(names);
    }

    pub fn superseded(&self) -> &[String] {
        &self.superseded
    }

    /// Retires the superseded files that no checkpoint names any more: they are to be removed.
    pub fn retire_unless(&mut self, is_named: impl Fn(&String) -> bool) {
        self.retired.extend(self.superseded.extract_if(.., |name| !is_named(name)));
    }

    /// Retires files whatever any checkpoint says: none has ever named them, or the disk refused to
    /// remove them before.
    pub fn condemn(&mut self, names: impl IntoIterator<Item = String>) {
        self.retired.extend(names);
    }

    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Returns the files to remove now.
    pub fn take_retired(&mut self) -> Vec<String> {
        std::mem::take(&mut self.retired)
    }
}

//! What may go wrong with the simulated disk while it runs: rates of faults, chosen operations that
//! fail, a full disk.
//!
//! Every operation calls [`Ailments::strike`] once, in `SimWorld::disk_failure`. A rate of zero
//! draws no number. Reads are never short: the trait promises complete reads, and the ring repeats
//! short ones.

use super::chance::Chance;
use super::fault::strikes;
use crate::base::Time;
use crate::io::disk::DiskError;
use std::path::Path;
use std::time::Duration;

const EIO: i32 = 5;

/// Rates per thousand operations; zero means never. Set by [`super::Sim::set_disk_faults`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Operations of any kind that fail with EIO. The seed decides how much of the operation
    /// happened.
    pub error_per_mille: u64,
    /// Creations and appends that find no room. For a disk of limited size, see
    /// [`super::Sim::set_disk_capacity`].
    pub full_per_mille: u64,
    /// Syncs, of files and of directories, that fail. After that the pages of a file count as
    /// clean, although some of them were never written.
    pub sync_error_per_mille: u64,
    /// Operations that take up to `spike_ms_max` longer.
    pub spike_per_mille: u64,
    pub spike_ms_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    Create,
    Open,
    Rename,
    Remove,
    CreateDir,
    List,
    SyncDir,
    Append,
    Read,
    Sync,
    Truncate,
}

/// Chosen operations that fail: those of one kind whose path contains `path_part`. The first
/// `skip_count` of them are left alone, and the next `count` fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub operation: DiskOperation,
    pub path_part: &'static str,
    pub skip_count: u64,
    pub count: u64,
    pub error: DiskError,
}

impl Trouble {
    /// Makes the next operation of this kind fail, whatever its path.
    pub fn next(operation: DiskOperation, error: DiskError) -> Trouble {
        Trouble { operation, path_part: "", skip_count: 0, count: 1, error }
    }
}

impl DiskFaults {
    pub(super) fn check(&self) {
        let rates = [
            self.error_per_mille,
            self.full_per_mille,
            self.sync_error_per_mille,
            self.spike_per_mille,
        ];
        assert!(rates.iter().all(|rate| *rate <= 1_000), "a rate is above a thousand");
    }

    pub(super) fn spike(&self, chance: &Chance) -> Duration {
        match strikes(chance, self.spike_per_mille) {
            true => Duration::from_millis(chance.between(0, self.spike_ms_max)),
            false => Duration::ZERO,
        }
    }
}

impl DiskOperation {
    pub(super) fn name(self) -> &'static str {
        match self {
            DiskOperation::Create => "create",
            DiskOperation::Open => "open",
            DiskOperation::Rename => "rename",
            DiskOperation::Remove => "remove",
            DiskOperation::CreateDir => "create dir",
            DiskOperation::List => "list",
            DiskOperation::SyncDir => "sync dir",
            DiskOperation::Append => "append",
            DiskOperation::Read => "read",
            DiskOperation::Sync => "sync",
            DiskOperation::Truncate => "truncate",
        }
    }

    fn is_sync(self) -> bool {
        matches!(self, DiskOperation::Sync | DiskOperation::SyncDir)
    }

    fn needs_room(self) -> bool {
        matches!(self, DiskOperation::Create | DiskOperation::CreateDir | DiskOperation::Append)
    }
}

/// How an operation fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub error: DiskError,
    /// The operation happened, although it reports an error.
    pub takes_effect: bool,
}

/// What is wrong with the disk now.
#[derive(Default)]
pub(super) struct Ailments {
    pub faults: DiskFaults,
    /// Room for this many bytes, until this time.
    pub capacity: Option<(u64, Time)>,
    troubles: Vec<Trouble>,
}

impl Ailments {
    pub fn capacity_bytes(&self, now: Time) -> Option<u64> {
        self.capacity.filter(|(_, until)| now < *until).map(|(bytes, _)| bytes)
    }

    pub fn add(&mut self, trouble: Trouble) {
        assert!(trouble.count > 0, "a trouble must strike at least once");
        self.troubles.push(trouble);
    }

    pub fn strike(
        &mut self,
        operation: DiskOperation,
        path: &Path,
        chance: &Chance,
    ) -> Option<Failure> {
        let error = self.trouble(operation, path).or_else(|| self.fault(operation, chance))?;
        // An operation on a full disk has no effect; after an I/O error nobody knows whether it had
        // one.
        let takes_effect = error != DiskError::Full && chance.index(2) == 0;
        Some(Failure { error, takes_effect })
    }

    fn trouble(&mut self, operation: DiskOperation, path: &Path) -> Option<DiskError> {
        let path = path.to_string_lossy();
        let index = self.troubles.iter_mut().position(|trouble| {
            let meant = trouble.operation == operation && path.contains(trouble.path_part);
            if meant && trouble.skip_count > 0 {
                trouble.skip_count -= 1;
                return false;
            }
            meant
        })?;
        let trouble = &mut self.troubles[index];
        trouble.count -= 1;
        let error = trouble.error.clone();
        if trouble.count == 0 {
            self.troubles.remove(index);
        }
        Some(error)
    }

    fn fault(&self, operation: DiskOperation, chance: &Chance) -> Option<DiskError> {
        let faults = &self.faults;
        if strikes(chance, faults.error_per_mille)
            || operation.is_sync() && strikes(chance, faults.sync_error_per_mille)
        {
            return Some(DiskError::Os(EIO));
        }
        let full = operation.needs_room() && strikes(chance, faults.full_per_mille);
        full.then_some(DiskError::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_faults_draws_no_number() {
        let (chance, untouched) = (Chance::new(1, 1), Chance::new(1, 1));
        let mut ailments = Ailments::default();
        assert_eq!(ailments.strike(DiskOperation::Append, Path::new("x"), &chance), None);
        assert_eq!(ailments.faults.spike(&chance), Duration::ZERO);
        assert_eq!(chance.draw(), untouched.draw());
    }

    #[test]
    fn a_trouble_strikes_its_operations_alone_and_ends() {
        let chance = Chance::new(1, 1);
        let mut ailments = Ailments::default();
        let trouble = Trouble::next(DiskOperation::Rename, DiskError::Full);
        ailments.add(Trouble { path_part: "warc/", skip_count: 1, count: 2, ..trouble });
        let mut asked = |operation, path: &str| {
            ailments.strike(operation, Path::new(path), &chance).map(|failure| failure.error)
        };
        assert_eq!(asked(DiskOperation::Rename, "state/x"), None);
        assert_eq!(asked(DiskOperation::Create, "warc/x"), None);
        let answers: Vec<_> = (0..4).map(|_| asked(DiskOperation::Rename, "warc/x")).collect();
        assert_eq!(answers, [None, Some(DiskError::Full), Some(DiskError::Full), None]);
    }

    #[test]
    fn rates_strike_what_they_are_meant_for() {
        let chance = Chance::new(1, 1);
        let mut ailments = Ailments::default();
        let mut count = |faults: DiskFaults, operation| {
            ailments.faults = faults;
            let strikes = (0..1_000)
                .filter(|_| ailments.strike(operation, Path::new("x"), &chance).is_some());
            strikes.count()
        };
        let errors = DiskFaults { error_per_mille: 100, ..DiskFaults::default() };
        let fulls = DiskFaults { full_per_mille: 100, ..DiskFaults::default() };
        let syncs = DiskFaults { sync_error_per_mille: 100, ..DiskFaults::default() };
        assert!((60..140).contains(&count(errors, DiskOperation::List)));
        assert!((60..140).contains(&count(fulls, DiskOperation::Append)));
        assert!((60..140).contains(&count(syncs, DiskOperation::SyncDir)));
        assert_eq!(count(fulls, DiskOperation::Read), 0);
        assert_eq!(count(syncs, DiskOperation::Append), 0);
    }
}

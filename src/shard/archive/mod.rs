//! What the crawl keeps, and when it is durable: WARC records, the request log, dead letters, the
//! journal, and the books of checkpoints.
//!
//! Owns the shard's files except those of URL seen and of the queues. In: pages, requests, dead
//! letters, journal entries, URLs that have ended. Out: positions of records, URLs whose end is
//! durable, and which links of other shards are durable. Invariant: no page is counted and no URL
//! ends before its record and its links are durable. Touched by one core. Its calls wait for the
//! disk, so its state is in cells, and no borrow is held across a wait.

mod checkpoint_books;
mod completion;
mod disk_fault;
mod unproven;

pub(super) use checkpoint_books::{CheckpointBooks, CheckpointDraft, Kept};
pub(super) use completion::{End, Stored};

use super::kit::Kit;
use crate::base::Time;
use crate::crawl::flow::{Outcome, Queued};
use crate::crawl::journal::{Journal, JournalError};
use crate::crawl::metrics::{Metrics, Stage, Totals};
use crate::crawl::store::{
    DeadLetter, Position, RequestLine, RequestLog, StoreError, StoredPage, WarcStore,
};
use crate::io::World;
use completion::Completion;
use disk_fault::DiskFault;
use std::cell::RefCell;
use std::rc::Rc;
use unproven::Unproven;

pub(super) struct Archive<W: World> {
    kit: Rc<Kit<W>>,
    store: WarcStore<W>,
    request_log: RequestLog<W>,
    dead_letters: RequestLog<W>,
    /// The journal; `None` if the settings turn it off.
    journal: Option<Journal<W>>,
    completion: Completion,
    fault: DiskFault,
    unproven: RefCell<Unproven>,
    books: CheckpointBooks,
    /// The totals of earlier runs, plus what has ended in this one.
    totals: RefCell<Totals>,
    begun: Time,
}

/// The open files of an archive, and what earlier runs have left in them.
pub(super) struct Opened<W: World> {
    pub store: WarcStore<W>,
    pub request_log: RequestLog<W>,
    pub dead_letters: RequestLog<W>,
    pub journal: Option<Journal<W>>,
    pub books: CheckpointBooks,
    pub totals: Totals,
}

impl<W: World> Archive<W> {
    pub(super) fn new(kit: &Rc<Kit<W>>, opened: Opened<W>) -> Rc<Archive<W>> {
        let Opened { store, request_log, dead_letters, journal, books, totals } = opened;
        Rc::new(Archive {
            store,
            request_log,
            dead_letters,
            journal,
            completion: Completion::new(kit.plan.placement.shard_count()),
            fault: DiskFault::default(),
            unproven: RefCell::default(),
            books,
            totals: RefCell::new(totals),
            begun: kit.world.now(),
            kit: kit.clone(),
        })
    }

    /// Stores a record and returns its position. The record is counted once it is durable.
    pub(super) async fn page(&self, page: &StoredPage<'_>) -> Result<Position, StoreError> {
        let position = self.kit.spend_on(Stage::Store, self.store.write(page)).await?;
        self.settle();
        self.unproven.borrow_mut().record_stored(&position);
        Ok(position)
    }

    /// Counts the record that was stored last as a page, once it is durable.
    pub(super) fn count_page(&self) {
        self.unproven.borrow_mut().page_stored();
    }

    /// Counts what has become durable.
    pub(super) fn settle(&self) {
        let synced_through = self.store.synced_through();
        self.unproven.borrow_mut().settle(synced_through, &self.kit.probe);
    }

    /// Writes a line of the request log.
    pub(super) async fn request(&self, line: &RequestLine<'_>) {
        self.request_log.write(line).await;
    }

    /// Writes a line to the log of dead letters, for a URL that is given up.
    pub(super) async fn bury(&self, queued: &Queued, outcome: Outcome) {
        let (&Queued { ref url, depth, via, .. }, tries) = (queued, queued.tries_made());
        let letter = DeadLetter { at: self.kit.world.wall(), outcome, tries, depth, via, url };
        self.dead_letters.write(&letter).await;
    }

    /// Hands the gathered lines of the logs to the operating system. Called once a second.
    pub(super) fn begin_flush(&self) {
        self.request_log.begin_flush();
        self.dead_letters.begin_flush();
    }

    /// Appends an entry to the journal, if there is one.
    pub(super) fn entry(&self, push: impl FnOnce(&mut Vec<u8>)) {
        if let Some(journal) = &self.journal {
            journal.append(push);
        }
    }

    pub(super) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Reports whether so much waits to become durable that no more fetches should start.
    pub(super) fn is_backed_up(&self) -> bool {
        self.completion.is_backed_up() || self.is_journal_backed_up()
    }

    /// Waits until the journal has caught up, if it is behind.
    pub(super) async fn catch_up(&self) {
        if self.is_journal_backed_up()
            && let Some(journal) = &self.journal
        {
            journal.durable(journal.lsn()).await;
        }
    }

    fn is_journal_backed_up(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_backed_up)
    }

    pub(super) fn warc_file_count(&self) -> u64 {
        self.store.file_count()
    }

    /// Returns the totals of the crawl: this run, whose counters are `run`, with those before it.
    fn totals_with(&self, run: &Metrics) -> Totals {
        let mut totals = self.totals.borrow().clone();
        totals.add_run(run);
        totals.span_ms += self.kit.world.now().since(self.begun).as_millis() as u64;
        totals
    }
}

/// Converts an error of the journal to one of the store, because notices carry errors of the store.
pub(super) fn as_store_error(error: JournalError) -> StoreError {
    match error {
        JournalError::Disk { error, .. } => StoreError::Disk { doing: "write the journal", error },
        JournalError::Damaged { name, what, .. } => StoreError::Damaged { name, what },
        JournalError::Version { name, .. } => {
            StoreError::Damaged { name, what: "another version wrote it" }
        }
    }
}

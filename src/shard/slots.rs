//! What a visit takes from its shard before it begins: a fetch slot, and one page of the page
//! limit.
//!
//! Owns the number of visits under way, and this shard's share of `max_pages`, which
//! [`super::BudgetDesk`] deals out. A [`VisitSlot`] and a [`PageBudget`] cannot be copied: on every
//! way through the code a visit gives both back, or spends the page. Touched by one core.

use crate::base::owed::{Ledger, Owed};
use std::cell::Cell;

/// A visit that is under way.
pub(super) type VisitSlot = Owed<Slot>;
/// A page that a visit may store.
pub(super) type PageBudget = Owed<Page>;

#[derive(Debug)]
pub(super) struct Slot;

#[derive(Debug)]
pub(super) struct Page;

pub(super) struct Slots {
    active_count: Cell<usize>,
    /// The number of pages that may still be started; `None` if there is no limit.
    budget: Option<Cell<u64>>,
    is_budget_asked: Cell<bool>,
    /// Whether the control thread wants back what cannot be spent: see [`super::BudgetDesk`].
    is_budget_called_in: Cell<bool>,
    visits: Ledger,
    pages: Ledger,
}

impl Slots {
    pub(super) fn new(has_budget: bool) -> Slots {
        Slots {
            active_count: Cell::new(0),
            budget: has_budget.then(Cell::default),
            is_budget_asked: Cell::new(false),
            is_budget_called_in: Cell::new(false),
            visits: Ledger::default(),
            pages: Ledger::default(),
        }
    }

    /// Returns the number of visits under way.
    pub(super) fn active_count(&self) -> &Cell<usize> {
        &self.active_count
    }

    pub(super) fn is_idle(&self) -> bool {
        self.active_count.get() == 0
    }

    /// Reports whether a page may be started, as far as the page limit is concerned.
    pub(super) fn has_budget(&self) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.get() > 0)
    }

    /// Begins a visit. May be called only if [`Slots::has_budget`].
    pub(super) fn begin(&self) -> (VisitSlot, PageBudget) {
        self.active_count.set(self.active_count.get() + 1);
        if let Some(budget) = &self.budget {
            budget.set(budget.get() - 1);
        }
        (self.visits.issue(Slot), self.pages.issue(Page))
    }

    /// Ends a visit.
    pub(super) fn end(&self, slot: VisitSlot) {
        let Slot = slot.redeem();
        self.active_count.set(self.active_count.get() - 1);
    }

    /// Spends a page: the visit has stored one.
    pub(super) fn spend(&self, page: PageBudget) {
        let Page = page.redeem();
    }

    /// Takes a page back: the visit has stored none.
    pub(super) fn refund(&self, page: PageBudget) {
        let Page = page.redeem();
        if let Some(budget) = &self.budget {
            budget.set(budget.get() + 1);
        }
    }

    /// Adds pages that the control thread has given.
    pub(super) fn add_budget(&self, page_count: u64) {
        if let Some(budget) = &self.budget {
            budget.set(budget.get().saturating_add(page_count));
        }
        self.is_budget_asked.set(false);
        self.is_budget_called_in.set(false);
    }

    /// Notes that the control thread wants back the pages that cannot be spent at once.
    pub(super) fn call_budget_in(&self) {
        self.is_budget_called_in.set(true);
    }

    /// Asks for more pages by calling `ask`, unless that was already done.
    pub(super) fn want_budget(&self, ask: impl FnOnce() -> bool) {
        if !self.is_budget_asked.get() {
            self.is_budget_asked.set(ask());
        }
    }

    /// Sends back, by calling `send`, the pages that no visit has taken, if they were called in.
    /// Another shard may have the turn at an address where all hosts of this one wait in line.
    pub(super) fn return_budget(&self, send: impl FnOnce(u64) -> bool) {
        let Some(budget) = self.budget.as_ref().filter(|budget| budget.get() > 0) else { return };
        if self.is_budget_called_in.get() {
            let unspent = budget.replace(0);
            if !send(unspent) {
                budget.set(unspent);
            }
        }
    }

    /// Panics if a visit has forgotten its slot or its page. Called when no visit is under way.
    pub(super) fn assert_returned(&self) {
        for (name, ledger) in [("fetch slot", &self.visits), ("page of budget", &self.pages)] {
            assert_eq!(ledger.lost_count(), 0, "a visit has lost its {name}");
            assert_eq!(ledger.open_count(), 0, "a visit has kept its {name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_not_brought_can_be_started_by_another_visit() {
        let slots = Slots::new(true);
        assert!(!slots.has_budget());
        slots.add_budget(2);
        let (first, page) = slots.begin();
        let (second, other) = slots.begin();
        assert!(!slots.has_budget() && !slots.is_idle());
        slots.refund(page);
        assert!(slots.has_budget());
        slots.spend(other);
        slots.end(first);
        slots.end(second);
        assert!(slots.is_idle());
        slots.assert_returned();
    }

    #[test]
    fn what_is_called_in_is_sent_once_and_kept_if_the_mailbox_is_full() {
        let slots = Slots::new(true);
        slots.add_budget(3);
        slots.return_budget(|_| panic!("it was not called in"));
        slots.call_budget_in();
        slots.return_budget(|_| false);
        let mut sent = 0;
        slots.return_budget(|count| {
            sent = count;
            true
        });
        assert_eq!(sent, 3);
        slots.return_budget(|_| panic!("nothing is left"));
    }

    #[test]
    #[should_panic(expected = "a visit has lost its page of budget")]
    fn a_visit_that_forgets_its_page_is_found() {
        let slots = Slots::new(false);
        let (slot, page) = slots.begin();
        drop(page);
        slots.end(slot);
        slots.assert_returned();
    }

    #[test]
    #[should_panic(expected = "a visit has kept its fetch slot")]
    fn a_visit_that_keeps_its_slot_is_found() {
        let slots = Slots::new(false);
        let (slot, page) = slots.begin();
        slots.refund(page);
        let kept = slot;
        slots.assert_returned();
        slots.end(kept);
    }
}

//! Values that must be given back: each is redeemed once, and one that is dropped instead is booked
//! as lost.
//!
//! A [`Ledger`] counts what it has issued. Whoever issues values checks at the end that nothing is
//! open and nothing was lost; a simulation that ends well is then a proof that no way through the
//! code forgets one. Belongs to one core.

use std::cell::Cell;
use std::rc::Rc;

/// Counts the values that were issued and not redeemed.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Rc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: Cell<u64>,
    lost: Cell<u64>,
}

/// A value that must be redeemed. It cannot be copied.
#[derive(Debug)]
#[must_use = "what is owed must be given back"]
pub struct Owed<T> {
    value: Option<T>,
    ledger: Ledger,
}

impl Ledger {
    pub fn issue<T>(&self, value: T) -> Owed<T> {
        self.0.open.set(self.0.open.get() + 1);
        Owed { value: Some(value), ledger: self.clone() }
    }

    /// How many values are issued and neither redeemed nor lost.
    pub fn open_count(&self) -> u64 {
        self.0.open.get()
    }

    /// How many values were dropped without being redeemed.
    pub fn lost_count(&self) -> u64 {
        self.0.lost.get()
    }
}

impl<T> Owed<T> {
    /// Looks at the value.
    pub fn get(&self) -> &T {
        self.value.as_ref().expect("the value is there until it is redeemed")
    }

    /// Gives the value back.
    pub fn redeem(mut self) -> T {
        self.value.take().expect("a value is redeemed once, because it is consumed")
    }
}

impl<T> Drop for Owed<T> {
    fn drop(&mut self) {
        let counts = &self.ledger.0;
        counts.open.set(counts.open.get() - 1);
        if self.value.is_some() {
            counts.lost.set(counts.lost.get() + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_redeemed_leaves_nothing_and_one_that_is_dropped_is_lost() {
        let ledger = Ledger::default();
        let (first, second) = (ledger.issue("a"), ledger.issue("b"));
        assert_eq!((ledger.open_count(), ledger.lost_count()), (2, 0));
        assert_eq!(*first.get(), "a");
        assert_eq!(first.redeem(), "a");
        assert_eq!((ledger.open_count(), ledger.lost_count()), (1, 0));
        drop(second);
        assert_eq!((ledger.open_count(), ledger.lost_count()), (0, 1));
    }
}

//! A number that only rises, and tasks of one core that wait until it has reached some level.

use super::waiters::Waiters;
use std::cell::Cell;

#[derive(Default)]
pub struct Watermark {
    level: Cell<u64>,
    waiters: Waiters,
}

impl Watermark {
    pub fn at(level: u64) -> Watermark {
        Watermark { level: Cell::new(level), ..Watermark::default() }
    }

    pub fn level(&self) -> u64 {
        self.level.get()
    }

    /// Raises the level to `level`; a lower level changes nothing.
    pub fn rise(&self, level: u64) {
        if level > self.level.get() {
            self.level.set(level);
            self.waiters.wake_all();
        }
    }

    /// Raises the level by one, to signal that something has happened.
    pub fn step(&self) {
        self.rise(self.level() + 1);
    }

    /// Resolves when the level has risen above the present one.
    pub async fn stepped(&self) {
        self.reached(self.level() + 1).await;
    }

    /// Resolves once the level has reached `level`.
    pub async fn reached(&self, level: u64) {
        self.waiters.wait(|| (self.level.get() >= level).then_some(())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn those_who_wait_are_woken_when_it_has_risen_far_enough_and_not_before() {
        let mark = Watermark::at(3);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(mark.reached(3)).poll(&mut context).is_ready());
        let mut waiting = pin!(mark.reached(5));
        for level in [2, 4] {
            mark.rise(level);
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        mark.rise(5);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert_eq!(mark.level(), 5);
    }
}

//! Memory for bodies: what all bodies under way hold together, and which of them give way when it
//! is short.
//!
//! Owns one account per core. Every fetch has a [`BodyHold`] from the first byte of its answer
//! until its record is written. A fetch claims memory before its buffer grows, by capacity and not
//! by length, together with what the parser holds for it. Invariant: what was claimed never exceeds
//! `bytes_max`. What a parser takes within one received piece is noted afterwards.
//!
//! What happens as the account fills:
//! 1. Above a half, the rate of each body is measured twice a second ([`BodyBudget::measure`]).
//! 2. Above three quarters no fetch starts, and bodies that are slow for what they hold are cut.
//! 3. Above seven eighths other bodies give way too, first those that receive least for what they
//!    hold: a slow body is cut, one that is not slow is shed and requested again.
//! 4. A claim beyond the whole is refused, and the body that made it is cut or shed. For large
//!    bodies the limit is fifteen sixteenths of the whole.
//!
//! No body waits for another's memory, so two bodies can never wait for each other. A body that is
//! told to give way is woken, ends, and gives back what it holds.

use crate::base::Time;
use crate::base::limits::{BODY_SAMPLE_MS, BODY_SLOW_SECONDS, BODY_VICTIM_BYTES_MIN};
use crate::base::notify::Notify;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The memory account of one core.
#[derive(Clone)]
pub struct BodyBudget {
    account: Rc<Account>,
}

/// How a body gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveWay {
    /// The body was slow. What has arrived is kept and marked as cut.
    Cut,
    /// The body was not slow. It is requested again.
    Shed,
}

/// What is held now, and how many bodies have been cut and shed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyTally {
    pub held_bytes: usize,
    pub held_bytes_peak: usize,
    pub body_count: usize,
    pub cut_count: u64,
    pub shed_count: u64,
}

struct Account {
    bytes_max: usize,
    held_bytes: Cell<usize>,
    held_bytes_peak: Cell<usize>,
    /// The part of `held_bytes` that belongs to bodies that were told to give way.
    leaving_bytes: Cell<usize>,
    cut_count: Cell<u64>,
    shed_count: Cell<u64>,
    bodies: RefCell<Bodies>,
    is_watched: Cell<bool>,
    /// Poked when the account becomes half full and nobody measures yet.
    half_full: Notify,
}

/// A slab: places are used again, so that a fetch costs no allocation.
#[derive(Default)]
struct Bodies {
    places: Vec<Body>,
    free: Vec<usize>,
}

struct Body {
    held_bytes: usize,
    received_bytes: u64,
    /// When the rate was measured last, or when the answer began.
    measured_at: Time,
    /// How many bytes had been received by then.
    measured_bytes: u64,
    /// Bytes received per second lately; `None` until the rate has been measured.
    rate: Option<u64>,
    /// The body is still being received, so it can be told to give way.
    is_arriving: bool,
    told: Option<GiveWay>,
    waker: Option<Waker>,
}

/// What one fetch holds. Dropping it gives everything back.
#[must_use]
pub struct BodyHold {
    account: Rc<Account>,
    place: usize,
}

impl BodyBudget {
    pub fn new(bytes_max: usize) -> BodyBudget {
        let account = Account {
            bytes_max,
            held_bytes: Cell::new(0),
            held_bytes_peak: Cell::new(0),
            leaving_bytes: Cell::new(0),
            cut_count: Cell::new(0),
            shed_count: Cell::new(0),
            bodies: RefCell::default(),
            is_watched: Cell::new(false),
            half_full: Notify::default(),
        };
        BodyBudget { account: Rc::new(account) }
    }

    /// Reports whether a fetch may start.
    pub fn has_room(&self) -> bool {
        self.account.held_bytes.get() < self.account.start_mark()
    }

    pub fn bytes_max(&self) -> usize {
        self.account.bytes_max
    }

    pub fn tally(&self) -> BodyTally {
        let bodies = self.account.bodies.borrow();
        BodyTally {
            held_bytes: self.account.held_bytes.get(),
            held_bytes_peak: self.account.held_bytes_peak.get(),
            body_count: bodies.places.len() - bodies.free.len(),
            cut_count: self.account.cut_count.get(),
            shed_count: self.account.shed_count.get(),
        }
    }

    /// Opens a hold for an answer that began at `now`.
    pub(super) fn hold(&self, now: Time) -> BodyHold {
        let body = Body {
            held_bytes: 0,
            received_bytes: 0,
            measured_at: now,
            measured_bytes: 0,
            rate: None,
            is_arriving: true,
            told: None,
            waker: None,
        };
        let mut bodies = self.account.bodies.borrow_mut();
        let place = match bodies.free.pop() {
            Some(place) => {
                bodies.places[place] = body;
                place
            }
            None => {
                bodies.places.push(body);
                bodies.places.len() - 1
            }
        };
        BodyHold { account: self.account.clone(), place }
    }

    /// Returns once the account is half full, which is the time to measure.
    pub async fn half_full(&self) {
        self.account.half_full.wait().await;
    }

    /// Measures how fast bodies arrive, and cuts slow ones while no fetch may start. Returns
    /// whether the account is more than half full. To be called every [`BODY_SAMPLE_MS`] until it
    /// is not.
    pub fn measure(&self, now: Time) -> bool {
        let account = &self.account;
        account.measure(now);
        let mark = account.start_mark();
        if account.held_bytes.get() >= mark {
            account.make_room(mark - mark / 8, |body| body.is_slow());
        }
        let is_half_full = account.held_bytes.get() > account.bytes_max / 2;
        account.is_watched.set(is_half_full);
        is_half_full
    }
}

impl BodyHold {
    /// Claims memory before the body grows to hold `held_bytes` in all.
    pub(super) fn claim(
        &self,
        held_bytes: usize,
        now: impl FnOnce() -> Time,
    ) -> Result<(), GiveWay> {
        let account = &*self.account;
        let before_bytes = {
            let bodies = account.bodies.borrow();
            let body = &bodies.places[self.place];
            match body.told {
                Some(told) => return Err(told),
                None => body.held_bytes,
            }
        };
        if held_bytes <= before_bytes {
            account.note(self.place, held_bytes);
            return Ok(());
        }
        let more_bytes = held_bytes - before_bytes;
        if account.held_bytes.get() + more_bytes > account.relief_mark() {
            self.claim_of_last(held_bytes, more_bytes, now())?;
        }
        account.note(self.place, held_bytes);
        Ok(())
    }

    /// Claims memory when the account is nearly full: other bodies may have to give way, or this
    /// one.
    #[cold]
    fn claim_of_last(
        &self,
        held_bytes: usize,
        more_bytes: usize,
        now: Time,
    ) -> Result<(), GiveWay> {
        let account = &*self.account;
        account.measure(now);
        let goal = account.start_mark().saturating_sub(more_bytes);
        account.make_room(goal, |_| true);
        if let Some(told) = self.told() {
            return Err(told);
        }
        // The last part of the memory is for small pages, which large bodies would otherwise keep
        // out.
        let is_small = held_bytes < BODY_VICTIM_BYTES_MIN;
        let most_bytes = if is_small { account.bytes_max } else { account.bytes_max / 16 * 15 };
        if account.held_bytes.get() + more_bytes > most_bytes {
            return Err(account.tell(self.place).0);
        }
        Ok(())
    }

    /// Notes what the body holds now, including what was taken without a claim.
    pub fn note(&self, held_bytes: usize) {
        self.account.note(self.place, held_bytes);
    }

    /// Notes that `more_bytes` have been received.
    pub(super) fn received(&self, more_bytes: usize) {
        let mut bodies = self.account.bodies.borrow_mut();
        bodies.places[self.place].received_bytes += more_bytes as u64;
    }

    /// Notes that all that is needed has arrived: from now on the body is not told to give way.
    pub(super) fn arrived(&self) {
        let mut bodies = self.account.bodies.borrow_mut();
        bodies.places[self.place].is_arriving = false;
    }

    /// Counts that the body gives way, and how.
    pub(super) fn gives_way(&self, how: GiveWay) {
        let counter = match how {
            GiveWay::Cut => &self.account.cut_count,
            GiveWay::Shed => &self.account.shed_count,
        };
        counter.set(counter.get() + 1);
    }

    /// Waits for `work`, or until the body has to give way, whichever is first.
    pub(super) async fn unless_told<T>(&self, work: impl Future<Output = T>) -> Result<T, GiveWay> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Some(told) = self.told() {
                return Poll::Ready(Err(told));
            }
            match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Ok(done)),
                Poll::Pending => {
                    let mut bodies = self.account.bodies.borrow_mut();
                    let waker = &mut bodies.places[self.place].waker;
                    if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                        *waker = Some(context.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn told(&self) -> Option<GiveWay> {
        self.account.bodies.borrow().places[self.place].told
    }
}

impl Drop for BodyHold {
    fn drop(&mut self) {
        self.account.note(self.place, 0);
        let mut bodies = self.account.bodies.borrow_mut();
        bodies.places[self.place].is_arriving = false;
        bodies.places[self.place].waker = None;
        bodies.free.push(self.place);
    }
}

impl std::fmt::Debug for BodyHold {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held_bytes = self.account.bodies.borrow().places[self.place].held_bytes;
        out.debug_struct("BodyHold").field("held_bytes", &held_bytes).finish()
    }
}

impl Account {
    /// Returns the mark from which on no fetch starts.
    fn start_mark(&self) -> usize {
        self.bytes_max / 4 * 3
    }

    /// Returns the mark from which on bodies give way, slow or not.
    fn relief_mark(&self) -> usize {
        self.bytes_max / 8 * 7
    }

    fn note(&self, place: usize, held_bytes: usize) {
        let mut bodies = self.bodies.borrow_mut();
        let body = &mut bodies.places[place];
        let (before_bytes, is_leaving) = (body.held_bytes, body.told.is_some());
        if before_bytes == held_bytes {
            return;
        }
        body.held_bytes = held_bytes;
        drop(bodies);
        let changed = |all_bytes: &Cell<usize>| {
            let others_bytes = all_bytes.get().checked_sub(before_bytes);
            all_bytes.set(others_bytes.expect("a body's bytes are among all") + held_bytes);
        };
        changed(&self.held_bytes);
        if is_leaving {
            changed(&self.leaving_bytes);
        }
        let all_bytes = self.held_bytes.get();
        if all_bytes > self.held_bytes_peak.get() {
            self.held_bytes_peak.set(all_bytes);
        }
        if all_bytes > self.bytes_max / 2 && !self.is_watched.replace(true) {
            self.half_full.poke();
        }
    }

    /// Measures the rate of each body that was not measured lately. Half of the result is the
    /// earlier rate, so that a pause between two packets does not look like the end of a body.
    fn measure(&self, now: Time) {
        let least = Duration::from_millis(BODY_SAMPLE_MS);
        let mut bodies = self.bodies.borrow_mut();
        for body in bodies.places.iter_mut().filter(|body| body.is_arriving) {
            let span = now.since(body.measured_at);
            if span < least {
                continue;
            }
            let come = u128::from(body.received_bytes - body.measured_bytes);
            let rate = come * 1_000_000 / span.as_micros().max(1);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            body.rate = Some(body.rate.map_or(rate, |before| before.midpoint(rate)));
            (body.measured_at, body.measured_bytes) = (now, body.received_bytes);
        }
    }

    /// Tells bodies to give way, first those that receive least for what they hold, until the
    /// others hold no more than `goal_bytes`.
    fn make_room(&self, goal_bytes: usize, is_meant: impl Fn(&Body) -> bool) {
        let stay_bytes = || self.held_bytes.get() - self.leaving_bytes.get();
        if stay_bytes() <= goal_bytes {
            return;
        }
        let mut victims: Vec<(u64, usize, usize)> = {
            let bodies = self.bodies.borrow();
            let places = bodies.places.iter().enumerate();
            let may = |body: &Body| {
                body.is_arriving
                    && body.told.is_none()
                    && body.held_bytes >= BODY_VICTIM_BYTES_MIN
                    && is_meant(body)
            };
            let victims = places.filter(|(_, body)| may(body));
            victims
                .map(|(place, body)| (body.worth(), usize::MAX - body.held_bytes, place))
                .collect()
        };
        victims.sort_unstable();
        let mut wakers = Vec::new();
        for (_, _, place) in victims {
            if stay_bytes() <= goal_bytes {
                break;
            }
            wakers.extend(self.tell(place).1);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells a body to give way. Returns how, and the waker of its task.
    fn tell(&self, place: usize) -> (GiveWay, Option<Waker>) {
        let mut bodies = self.bodies.borrow_mut();
        let body = &mut bodies.places[place];
        debug_assert!(body.is_arriving && body.told.is_none());
        let how = if body.is_slow() { GiveWay::Cut } else { GiveWay::Shed };
        body.told = Some(how);
        self.leaving_bytes.set(self.leaving_bytes.get() + body.held_bytes);
        (how, body.waker.take())
    }
}

impl Body {
    /// Reports whether, at its present rate, what the body holds would have taken longer than
    /// [`BODY_SLOW_SECONDS`].
    fn is_slow(&self) -> bool {
        let seldom = |rate: u64| rate.saturating_mul(BODY_SLOW_SECONDS) < self.held_bytes as u64;
        self.rate.is_some_and(seldom)
    }

    /// Returns the bytes received per second in millionths of the bytes held. A body that was not
    /// measured yet has had no time to be slow.
    fn worth(&self) -> u64 {
        let held_bytes = self.held_bytes.max(1) as u64;
        self.rate.map_or(u64::MAX, |rate| rate.saturating_mul(1_000_000) / held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn claimed(budget: &BodyBudget, mb: usize, ms: u64) -> BodyHold {
        let hold = budget.hold(at(ms));
        assert_eq!(hold.claim(mb * MB, || at(ms)), Ok(()));
        hold.received(mb * MB);
        hold
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = BodyBudget::new(64 * MB);
        let (one, two) = (claimed(&budget, 5, 0), claimed(&budget, 7, 0));
        assert_eq!((budget.tally().held_bytes, budget.tally().body_count), (12 * MB, 2));
        one.note(3 * MB);
        assert_eq!(budget.tally().held_bytes, 10 * MB);
        drop((one, two));
        let tally = budget.tally();
        assert_eq!((tally.held_bytes, tally.body_count), (0, 0));
        assert_eq!(tally.held_bytes_peak, 12 * MB);
    }

    #[test]
    fn no_fetch_starts_above_three_quarters_and_stalled_bodies_are_cut_largest_first() {
        let budget = BodyBudget::new(64 * MB);
        let bodies: Vec<_> = [5, 6, 7, 8, 9, 10].map(|mb| claimed(&budget, mb, 0)).into();
        assert!(budget.has_room(), "45 of 48 MB");
        let healthy = claimed(&budget, 4, 0);
        assert!(!budget.has_room(), "49 of 48 MB");
        let mut now_ms = 0;
        while bodies.iter().all(|body| body.told().is_none()) {
            now_ms += BODY_SAMPLE_MS;
            healthy.received(MB);
            assert!(budget.measure(at(now_ms)));
            assert!(now_ms < 10_000, "a stalled body is cut within seconds");
        }
        assert!(now_ms > BODY_SAMPLE_MS, "a body is not cut at its first pause");
        let told: Vec<_> = bodies.iter().map(BodyHold::told).collect();
        assert_eq!(told, [None, None, None, None, None, Some(GiveWay::Cut)]);
        assert_eq!(healthy.told(), None);
        drop(bodies);
        assert!(budget.has_room() && !budget.measure(at(now_ms + BODY_SAMPLE_MS)));
    }

    #[test]
    fn more_than_all_is_never_claimed_and_who_asks_for_it_gives_way_himself() {
        let budget = BodyBudget::new(64 * MB);
        // These bodies have arrived and wait for the disk, so none of them can be told to give way.
        let arrived = |_| {
            let hold = claimed(&budget, 10, 0);
            hold.arrived();
            hold
        };
        let arrived: Vec<_> = (0..6).map(arrived).collect();
        let late = budget.hold(at(0));
        assert_eq!(late.claim(MB, || at(0)), Err(GiveWay::Shed));
        assert_eq!(late.claim(1, || at(0)), Err(GiveWay::Shed), "the verdict stands");
        let small: Vec<_> = (0..100).map(|_| budget.hold(at(0))).collect();
        let size = BODY_VICTIM_BYTES_MIN - 1;
        let taken = small.iter().filter(|hold| hold.claim(size, || at(0)) == Ok(())).count();
        assert_eq!(taken, 4 * MB / size, "the last part is for small bodies");
        assert!(budget.tally().held_bytes <= 64 * MB);
        assert!(arrived.iter().all(|hold| hold.told().is_none()));
    }

    #[test]
    fn two_who_want_each_others_memory_do_not_wait() {
        let budget = BodyBudget::new(64 * MB);
        let (one, two) = (claimed(&budget, 28, 0), claimed(&budget, 27, 0));
        one.received(3 * MB);
        budget.measure(at(BODY_SAMPLE_MS));
        // The second body receives a little less for what it holds, and is not slow.
        assert_eq!(one.claim(30 * MB, || at(BODY_SAMPLE_MS)), Ok(()));
        assert_eq!((one.told(), two.told()), (None, Some(GiveWay::Shed)));
        assert_eq!(two.claim(30 * MB, || at(BODY_SAMPLE_MS)), Err(GiveWay::Shed));
        drop(two);
        assert_eq!(budget.tally().held_bytes, 30 * MB);
    }

    #[test]
    fn small_bodies_are_left_alone() {
        let budget = BodyBudget::new(64 * MB);
        let count = 64 * MB / (BODY_VICTIM_BYTES_MIN - 1);
        let small: Vec<_> = (0..count).map(|_| budget.hold(at(0))).collect();
        let claim = |hold: &BodyHold| hold.claim(BODY_VICTIM_BYTES_MIN - 1, || at(0));
        assert!(small.iter().all(|hold| claim(hold) == Ok(())));
        budget.measure(at(60_000));
        assert!(small.iter().all(|hold| hold.told().is_none()));
        let last = budget.hold(at(60_000));
        assert_eq!(claim(&last), Err(GiveWay::Shed));
    }

    #[test]
    fn who_waits_is_woken_to_give_way() {
        let budget = BodyBudget::new(64 * MB);
        let hold = claimed(&budget, 60 - 4, 0);
        let mut context = std::task::Context::from_waker(Waker::noop());
        let mut waiting = pin!(hold.unless_told(std::future::pending::<()>()));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        for sample in 1..40 {
            budget.measure(at(sample * BODY_SAMPLE_MS));
        }
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Err(GiveWay::Cut)));
    }
}

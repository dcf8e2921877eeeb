//! A job lane: the disk jobs of one kind that run beside the fetches, with the number under way,
//! what waits for them, and what happens when the disk refuses one. URL seen and the queues on disk
//! have one lane each.
//!
//! In: jobs that begin and end. Out: wake-ups for the task that starts jobs and for those that wait
//! for the ends of jobs. Touched by one core.

mod seen;
mod spill;

pub(super) use seen::SeenLane;
pub(super) use spill::SpillLane;

use crate::base::Time;
use crate::base::notify::Notify;
use crate::base::watermark::Watermark;
use std::cell::Cell;
use std::time::Duration;

#[derive(Default)]
pub(super) struct JobLane {
    /// Wakes the task that starts jobs.
    pub wake: Notify,
    active_count: Cell<usize>,
    /// Wakes the task that closes the lane.
    ended: Notify,
    /// Counts jobs that have ended, successfully or not.
    finished: Watermark,
    is_stalled: Cell<bool>,
    /// No job begins before this time, because the disk refused one.
    not_before: Cell<Time>,
    is_broken: Cell<bool>,
}

impl JobLane {
    pub(super) fn begin_job(&self) {
        self.active_count.set(self.active_count.get() + 1);
    }

    pub(super) fn end_job(&self) {
        self.active_count.set(self.active_count.get() - 1);
        self.wake.poke();
        self.ended.poke();
        self.finished.step();
    }

    /// Resolves when a job has ended, successfully or not.
    pub(super) async fn job_ended(&self) {
        self.finished.stepped().await;
    }

    /// Waits for the jobs under way, so that no file is left half-written. None begins meanwhile,
    /// because the shard has ended.
    pub(super) async fn close(&self) {
        self.wake.poke();
        while self.active_count.get() > 0 {
            self.ended.wait().await;
        }
    }

    /// Notes that the disk refused a job: no job begins for `pause_ms`.
    pub(super) fn refuse(&self, now: Time, pause_ms: u64) {
        self.not_before.set(now + Duration::from_millis(pause_ms));
    }

    /// Returns until when no job may begin because the disk refused one, or `None` if one may
    /// begin.
    pub(super) fn rests_until(&self, now: Time) -> Option<Time> {
        Some(self.not_before.get()).filter(|not_before| *not_before > now)
    }

    /// Notes that a file is damaged: no job begins any more.
    pub(super) fn break_off(&self) {
        self.is_broken.set(true);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Notes whether so much waits for the disk that no fetch may start. Returns true if this has
    /// just begun.
    pub(super) fn note_stall(&self, is_stalled: bool) -> bool {
        !self.is_stalled.replace(is_stalled) && is_stalled
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_lane_is_closed_when_its_last_job_has_ended() {
        let lane = JobLane::default();
        lane.begin_job();
        lane.begin_job();
        let mut closing = pin!(lane.close());
        let mut context = Context::from_waker(Waker::noop());
        assert!(closing.as_mut().poll(&mut context).is_pending());
        lane.end_job();
        assert!(closing.as_mut().poll(&mut context).is_pending());
        lane.end_job();
        assert!(closing.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_lane_rests_after_a_refusal_and_counts_a_stall_once() {
        let (lane, now) = (JobLane::default(), Time::from_ms(5_000));
        assert_eq!(lane.rests_until(now), None);
        lane.refuse(now, 1_000);
        assert_eq!(lane.rests_until(now), Some(Time::from_ms(6_000)));
        assert_eq!(lane.rests_until(Time::from_ms(6_000)), None);
        assert_eq!(
            [true, true, false, true].map(|now| lane.note_stall(now)),
            [true, false, false, true]
        );
    }
}

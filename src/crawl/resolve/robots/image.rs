//! What is known of an origin's robots.txt, in the form that state files hold.

use super::{Entry, RobotsCache, RobotsVersion};
use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::proto::robotstxt::Robots;
use std::rc::Rc;

impl RobotsCache {
    /// Writes what is known of `origin`. Writes nothing if there was no answer yet.
    pub fn pack(&self, origin: &str, pack: &mut Pack<'_>, wall_of: impl Fn(Time) -> WallTime) {
        let entry = self.entries.get(origin);
        let Some(entry) = entry.filter(|of| of.rules.is_some() || of.unreachable.is_some()) else {
            return;
        };
        pack.u64(wall_of(entry.answered).0);
        pack.u8(u8::from(entry.is_unused));
        let unreachable = entry.unreachable.map(|(since, at)| (wall_of(since).0, wall_of(at).0));
        let (since, retry_at) = unreachable.unwrap_or_default();
        pack.u64(since);
        pack.u64(retry_at);
        pack.nested(|pack| entry.rules.iter().for_each(|rules| rules.pack(pack)));
        let version = entry.version.as_deref();
        let field =
            |value: Option<&Box<[u8]>>| value.map(|value| value.to_vec()).unwrap_or_default();
        pack.bytes(&field(version.and_then(|version| version.etag.as_ref())));
        pack.bytes(&field(version.and_then(|version| version.last_modified.as_ref())));
    }

    /// Reads what [`RobotsCache::pack`] wrote. Returns `None` if the bytes are something else.
    /// `time_of` converts a moment of the past, if the clock can tell it. If it cannot, the
    /// robots.txt is requested again, and its Crawl-delay holds meanwhile, so that a reboot does
    /// not shorten it.
    pub fn unpack(
        &mut self,
        origin: &str,
        image: &[u8],
        time_of: impl Fn(WallTime) -> Option<Time>,
    ) -> Option<()> {
        if image.is_empty() {
            return Some(());
        }
        let mut image = Unpack(image);
        let (answered, is_unused) = (image.u64()?, image.u8()? != 0);
        let (since, retry_at) = (image.u64()?, image.u64()?);
        let rules = match image.bytes()? {
            [] => None,
            rules => Some(Rc::new(Robots::unpack(&mut Unpack(rules))?)),
        };
        let filled = |value: &[u8]| (!value.is_empty()).then(|| value.into());
        let (etag, last_modified) = (filled(image.bytes()?), filled(image.bytes()?));
        if !image.is_empty() {
            return None;
        }
        let answered = time_of(WallTime(answered));
        let is_undated = answered.is_none();
        let answered = answered.unwrap_or(Time::ZERO);
        let unreachable = match since {
            0 => None,
            // A robots.txt that was silent before the clock began counts as silent since the clock
            // began.
            _ => {
                Some([since, retry_at].map(|at| time_of(WallTime(at)).unwrap_or(Time::ZERO)).into())
            }
        };
        let version = RobotsVersion { etag, last_modified }.kept();
        let is_asking = false;
        let entry =
            Entry { is_asking, is_unused, rules, version, answered, is_undated, unreachable };
        if entry.rules.is_some() || entry.unreachable.is_some() {
            let origin: Rc<str> = origin.into();
            self.entries.insert(origin.clone(), entry);
            self.order.push_back((origin, answered));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::RobotsState;
    use super::super::tests::{ORIGIN, answer, cache, rules};
    use super::*;
    use crate::crawl::flow::RobotsAnswer;
    use std::time::Duration;

    fn wall(time: Time) -> WallTime {
        WallTime(time.0 + 5)
    }

    fn image(cache: &RobotsCache) -> Vec<u8> {
        let mut image = Vec::new();
        cache.pack(ORIGIN, &mut Pack(&mut image), wall);
        image
    }

    #[test]
    fn rules_versions_and_silence_come_back() {
        let mut known = cache();
        assert!(image(&known).is_empty());
        let version = RobotsVersion { etag: Some((*b"\"7\"").into()), last_modified: None };
        let closed = rules("User-agent: *\nDisallow: /x\nCrawl-delay: 9\n");
        let at = Time::from_ms(50_000);
        known.answer(ORIGIN, &closed, version.clone(), at, at);
        let mut silent = cache();
        answer(&mut silent, closed, at);
        answer(&mut silent, RobotsAnswer::Unreachable, at + Duration::from_secs(1));
        for (before, has_version) in [(&known, true), (&silent, false)] {
            let image = image(before);
            let mut after = cache();
            let time_of = |wall: WallTime| Some(Time(wall.0 - 5));
            assert_eq!(after.unpack(ORIGIN, &image, time_of), Some(()));
            let (old, new) = (&before.entries[ORIGIN], &after.entries[ORIGIN]);
            assert_eq!((new.answered, new.unreachable), (old.answered, old.unreachable));
            assert_eq!((&new.rules, new.is_unused), (&old.rules, old.is_unused));
            assert_eq!(after.version(ORIGIN), has_version.then_some(&version));
            assert_eq!(after.crawl_delay_ms(ORIGIN), Some(9_000));
            for cut in 1..image.len() {
                assert_eq!(cache().unpack(ORIGIN, &image[..cut], time_of), None, "cut at {cut}");
            }
            let mut rebooted = cache();
            assert_eq!(rebooted.unpack(ORIGIN, &image, |_| None), Some(()));
            let is_unknown =
                |of: &RobotsCache, now| matches!(of.state(ORIGIN, now), RobotsState::Unknown);
            assert!(is_unknown(&rebooted, Time::ZERO), "older than the clock: asked for anew");
            assert_eq!(rebooted.crawl_delay_ms(ORIGIN), Some(9_000), "and left alone meanwhile");
            assert_eq!(rebooted.version(ORIGIN), has_version.then_some(&version));
            let soon = Time::from_ms(1_000);
            answer(&mut rebooted, rules("User-agent: *\nCrawl-delay: 2\n"), soon);
            assert!(!is_unknown(&rebooted, soon), "an answer of today is one");
            assert_eq!(rebooted.crawl_delay_ms(ORIGIN), Some(2_000));
            let mut silent_since = cache();
            let boot = |wall: WallTime| (wall.0 - 5 > 50_500_000_000).then(|| Time(wall.0 - 5));
            assert_eq!(silent_since.unpack(ORIGIN, &image, boot), Some(()));
            let unreachable = silent_since.entries[ORIGIN].unreachable;
            assert_eq!(unreachable.is_some(), !has_version, "silence outlives a reboot");
        }
    }
}

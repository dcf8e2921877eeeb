//! Open URLs: those that were handed out and have not ended. They are in flight, waiting for
//! another try, or fetched and not yet durable. A checkpoint must put them back into the queues.
//!
//! This module owns a copy of each. URLs flow in as they leave the queues; the open URLs of one
//! host flow out. Invariant: a URL is open at most once. Their number is bounded by the fetch
//! slots, the retries and the pages that await their sync. Only its own core touches it.

use super::Queued;
use super::host::HostId;
use crate::base::Time;
use crate::crawl::flow::Via;
use crate::proto::url::Fingerprint;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenUrl {
    pub queued: Queued,
    /// When the next try is due, if the URL waits by itself for another try.
    pub waits_until: Option<Time>,
}

#[derive(Default)]
pub struct OpenUrls {
    by_host: HashMap<HostId, OfHost>,
    count: usize,
}

/// Most hosts have one open URL, which lies in the table itself.
enum OfHost {
    One(Fingerprint, OpenUrl),
    Many(Many),
}

/// The open URLs of a host that has several. URLs end mostly in the order in which they were handed
/// out, so the first is found at once and nothing behind it moves. A URL that is not there is
/// searched for among the fingerprints alone: a crawl of one site has a thousand URLs that await
/// their sync.
#[derive(Default)]
struct Many {
    fingerprints: VecDeque<Fingerprint>,
    urls: VecDeque<OpenUrl>,
}

impl Many {
    fn push(&mut self, fingerprint: Fingerprint, url: OpenUrl) {
        self.fingerprints.push_back(fingerprint);
        self.urls.push_back(url);
    }

    fn remove(&mut self, fingerprint: Fingerprint) -> bool {
        let index = self.fingerprints.iter().position(|open| *open == fingerprint);
        index.inspect(|index| {
            self.fingerprints.remove(*index);
            self.urls.remove(*index);
        });
        index.is_some()
    }
}

impl OpenUrls {
    /// Records a URL that leaves its queue. A robots.txt is not recorded: it is asked for anew
    /// after a restart.
    pub fn hand_out(
        &mut self,
        host: HostId,
        queued: &Queued,
        fingerprint: Fingerprint,
        waits_until: Option<Time>,
    ) {
        if queued.via == Via::Robots {
            return;
        }
        let url = OpenUrl { queued: queued.clone(), waits_until };
        match self.by_host.entry(host) {
            Entry::Vacant(vacant) => {
                vacant.insert(OfHost::One(fingerprint, url));
                self.count += 1;
            }
            Entry::Occupied(occupied) => {
                let of_host = occupied.into_mut();
                let mut many = match std::mem::replace(of_host, OfHost::Many(Many::default())) {
                    OfHost::One(first, only) => {
                        Many { fingerprints: VecDeque::from([first]), urls: VecDeque::from([only]) }
                    }
                    OfHost::Many(many) => many,
                };
                self.count += usize::from(!many.remove(fingerprint));
                many.push(fingerprint, url);
                *of_host = OfHost::Many(many);
            }
        }
    }

    /// Closes a URL that is back in its queue or has ended. Returns false if it was not open.
    pub fn close(&mut self, host: HostId, fingerprint: Fingerprint) -> bool {
        let Entry::Occupied(mut occupied) = self.by_host.entry(host) else { return false };
        let (is_closed, is_last) = match occupied.get_mut() {
            OfHost::One(first, _) => (*first == fingerprint, *first == fingerprint),
            OfHost::Many(many) => (many.remove(fingerprint), many.urls.is_empty()),
        };
        if is_last {
            occupied.remove();
        }
        self.count -= usize::from(is_closed);
        is_closed
    }

    /// Returns the open URLs of a host, in the order in which they were handed out.
    pub fn of(&self, host: HostId) -> impl Iterator<Item = &OpenUrl> {
        let (one, many) = match self.by_host.get(&host) {
            Some(OfHost::One(_, url)) => (Some(url), None),
            Some(OfHost::Many(many)) => (None, Some(&many.urls)),
            None => (None, None),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub fn has(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use crate::crawl::flow::{Class, Trail};
    use crate::proto::url::Url;

    fn queued(number: usize) -> Queued {
        let url = Url::parse(&format!("http://a.test/{number}")).expect("a URL");
        let (depth, class, via, trail) = (1, Class::Normal, Via::Link, Trail::default());
        Queued { url, depth, class, via, tries: 0, trail }
    }

    #[test]
    fn what_is_open_is_what_was_handed_out_and_not_closed_in_that_order() {
        // With two numbers, URLs come and go one by one; with forty, some are always open.
        for number_count in [2, 40] {
            let (mut open, mut naive) = (OpenUrls::default(), Vec::<(usize, Option<Time>)>::new());
            let mut state = 1u64;
            for step in 0..5_000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let number = (state >> 33) as usize % number_count;
                let fingerprint = queued(number).url.fingerprint(&test_key());
                let was_open = naive.iter().any(|(of, _)| *of == number);
                naive.retain(|(of, _)| *of != number);
                if state >> 60 < 9 {
                    let waits_until = (step % 3 == 0).then_some(Time(step));
                    open.hand_out(HostId(3), &queued(number), fingerprint, waits_until);
                    naive.push((number, waits_until));
                } else {
                    assert_eq!(open.close(HostId(3), fingerprint), was_open);
                }
                assert!(!open.close(HostId(4), fingerprint), "open at another host");
                let found: Vec<_> =
                    open.of(HostId(3)).map(|of| (of.queued.clone(), of.waits_until)).collect();
                let meant: Vec<_> = naive.iter().map(|(of, until)| (queued(*of), *until)).collect();
                assert_eq!(found, meant);
                assert_eq!((open.count(), open.has(HostId(3))), (naive.len(), !naive.is_empty()));
            }
        }
    }
}

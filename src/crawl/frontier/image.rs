//! Images of hosts, as a checkpoint keeps them, and how a restart makes a frontier of them again.
//!
//! An image is taken of one host at a time, between two changes of that host, and says nothing of
//! other hosts: the journal knows what became of each host since. URLs that are open go back into
//! the queues.

use super::host::{HostId, Origin};
use super::packed::{PackedQueue, Record};
use super::spill::ChunkRef;
use super::{Frontier, Queued, Sieve, record_of};
use crate::base::limits::{HOST_NAME_BYTES_MAX, HOST_ORIGIN_COUNT_MAX};
use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::crawl::flow::Class;
use crate::proto::url::{Fingerprint, HostKey, Scheme, Url};

/// Why a restart cannot read an image.
pub type Unreadable = &'static str;

/// The chunks of a host, by class.
pub type Chunks = [Vec<ChunkRef>; 4];

/// What lies between the heads and the ends of a host's queues.
pub enum Middle {
    /// The chunks lie in this core's own segments.
    Chunks,
    /// The chunks lie in another core's segments: these are their records, by class.
    Records([Vec<u8>; 4]),
}

/// Returns the name of a packed host, and its chunks.
pub fn packed_chunks(image: &[u8]) -> Option<(&str, Chunks)> {
    let mut image = Unpack(image);
    Some((image.text()?, unpack_chunks(&mut image)?))
}

fn unpack_chunks(image: &mut Unpack<'_>) -> Option<Chunks> {
    let mut chunks = Chunks::default();
    for chunks in &mut chunks {
        for _ in 0..image.u32()? {
            let (segment, offset) = (image.u32()?, image.u32()?);
            let (size, count) = (image.u16()?, image.u16()?);
            chunks.push(ChunkRef { segment, offset, size, count });
        }
    }
    Some(chunks)
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Packs a host. `wall_of` converts a time to wall time.
    pub fn pack_host(&self, host: HostId, pack: &mut Pack<'_>, wall_of: impl Fn(Time) -> WallTime) {
        let from = &self.hosts[host];
        pack.text(from.name());
        for chunks in self.tail_image(host) {
            pack.u32(chunks.len() as u32);
            for ChunkRef { segment, offset, size, count } in chunks {
                pack.u32(segment);
                pack.u32(offset);
                pack.u16(size);
                pack.u16(count);
            }
        }
        pack.u8(from.origin_count() as u8);
        for index in 0..from.origin_count() {
            let Origin { scheme, port } = from.origin(index as u8);
            pack.u8(u8::from(scheme == Scheme::Https));
            pack.u16(port);
        }
        pack.u32(from.fetched_count);
        pack.u8(from.share_cursor());
        let is_waiting = from.eligible_at > self.now;
        pack.u64(if is_waiting { wall_of(from.eligible_at).0 } else { 0 });
        pack.u32(self.open.of(host).count() as u32);
        for open in self.open.of(host) {
            pack.u64(open.waits_until.map_or(0, |until| wall_of(until).0));
            open.queued.pack(pack);
        }
        for class in Class::ALL {
            let head = from.head(class);
            pack.nested(|pack| head.iter().for_each(|head| head.append_to(pack.0)));
            let behind = self.tails.behind(host, class);
            pack.nested(|pack| behind.iter().for_each(|behind| behind.append_to(pack.0)));
        }
        let stale = self.stale.of(host);
        pack.u32(self.stale.copies_at(host));
        pack.u32(stale.len() as u32);
        for (fingerprint, tries) in stale {
            pack.u128(fingerprint.0);
            pack.u8(tries);
        }
        pack.nested(|pack| self.traps.pack(host, pack));
    }

    /// Adds a host that [`Frontier::pack_host`] packed and that is not in RAM yet.
    pub fn unpack_host(
        &mut self,
        image: &mut Unpack<'_>,
        middle: &Middle,
        time_of: impl Fn(WallTime) -> Time,
    ) -> Result<HostId, Unreadable> {
        let (host, chunks) = self.unpack_record(image).ok_or("a host's record is invalid")?;
        let unreadable = "a host's queues are invalid";
        let eligible_at = image.u64().ok_or(unreadable)?;
        if eligible_at > 0 {
            self.hosts[host].eligible_at = time_of(WallTime(eligible_at));
        }
        let mut returning = Vec::new();
        for _ in 0..image.u32().ok_or(unreadable)? {
            let until = image.u64().ok_or(unreadable)?;
            let queued = Queued::unpack(image).ok_or(unreadable)?;
            if queued.url.host() != self.hosts[host].name() {
                return Err(unreadable);
            }
            returning.push((until, queued));
        }
        for class in Class::ALL {
            let (head, behind) = (image.bytes().zip(image.bytes())).ok_or(unreadable)?;
            self.restore_queue(host, class, head).ok_or(unreadable)?;
            match middle {
                Middle::Chunks => {
                    let restored = self.restore_tail(host, class, &chunks[class.index()]);
                    restored.map_err(|_| "a host's chunk is in no segment")?;
                }
                Middle::Records(records) => {
                    let records = &records[class.index()];
                    self.restore_queue(host, class, records).ok_or(unreadable)?;
                }
            }
            self.restore_queue(host, class, behind).ok_or(unreadable)?;
        }
        self.stale.add_copies(host, image.u32().ok_or(unreadable)?);
        for _ in 0..image.u32().ok_or(unreadable)? {
            let (fingerprint, tries) = (image.u128().zip(image.u8())).ok_or(unreadable)?;
            self.stale.add(host, Fingerprint(fingerprint), tries);
        }
        self.traps.unpack(host, image.bytes().ok_or(unreadable)?).ok_or(unreadable)?;
        // The last one is put to the front first, so that they come out in the order they had
        // before.
        for (until, queued) in returning.into_iter().rev() {
            if until == 0 && self.keeps_open {
                self.hand_out(host, &queued, None);
            } else if until == 0 {
                self.requeue(host, queued, Time::ZERO);
            } else {
                self.retry_at(host, queued, time_of(WallTime(until)));
            }
        }
        Ok(host)
    }

    /// Restores a URL that was taken since the host's image, at the back of its queue. The caps are
    /// not applied, because the URL had passed them. A restart calls this.
    pub fn readmit(&mut self, queued: &Queued) -> Option<HostId> {
        let host = self.host_again(&queued.url)?;
        self.sieve.admit(queued.url.fingerprint(&self.hash_key));
        let origin = self.hosts[host].intern_origin(Origin::of(&queued.url))?;
        let record = record_of(queued, origin);
        self.tails.push_back(host, &mut self.hosts[host], queued.class, &record);
        self.pushed(host, queued.class, 1, record.size_bytes());
        Some(host)
    }

    /// Returns the host of a URL and adds it if it is not in RAM, past the caps. A restart calls
    /// this: hosts that have left since their images were taken are in RAM again, beside those that
    /// took their places.
    pub fn host_again(&mut self, url: &Url) -> Option<HostId> {
        let key = url.host_key(&self.hash_key);
        let found = self.hosts.by_name(key, url.host()).ok()?;
        Some(found.unwrap_or_else(|| self.add_host(url.lent(), key)))
    }

    /// Restores the end of a URL that has ended since the host's image. A restart calls this.
    pub fn end_again(&mut self, host: HostId, fingerprint: Fingerprint) {
        self.hosts[host].fetched_count = self.hosts[host].fetched_count.saturating_add(1);
        self.stale.end(host, fingerprint);
        // The copy that is queued is stale now.
        self.stale.add_copies(host, 1);
    }

    /// Restores a URL that had ended and that an operator has put back since the host's image. It
    /// goes to the back of its queue, in its next life; if it has had its last life it is not
    /// queued, and `None` is returned. A restart calls this.
    pub fn revive(&mut self, queued: &Queued) -> Option<HostId> {
        let host = self.host_again(&queued.url)?;
        let origin = self.hosts[host].intern_origin(Origin::of(&queued.url))?;
        // It is not admitted again: URL-seen has known it since it was taken.
        let tries = self.stale.revive(host, queued.url.fingerprint(&self.hash_key))?;
        let to = &mut self.hosts[host];
        to.fetched_count = to.fetched_count.saturating_sub(1);
        let record = Record { tries, ..record_of(queued, origin) };
        self.tails.push_back(host, to, queued.class, &record);
        self.pushed(host, queued.class, 1, record.size_bytes());
        Some(host)
    }

    /// Restores a URL that was to be tried again, since the host's image. A restart calls this.
    pub fn retry_again(&mut self, host: HostId, queued: Queued, at: Time) {
        self.stale.add(host, queued.url.fingerprint(&self.hash_key), queued.tries);
        // The copy of the try before is stale now.
        self.stale.add_copies(host, 1);
        self.hosts[host].fetched_count = self.hosts[host].fetched_count.saturating_add(1);
        self.retry_at(host, queued, at);
    }

    pub fn host_key(&self, host: HostId) -> HostKey {
        self.hosts[host].key()
    }

    /// Returns the origins of a host, each with its text `scheme://host[:port]`.
    pub fn host_origins(&self, host: HostId) -> impl Iterator<Item = (Origin, String)> {
        let from = &self.hosts[host];
        (0..from.origin_count()).map(|index| {
            let origin = from.origin(index as u8);
            (origin, origin.text(from.name()))
        })
    }

    fn unpack_record(&mut self, image: &mut Unpack<'_>) -> Option<(HostId, Chunks)> {
        let name = image.text().filter(|name| name.len() <= HOST_NAME_BYTES_MAX)?;
        let chunks = unpack_chunks(image)?;
        let origin_count = usize::from(image.u8()?);
        if !(1..=HOST_ORIGIN_COUNT_MAX).contains(&origin_count) {
            return None;
        }
        let key = HostKey::of(&self.hash_key, name);
        if self.hosts.by_key(key).is_some() {
            return None;
        }
        let mut host = None;
        for _ in 0..origin_count {
            let scheme = if image.u8()? == 0 { Scheme::Http } else { Scheme::Https };
            let origin = Origin { scheme, port: image.u16()? };
            let host = *host.get_or_insert_with(|| self.hosts.add(key, name, origin));
            self.hosts[host].intern_origin(origin)?;
        }
        let host = host?;
        // The host may have come back while the checkpoint was taken: then the checkpoint has it
        // twice, as a cold host and as one in RAM.
        let cold_count = self.cold.take(key).unwrap_or(0);
        self.hosts[host].fetched_count = image.u32()?.max(cold_count);
        self.hosts[host].set_share_cursor(image.u8()?);
        Some((host, chunks))
    }

    /// Appends records to a host's queue.
    fn restore_queue(&mut self, host: HostId, class: Class, bytes: &[u8]) -> Option<()> {
        let queue = PackedQueue::from_bytes(bytes, self.hosts[host].origin_count())?;
        for record in queue.iter() {
            let record = record.borrowed();
            self.tails.push_back(host, &mut self.hosts[host], class, &record);
            self.pushed(host, class, 1, record.size_bytes());
        }
        Some(())
    }
}

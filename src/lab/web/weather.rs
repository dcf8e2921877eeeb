//! Weather: how machines, services, robots.txt files and names change their behaviour over time.
//!
//! Weather is a pure function of seed, host and time, like all of the brain: nothing is remembered,
//! so every core and every rerun sees the same storm. Time is divided into spells, whose length and
//! phase differ from place to place; what happens in a spell is drawn from its number. There are
//! four independent kinds of weather: of a machine ([`Sky`], by address), of a host's service
//! ([`Service`]), of its robots.txt ([`RobotsSpell`]) and of its name ([`NameSpell`]).
//!
//! Invariant: a healthy host ([`Web::is_healthy`]) has no weather at all, and neither have the
//! other hosts at its address. Host 0 is always healthy, because a crawl needs a place to begin.

use crate::base::Time;
use crate::lab::web::Web;
use crate::lab::web::chance::{chance, mix, scale};
use crate::lab::web::graph::Rules;
use crate::proto::dnswire::Rcode;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Whether the machine at an address answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sky {
    Up,
    /// Nothing listens: new connections are refused, existing ones are closed.
    Refusing,
    /// Nothing answers, and nothing is refused.
    Silent,
}

/// How a host answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Fair,
    Failing {
        status: u16,
    },
    Slow {
        delay_ms: u32,
    },
    /// 429 or 503, with a Retry-After in seconds or as a date.
    Throttled {
        status: u16,
        retry_after_seconds: u32,
        dated: bool,
    },
}

/// What a host does with requests for its robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsSpell {
    Fair,
    /// 5xx or 429: the file must not be taken for absent.
    Failing {
        status: u16,
    },
    Changed(Edition),
    /// Other hosts serve it, this number of redirects away.
    Moved {
        hop_count: u32,
    },
    /// Two hosts redirect to each other for ever.
    Looping,
}

/// What a robots.txt says, compared with what the graph says of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    Usual,
    /// Denies a part of what was allowed.
    Tightened,
    /// Denies everything.
    Closed,
    /// Allows everything.
    Relaxed,
    CrawlDelay {
        seconds: u32,
    },
}

/// What a host's name resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSpell {
    Fair,
    Failing(Rcode),
    /// Truncated over UDP, so the question must come again over TCP.
    Truncated,
    /// The name resolves to the host's second address.
    Moved,
    /// This number of CNAMEs before the address.
    Aliased {
        count: u32,
    },
}

/// How many second octets the second address of a host is above its first.
const SECOND_NETWORK: u8 = 100;
/// How long, after the TTL, an address still serves a name that DNS no longer gives it: the longest
/// life of a kept connection, and the time that a late DNS answer may take.
const MOVE_GRACE_SECONDS: u32 = 75;
/// The shortest spell. With shorter spells, or spells less than twice as long as the TTL, a name
/// could move twice within the grace.
pub const SPELL_SECONDS_MIN: u32 = 600;
/// The longest pause that a throttled host asks for.
const PAUSE_SECONDS_MAX: u32 = 120;

/// Salts for the draws: one for each thing that is drawn.
const HEALTH: u64 = 60;
const SKY: u64 = 61;
const SERVICE: u64 = 62;
const ROBOTS: u64 = 63;
const NAME: u64 = 64;
const HOP: u64 = 65;

/// One spell: what is drawn from it, and when it ends.
struct Spell {
    draw: u64,
    seconds_left: u32,
}

impl Spell {
    /// Returns the number in `0..100` that decides what happens in the spell.
    fn lot(&self) -> u32 {
        scale(self.draw, 100)
    }

    fn below(&self, bound: u32) -> u32 {
        scale(mix(self.draw, 1), bound)
    }
}

impl Web {
    /// Reports whether all of a host can be fetched: it has no weather, no fault on its line, and a
    /// robots.txt that answers.
    pub fn is_healthy(&self, host: u32) -> bool {
        !self.has_weather(host) && self.graph().rules(host) != Rules::Failing
    }

    /// Reports whether a host has weather. Hosts that share an address share their health.
    pub fn has_weather(&self, host: u32) -> bool {
        if self.spec().weather_fraction == 0.0 {
            return false;
        }
        let index = host / self.spec().hosts_per_address;
        let draw = mix(mix(self.spec().seed, HEALTH), index.into());
        index > 0 && chance(draw, self.spec().weather_fraction)
    }

    /// Returns the address that a host's name resolves to while it has moved.
    pub fn second_address(&self, host: u32) -> Ipv4Addr {
        let [first, second, third, last] = self.address(host).octets();
        Ipv4Addr::new(first, second.wrapping_add(SECOND_NETWORK), third, last)
    }

    /// Returns the first host at an address, whether it is the host's first address or its second.
    pub fn host_of_address(&self, address: IpAddr) -> Option<u32> {
        let IpAddr::V4(v4) = address else { return None };
        let [first, second, third, last] = v4.octets();
        let moved = Ipv4Addr::new(first, second.wrapping_sub(SECOND_NETWORK), third, last);
        self.host_at(address).or_else(|| self.host_at(moved.into()))
    }

    pub fn sky(&self, address: IpAddr, now: Time) -> Sky {
        if self.spec().weather_fraction == 0.0 {
            return Sky::Up;
        }
        let Some(host) = self.host_of_address(address) else { return Sky::Up };
        match self.spell(SKY, host, now).map(|spell| spell.lot()) {
            Some(0..8) => Sky::Refusing,
            Some(8..14) => Sky::Silent,
            _ => Sky::Up,
        }
    }

    pub fn service(&self, host: u32, now: Time) -> Service {
        let Some(spell) = self.spell(SERVICE, host, now) else { return Service::Fair };
        match spell.lot() {
            0..8 => Service::Failing { status: [500, 502, 503, 504][spell.below(4) as usize] },
            8..16 => Service::Slow { delay_ms: 2_000 + spell.below(26_000) },
            16..28 => Service::Throttled {
                status: if spell.draw & 1 == 0 { 429 } else { 503 },
                retry_after_seconds: (1 + spell.below(PAUSE_SECONDS_MAX)).min(spell.seconds_left),
                dated: spell.draw & 2 == 0,
            },
            _ => Service::Fair,
        }
    }

    pub fn robots_spell(&self, host: u32, now: Time) -> RobotsSpell {
        let Some(spell) = self.spell(ROBOTS, host, now) else { return RobotsSpell::Fair };
        match spell.lot() {
            0..10 => RobotsSpell::Failing { status: [500, 503, 429][spell.below(3) as usize] },
            10..20 => RobotsSpell::Changed(Edition::Tightened),
            20..24 => RobotsSpell::Changed(Edition::Closed),
            24..32 => RobotsSpell::Changed(Edition::Relaxed),
            32..42 => RobotsSpell::Changed(Edition::CrawlDelay { seconds: 1 + spell.below(60) }),
            42..54 => RobotsSpell::Moved { hop_count: 1 + spell.below(6) },
            54..58 => RobotsSpell::Looping,
            _ => RobotsSpell::Fair,
        }
    }

    pub fn name_spell(&self, host: u32, now: Time) -> NameSpell {
        let Some(spell) = self.spell(NAME, host, now) else { return NameSpell::Fair };
        match spell.lot() {
            0..6 => NameSpell::Failing(Rcode::ServerFailure),
            6..10 => NameSpell::Failing(Rcode::NoName),
            10..18 => NameSpell::Truncated,
            18..36 => NameSpell::Moved,
            36..46 => NameSpell::Aliased { count: 1 + spell.below(16) },
            _ => NameSpell::Fair,
        }
    }

    /// Returns the address of the host's name at `now`, provided that the name resolves.
    pub fn named_address(&self, host: u32, now: Time) -> Ipv4Addr {
        match self.name_spell(host, now) {
            NameSpell::Moved => self.second_address(host),
            _ => self.address(host),
        }
    }

    /// Reports whether a client that obeys TTLs may come to `address` for this host.
    pub fn serves(&self, host: u32, address: IpAddr, now: Time) -> bool {
        if !self.has_weather(host) {
            return address == IpAddr::V4(self.address(host));
        }
        // A spell is longer than the grace, so looking at both ends of the grace covers every move
        // in it.
        let before = now - Duration::from_secs(self.move_grace_seconds().into());
        [now, before].into_iter().any(|at| address == IpAddr::V4(self.named_address(host, at)))
    }

    fn move_grace_seconds(&self) -> u32 {
        self.spec().dns_ttl_seconds + MOVE_GRACE_SECONDS
    }

    /// Returns the host that is asked for a host's moved robots.txt when `left` redirects are still
    /// to come.
    pub fn robots_hop(&self, host: u32, left: u32) -> u32 {
        let draw = mix(mix(mix(self.spec().seed, HOP), host.into()), left.into());
        scale(draw, self.spec().host_count)
    }

    /// Returns the spell at one place, or `None` if there is no weather.
    fn spell(&self, salt: u64, host: u32, now: Time) -> Option<Spell> {
        if !self.has_weather(host) {
            return None;
        }
        let place = mix(mix(self.spec().seed, salt), host.into());
        let mean = self.spec().weather_spell_seconds;
        // The length is three quarters to five quarters of the mean.
        let length = u64::from(mean - mean / 4 + scale(place, mean / 2 + 1)).max(1);
        let seconds = now.as_ms() / 1_000 + mix(place, 1) % length;
        let seconds_left = (length - seconds % length) as u32;
        Some(Spell { draw: mix(place, 2 + seconds / length), seconds_left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::{Answer, Reply, Request, WebSpec};
    use hashbrown::HashSet;

    fn storm() -> Web {
        let storm = WebSpec::profile("storm").unwrap();
        Web::new(WebSpec { host_count: 200, page_count: 4_000, ..storm }).unwrap()
    }

    fn hours(web: &Web) -> impl Iterator<Item = (u32, Time)> {
        let ill: Vec<u32> = (0..200).filter(|host| web.has_weather(*host)).collect();
        let times = (0..72).map(|step| Time::from_ms(1_000_000 + step * 300_000));
        times.flat_map(move |now| ill.clone().into_iter().map(move |host| (host, now)))
    }

    fn ask(web: &Web, host: u32, target: &str, now: Time) -> Reply {
        let name = web.host_name(host);
        let request = Request { method: "GET", host: &name, target, ..Request::default() };
        web.respond(&request, web.named_address(host, now).into(), now)
    }

    #[test]
    fn profiles_without_weather_have_healthy_hosts_alone() {
        for name in ["default", "plain", "small", "bench", "rough"] {
            let spec = WebSpec::profile(name).unwrap();
            let web = Web::new(WebSpec { host_count: 40, page_count: 400, ..spec }).unwrap();
            for host in 0..40 {
                assert!(!web.has_weather(host));
                assert_eq!(web.is_healthy(host), web.graph().rules(host) != Rules::Failing);
            }
        }
    }

    #[test]
    fn some_hosts_stay_healthy_whatever_the_hour_and_their_neighbours_with_them() {
        let web = storm();
        let healthy: Vec<u32> = (0..200).filter(|host| web.is_healthy(*host)).collect();
        assert!((40..140).contains(&healthy.len()), "{}", healthy.len());
        assert!(healthy.contains(&0));
        for host in healthy {
            let neighbour = host ^ 1;
            assert_eq!(web.address(host), web.address(neighbour));
            assert!(!web.has_weather(neighbour));
            for now in (0..100).map(|step| Time::from_ms(step * 777_000)) {
                assert_eq!(web.sky(web.address(host).into(), now), Sky::Up);
                assert_eq!(web.service(host, now), Service::Fair);
                assert_eq!(web.robots_spell(host, now), RobotsSpell::Fair);
                assert_eq!(web.name_spell(host, now), NameSpell::Fair);
            }
        }
    }

    #[test]
    fn six_hours_of_storm_bring_every_kind_of_weather() {
        let web = storm();
        let mut seen: HashSet<String> = HashSet::new();
        for (host, now) in hours(&web) {
            let address = web.named_address(host, now).into();
            let kinds = [
                format!("{:?}", web.sky(address, now)),
                format!("{:?}", web.service(host, now)),
                format!("robots {:?}", web.robots_spell(host, now)),
                format!("name {:?}", web.name_spell(host, now)),
            ];
            seen.extend(kinds.into_iter().map(|kind| {
                let end = kind.find('{').unwrap_or(kind.len());
                kind[..end].trim().to_owned()
            }));
        }
        let all = [
            "Up",
            "Refusing",
            "Silent",
            "Fair",
            "Failing",
            "Slow",
            "Throttled",
            "robots Fair",
            "robots Failing",
            "robots Changed(Tightened)",
            "robots Changed(Closed)",
            "robots Changed(Relaxed)",
            "robots Changed(CrawlDelay",
            "robots Moved",
            "robots Looping",
            "name Fair",
            "name Failing(ServerFailure)",
            "name Failing(NoName)",
            "name Truncated",
            "name Moved",
            "name Aliased",
        ];
        for kind in all {
            assert!(seen.contains(kind), "{kind} is missing from {seen:?}");
        }
    }

    #[test]
    fn a_throttled_host_says_until_when_and_keeps_its_word() {
        let web = storm();
        let mut tried = 0;
        for (host, now) in hours(&web) {
            let Service::Throttled { retry_after_seconds, status, dated } = web.service(host, now)
            else {
                continue;
            };
            let reply = ask(&web, host, "/", now);
            assert_eq!(reply.status, status);
            assert!((1..=PAUSE_SECONDS_MAX).contains(&retry_after_seconds));
            match reply.answer {
                Answer::Pause { .. } => assert!(dated),
                Answer::Note { retry_after_seconds: told } => {
                    assert!(!dated && told == retry_after_seconds);
                }
                other => panic!("{other:?}"),
            }
            tried += 1;
        }
        assert!(tried > 100, "{tried}");
    }

    #[test]
    fn a_moved_robots_file_is_found_after_its_hops_and_a_looping_one_never() {
        let web = storm();
        let (mut found, mut looped) = (HashSet::new(), 0);
        for (host, now) in hours(&web).filter(|(host, now)| {
            matches!(web.service(*host, *now), Service::Fair | Service::Slow { .. })
        }) {
            let spell = web.robots_spell(host, now);
            let mut reply = ask(&web, host, "/robots.txt", now);
            let mut hop_count = 0;
            while let Answer::RobotsElsewhere { hop } = reply.answer {
                hop_count += 1;
                if hop_count > 20 {
                    break;
                }
                // Asked directly, without the weather of the hosts on the way.
                reply = web.robots_hop_reply(hop);
            }
            match spell {
                RobotsSpell::Moved { hop_count: meant } => {
                    assert_eq!(hop_count, meant);
                    assert!(matches!(reply.status, 200 | 404 | 500), "{reply:?}");
                    found.insert(meant);
                }
                RobotsSpell::Looping => {
                    assert!(hop_count > 20);
                    looped += 1;
                }
                _ => assert_eq!(hop_count, 0),
            }
        }
        assert_eq!(found.len(), 6, "{found:?}");
        assert!(looped > 0);
    }

    #[test]
    fn an_address_serves_a_name_while_dns_gave_it_and_a_ttl_longer() {
        let web = storm();
        let (host, first) = hours(&web)
            .find(|(host, now)| web.name_spell(*host, *now) == NameSpell::Moved)
            .expect("a name that moves");
        let second = |step: u64| first + Duration::from_secs(step);
        let moved = IpAddr::V4(web.second_address(host));
        let back =
            (0..10_000).find(|step| web.named_address(host, second(*step)) == web.address(host));
        let back = back.expect("it moves back");
        assert!(web.serves(host, moved, second(back - 1)));
        let grace = u64::from(web.spec().dns_ttl_seconds) + 75;
        assert!(web.serves(host, moved, second(back + grace - 1)));
        assert!(!web.serves(host, moved, second(back + grace)));
        assert_eq!(web.host_of_address(moved), web.host_of_address(web.address(host).into()));
    }
}

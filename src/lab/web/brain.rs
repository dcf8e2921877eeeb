//! The brain decides which answer belongs to which request.
//!
//! It owns the link graph, the text and the hostile hosts, and does no I/O: a [`Request`] comes in,
//! a [`Reply`] goes out. A reply is a plan of a few words; its bytes are written when the plan's
//! delay is over ([`Web::write_response`]). Each core that serves the web has a [`Web`] of its own.

use crate::base::limits::WEB_LATENCY_MS_MAX;
use crate::base::{Time, WallTime};
use crate::lab::web::bodies::Bodies;
use crate::lab::web::chance::{chance, mix, normal, scale};
use crate::lab::web::graph::{Graph, Kind, Place, Rules};
use crate::lab::web::hostile::{Hostile, Site};
use crate::lab::web::sitemap::SitemapPart;
use crate::lab::web::spec::{SpecError, WebSpec};
use crate::lab::web::text::Text;
use crate::lab::web::weather::{Edition, RobotsSpell, Service};
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_64;

/// A synthetic web. It takes about 2 MB for paragraphs and 4 bytes a host, whatever the page count.
pub struct Web {
    graph: Graph,
    text: Text,
    page_bytes_median: f64,
    hostile: Option<Hostile>,
    bodies: Option<Bodies>,
}

/// The parts of a request that the brain looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    pub method: &'a str,
    /// The Host header, with or without a port.
    pub host: &'a str,
    pub target: &'a str,
    pub accepts_gzip: bool,
    /// If-None-Match, when it is one of our tags.
    pub etag: Option<u64>,
    /// The client asked for the connection to be closed, or cannot keep it.
    pub close: bool,
    /// When the request came, by the server's wall clock. Answers that name a date need it.
    pub wall: WallTime,
    /// The request has an Authorization or Cookie field, or another one that `connection` lists.
    /// The crawler has no credential to send.
    pub has_credential: bool,
}

/// The plan of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub delay_ms: u32,
    pub gzip: bool,
    pub chunked: bool,
    pub close: bool,
    pub answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Page(Place),
    /// One of the bodies from a folder, followed by a remark that only this URL has.
    Body {
        index: u32,
        key: u64,
    },
    /// The page has not changed: 304 and its tag.
    Unchanged(Place),
    Redirect {
        to: Place,
    },
    Robots {
        host: u32,
        edition: Edition,
    },
    /// A redirect on the way to a robots.txt.
    RobotsElsewhere {
        hop: RobotsHop,
    },
    Sitemap {
        host: u32,
        part: SitemapPart,
    },
    /// A short error page without links. It has a Retry-After unless this is zero.
    Note {
        retry_after_seconds: u32,
    },
    /// A short error page whose Retry-After is a date.
    Pause {
        until: WallTime,
    },
}

/// One redirect on the way to the robots.txt of `of`, served by host `at` under the path
/// `/robots-of/OF/LEFT` or `/robots-of/OF/loop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotsHop {
    pub at: u32,
    pub of: u32,
    /// How many redirects follow; `None` if they never end.
    pub left: Option<u32>,
}

pub(super) const ROBOTS_HOP_PATH: &str = "/robots-of/";

/// A busy URL is busy for the first quarter of every period.
const BUSY_PERIOD_SECONDS: u64 = 8;
const BUSY_SECONDS: u64 = 2;

impl Web {
    pub fn new(spec: WebSpec) -> Result<Web, SpecError> {
        spec.check()?;
        let text = Text::new(spec.seed);
        let page_bytes_median = spec.page_bytes_median();
        let graph = Graph::new(spec);
        let mut web = Web { page_bytes_median, graph, text, hostile: None, bodies: None };
        if web.spec().hostile {
            let WebSpec { port, tls_port, network: [net, _], .. } = *web.spec();
            let neighbour = web.seed_url();
            web.hostile = Some(Hostile::new(Site { port, tls_port, net, neighbour }));
        }
        Ok(web)
    }

    /// Serves these bodies in the place of pages, whatever the path.
    pub fn with_bodies(self, bodies: Option<Bodies>) -> Web {
        Web { bodies, ..self }
    }

    pub(super) fn bodies(&self) -> Option<&Bodies> {
        self.bodies.as_ref()
    }

    /// The hostile hosts, where the spec asks for them.
    pub fn hostile(&self) -> Option<&Hostile> {
        self.hostile.as_ref()
    }

    pub fn spec(&self) -> &WebSpec {
        self.graph.spec()
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub fn text(&self) -> &Text {
        &self.text
    }

    pub(super) fn page_bytes_median(&self) -> f64 {
        self.page_bytes_median
    }

    /// Plans the answer to a request that arrived at address `local` at `now`. Only busy URLs and
    /// hosts with weather depend on the time; everything else depends on the request alone.
    pub fn respond(&self, request: &Request<'_>, local: IpAddr, now: Time) -> Reply {
        let host = match self.asked_host(request.host, local, now) {
            Ok(host) => host,
            Err(status) => return Reply::note(status, 0),
        };
        if request.method != "GET" {
            // The reply closes the connection: a client that sent HEAD would take the body for the
            // start of the next response.
            return Reply::note(405, 0);
        }
        let service = self.service(host, now);
        if let Some(refusal) = refusal(service, request.wall) {
            return refusal;
        }
        let place = self.locate(host, request.target);
        let subject = place.map_or(u64::MAX, |place| u64::from(place.page));
        let draw = mix(mix(mix(self.spec().seed, 20), u64::from(host)), subject);
        let mut reply = match (request.target, place) {
            ("/robots.txt", _) => self.robots_reply(host, now),
            (target, None) if target.starts_with(ROBOTS_HOP_PATH) => {
                match self.robots_hop_at(host, target) {
                    Some(hop) => self.robots_hop_reply(hop),
                    None => Reply::note(404, 0),
                }
            }
            (target, _) if let Some(bodies) = &self.bodies => {
                // The web only draws by this hash and keeps nothing under it, so it needs no secret
                // key.
                let key = mix(draw, xxh3_64(target.as_bytes()));
                let index = bodies.index(key);
                Reply { gzip: true, ..Reply::new(200, Answer::Body { index, key }) }
            }
            (_, Some(place)) => self.place_reply(place, request, draw, now),
            (target, None) => self.sitemap_reply(host, target),
        };
        reply.delay_ms = match service {
            Service::Slow { delay_ms } => delay_ms,
            _ => self.delay_ms(host, draw),
        };
        reply.close = request.close || chance(mix(draw, 1), self.spec().close_fraction);
        reply.chunked = reply.status == 200 && chance(mix(draw, 2), self.spec().chunked_fraction);
        reply
    }

    /// Plans a plain 200 answer with the page's bytes, without the host's weather or delay.
    pub fn page_reply(&self, place: Place, gzip: bool) -> Reply {
        Reply { gzip, ..Reply::new(200, Answer::Page(place)) }
    }

    /// Returns the entity tag of a page's bytes. Copies of a page share it.
    pub fn etag(&self, place: Place) -> u64 {
        let edition = if place.kind == Kind::Variant { place.page } else { 0 };
        mix(self.graph.body_key(place), edition.into())
    }

    /// Finds the host that a request means. A name must arrive at its own address; if it does not,
    /// the answer is 421, because someone has resolved the name wrongly. If the address belongs to
    /// none of our hosts (a listener on 127.0.0.1), every name is served. A Host field that is an
    /// address means the first host at that address, or host 0, so that tools that do not use our
    /// DNS see one site.
    fn asked_host(&self, asked: &str, local: IpAddr, now: Time) -> Result<u32, u16> {
        let name = match asked.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => asked,
        };
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(self.host_at(address).unwrap_or(0));
        }
        let host = self.host_index(name).ok_or(404u16)?;
        match self.host_of_address(local) {
            Some(_) if !self.serves(host, local, now) => Err(421),
            _ => Ok(host),
        }
    }

    fn robots_reply(&self, host: u32, now: Time) -> Reply {
        let moved = |left: Option<u32>| {
            let at = self.robots_hop(host, left.unwrap_or(0));
            Reply::new(302, Answer::RobotsElsewhere { hop: RobotsHop { at, of: host, left } })
        };
        match self.robots_spell(host, now) {
            RobotsSpell::Fair => self.usual_robots(host),
            RobotsSpell::Failing { status } => Reply::note(status, 0),
            RobotsSpell::Changed(edition) => Reply::new(200, Answer::Robots { host, edition }),
            RobotsSpell::Moved { hop_count } => moved(Some(hop_count - 1)),
            RobotsSpell::Looping => moved(None),
        }
    }

    fn usual_robots(&self, host: u32) -> Reply {
        match self.graph.rules(host) {
            Rules::Absent => Reply::note(404, 0),
            Rules::Failing => Reply::note(500, 0),
            Rules::Open | Rules::Private | Rules::Closed => {
                Reply::new(200, Answer::Robots { host, edition: Edition::Usual })
            }
        }
    }

    fn robots_hop_at(&self, at: u32, target: &str) -> Option<RobotsHop> {
        let (of, left) = target.strip_prefix(ROBOTS_HOP_PATH)?.split_once('/')?;
        let of = of.parse().ok().filter(|of| *of < self.spec().host_count)?;
        let left = if left == "loop" { None } else { Some(left.parse().ok()?) };
        Some(RobotsHop { at, of, left })
    }

    /// Plans the answer of one redirect on the way: the file, or the next redirect.
    pub(super) fn robots_hop_reply(&self, hop: RobotsHop) -> Reply {
        let next = match hop.left {
            Some(0) => return self.usual_robots(hop.of),
            Some(left) => {
                let at = self.robots_hop(hop.of, left - 1);
                RobotsHop { at, left: Some(left - 1), ..hop }
            }
            None => {
                // A loop: two hosts redirect to each other for ever.
                let pair = [self.robots_hop(hop.of, 0), self.robots_hop(hop.of, 1)];
                RobotsHop { at: if hop.at == pair[0] { pair[1] } else { pair[0] }, ..hop }
            }
        };
        Reply::new(302, Answer::RobotsElsewhere { hop: next })
    }

    fn sitemap_reply(&self, host: u32, target: &str) -> Reply {
        match SitemapPart::of(target, self.spec().hostile_sitemaps) {
            Some(part) if self.graph.has_sitemap(host) || part.is_lent() => {
                Reply::new(200, Answer::Sitemap { host, part })
            }
            _ => Reply::note(404, 0),
        }
    }

    fn place_reply(&self, place: Place, request: &Request<'_>, draw: u64, now: Time) -> Reply {
        match place.kind {
            Kind::Redirect => {
                let status = [301, 302, 307, 308][scale(mix(draw, 3), 4) as usize];
                Reply::new(status, Answer::Redirect { to: self.graph.redirect_target(place) })
            }
            Kind::Missing => Reply::note(404, 0),
            Kind::Gone => Reply::note(410, 0),
            Kind::Broken => Reply::note(500, 0),
            Kind::Busy if busy_seconds(draw, now) > 0 => Reply::note(503, busy_seconds(draw, now)),
            _ if request.etag == Some(self.etag(place)) => {
                Reply::new(304, Answer::Unchanged(place))
            }
            _ => {
                // The draw is by body and not by URL, so copies stay equal as received, with their
                // content coding.
                let coding = mix(self.graph.body_key(place), 21);
                let gzip = request.accepts_gzip && chance(coding, self.spec().gzip_fraction);
                self.page_reply(place, gzip)
            }
        }
    }

    fn delay_ms(&self, host: u32, draw: u64) -> u32 {
        let spec = self.spec();
        if spec.latency_ms_median == 0.0 {
            return 0;
        }
        let by_host = normal(mix(mix(spec.seed, 22), u64::from(host)));
        // Host and request have equal shares of the variance. The factor keeps the sigma of their
        // sum at the configured value.
        let spread = (by_host + normal(mix(draw, 4))) * std::f64::consts::FRAC_1_SQRT_2;
        let ms = spec.latency_ms_median * (spread * spec.latency_sigma).exp();
        (ms as u32).min(WEB_LATENCY_MS_MAX)
    }
}

impl Reply {
    pub(super) fn new(status: u16, answer: Answer) -> Reply {
        Reply { status, delay_ms: 0, gzip: false, chunked: false, close: false, answer }
    }

    /// Plans an error page; the connection is closed unless the caller changes that.
    pub(super) fn note(status: u16, retry_after_seconds: u32) -> Reply {
        Reply { close: true, ..Reply::new(status, Answer::Note { retry_after_seconds }) }
    }
}

/// Returns the answer that a host in bad weather gives to every request.
fn refusal(service: Service, wall: WallTime) -> Option<Reply> {
    match service {
        Service::Fair | Service::Slow { .. } => None,
        Service::Failing { status } => Some(Reply::note(status, 0)),
        Service::Throttled { status, retry_after_seconds, dated: false } => {
            Some(Reply::note(status, retry_after_seconds))
        }
        Service::Throttled { status, retry_after_seconds, dated: true } => {
            // A date has no fraction of a second, so it is rounded up and is never too early.
            let span_ns = u64::from(retry_after_seconds) * 1_000_000_000 + 999_999_999;
            let until = WallTime(wall.0.saturating_add(span_ns));
            Some(Reply { close: true, ..Reply::new(status, Answer::Pause { until }) })
        }
    }
}

/// Returns the seconds until a busy URL answers, or zero if it answers now. Each URL's period
/// starts at a time of its own.
fn busy_seconds(draw: u64, now: Time) -> u32 {
    let phase = (now.as_ms() / 1_000 + draw % BUSY_PERIOD_SECONDS) % BUSY_PERIOD_SECONDS;
    BUSY_SECONDS.saturating_sub(phase) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rough() -> Web {
        let rough = WebSpec::profile("rough").unwrap();
        Web::new(WebSpec { host_count: 40, page_count: 8_000, ..rough }).unwrap()
    }

    fn ask(web: &Web, place: Place, now: Time) -> Reply {
        let url = web.url(place);
        let (host, path) = url["http://".len()..].split_once('/').unwrap();
        let target = format!("/{path}");
        let request = Request { method: "GET", host, target: &target, ..Request::default() };
        web.respond(&request, web.address(place.host).into(), now)
    }

    #[test]
    fn kinds_answer_with_their_status() {
        let web = rough();
        let mut statuses = Vec::new();
        for host in 0..40 {
            for page in 0..web.graph().page_count(host) {
                let place = web.graph().place(host, page).unwrap();
                let status = ask(&web, place, Time::ZERO).status;
                let expected: &[u16] = match place.kind {
                    Kind::Redirect => &[301, 302, 307, 308],
                    Kind::Missing => &[404],
                    Kind::Gone => &[410],
                    Kind::Broken => &[500],
                    Kind::Busy => &[200, 503],
                    _ => &[200],
                };
                assert!(expected.contains(&status), "{place:?} {status}");
                statuses.push(status);
            }
        }
        for status in [200, 301, 302, 307, 308, 404, 410, 500, 503] {
            assert!(statuses.contains(&status), "{status}");
        }
    }

    #[test]
    fn a_busy_url_answers_after_its_retry_after() {
        let web = rough();
        let places =
            (0..40).flat_map(|host| (0..web.graph().page_count(host)).map(move |p| (host, p)));
        let mut tried = 0;
        for place in places.filter_map(|(host, page)| web.graph().place(host, page)) {
            if place.kind != Kind::Busy {
                continue;
            }
            for second in 0..BUSY_PERIOD_SECONDS {
                let reply = ask(&web, place, Time::from_ms(second * 1_000));
                if let Answer::Note { retry_after_seconds } = reply.answer {
                    assert_eq!(reply.status, 503);
                    let later = second + u64::from(retry_after_seconds);
                    assert_eq!(ask(&web, place, Time::from_ms(later * 1_000)).status, 200);
                    tried += 1;
                }
            }
        }
        assert!(tried > 20, "{tried}");
    }

    #[test]
    fn a_name_at_the_wrong_address_is_refused() {
        let web = rough();
        let name = web.host_name(9);
        let at = |host: &str, local: [u8; 4]| {
            let request = Request { method: "GET", host, target: "/", ..Request::default() };
            web.respond(&request, local.into(), Time::ZERO).status
        };
        assert_eq!(at(&name, web.address(9).octets()), 200);
        assert_eq!(at(&format!("{name}:80"), web.address(9).octets()), 200);
        assert_eq!(at(&name, web.address(0).octets()), 421);
        assert_eq!(at(&name, [127, 0, 0, 1]), 200);
        assert_eq!(at("127.0.0.1:8080", [127, 0, 0, 1]), 200);
        assert_eq!(at("elsewhere.test", [127, 0, 0, 1]), 404);
    }

    #[test]
    fn a_known_tag_is_answered_unchanged() {
        let web = rough();
        let (root, name) = (web.graph().root(0), web.host_name(0));
        let etag = Some(web.etag(root));
        let request =
            Request { method: "GET", host: &name, target: "/", etag, ..Request::default() };
        let reply = web.respond(&request, web.address(0).into(), Time::ZERO);
        assert_eq!((reply.status, reply.answer), (304, Answer::Unchanged(root)));
        let other = Request { etag: Some(1), ..request };
        assert_eq!(web.respond(&other, web.address(0).into(), Time::ZERO).status, 200);
    }

    #[test]
    fn latency_has_the_median_asked_for() {
        let web = rough();
        let mut delays: Vec<u32> = (0..40)
            .flat_map(|host| (0..100).map(move |page| (host, page)))
            .map(|(host, page)| web.delay_ms(host, mix(5, u64::from(host) << 32 | page)))
            .collect();
        delays.sort_unstable();
        let median = delays[delays.len() / 2];
        assert!((20..80).contains(&median), "{median}");
        assert!(delays[delays.len() - 1] > 4 * median);
    }
}

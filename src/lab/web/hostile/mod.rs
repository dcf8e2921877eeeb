//! The hostile web: one host for each way in which a server can try to hurt a crawler.
//!
//! [`ROWS`] is the table: what each server does and what the crawler must do about it. Requests and
//! DNS questions come in; a [`Script`] or a lying DNS message goes out. The module does no I/O: the
//! connection and the name server of the synthetic web carry out what is planned here, behind real
//! sockets and in simulation.
//!
//! Hosts are `<row>.hostile.test`, each at an address of its own, above those of the ordinary web.
//! The page of `index.hostile.test` links to all of them and to the ordinary web.
//! `f0000.farm.hostile.test` and 999 more share one address; for every second of them DNS gives the
//! IPv4-mapped spelling of it. `w0000.wide.hostile.test` and 999 more each have an IPv6 address of
//! one /64, where addresses are simulated.
//!
//! Invariant: an answer depends on the request, on how many requests its connection has carried,
//! and on how often its row has been asked, and on nothing else. Each core has its own.

mod bodies;
mod framing;
mod naming;
mod paths;
mod rows;
pub mod script;

pub use naming::Naming;
pub use paths::ERRORS_SOME;
pub use rows::{ROWS, Row, Secrecy};
pub use script::{End, Script, Step};

use crate::base::limits::WEB_FARM_HOST_COUNT;
use crate::lab::web::brain::Request;
use crate::lab::web::dns::Carrier;
use crate::proto::dnswire::{self, Query};
use std::cell::RefCell;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const ZONE: &str = "hostile.test";
pub const INDEX: &str = "index";
/// Second octets of the hostile addresses. They are above all that the ordinary web can use.
const ROW_NET: u8 = 200;
const FARM_NET: u8 = 201;
/// The /64 of the wide farm: global unicast, and assigned to nobody.
const WIDE_NET: [u16; 4] = [0x2a0f, 0xffff, 0, 201];
/// Last octet of the index's address. Rows are numbered from 1 on.
const INDEX_NUMBER: u8 = 254;

const _: () = assert!(ROWS.len() < INDEX_NUMBER as usize, "too many rows for one /24 network");

/// One core's hostile hosts.
pub struct Hostile {
    site: Site,
    /// How often each row was asked for a page, for its robots.txt and for its address.
    asked: RefCell<Vec<Asked>>,
}

#[derive(Clone, Copy, Default)]
struct Asked {
    page_count: u32,
    robots_count: u32,
    address_count: u32,
}

/// The ports and addresses of the hostile hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    pub port: u16,
    pub tls_port: u16,
    /// First octet of all addresses.
    pub net: u8,
    /// The ordinary web's first URL.
    pub neighbour: String,
}

/// A request as a row sees it.
pub(super) struct Ask<'a> {
    /// The row's name, which pages contain so that no two hosts have the same page.
    name: &'static str,
    target: &'a str,
    /// How many requests the connection carried before this one.
    served_count: u32,
    /// How many requests for `/` (or for robots.txt) the row has had before.
    asked_count: u32,
    site: &'a Site,
}

/// The host that a name means.
#[derive(Clone, Copy)]
enum Host {
    Index,
    Row(usize),
    /// A member, by number, of the farm at one address.
    Farm(u16),
    /// A member, by number, of the farm whose addresses are in one /64.
    Wide(u16),
}

impl Hostile {
    pub(super) fn new(site: Site) -> Hostile {
        Hostile { site, asked: RefCell::new(vec![Asked::default(); ROWS.len()]) }
    }

    /// Returns the URL where a crawl of all rows starts.
    pub fn index_url(&self) -> String {
        self.site.url(INDEX, "/", false)
    }

    /// Returns the URL of a row's page.
    pub fn url(&self, row: &Row, target: &str) -> String {
        self.site.url(row.name, target, row.is_secret())
    }

    pub fn address(&self, row: &Row) -> Option<IpAddr> {
        let index = ROWS.iter().position(|known| known.name == row.name)?;
        Some(self.address_of(Host::Row(index)))
    }

    pub fn farm_address(&self) -> IpAddr {
        self.address_of(Host::Farm(0))
    }

    pub fn farm_url(&self) -> String {
        self.site.url("f0000.farm", "/", false)
    }

    /// Returns the first URL of the farm that has a /64 of addresses. Only a simulation has such
    /// addresses.
    pub fn wide_farm_url(&self) -> String {
        self.site.url("w0000.wide", "/", false)
    }

    /// Returns the script for a request that arrived at `local`, or `None` if its host is not
    /// hostile.
    pub(super) fn script(
        &self,
        request: &Request<'_>,
        local: IpAddr,
        served_count: u32,
    ) -> Option<Script> {
        let name = request.host.rsplit_once(':').map_or(request.host, |(name, _)| name);
        let host = host_named(name)?;
        if local != self.address_of(host) {
            return Some(Script::with_fields(421, "", b"").then(End::Close));
        }
        if request.has_credential {
            let status = paths::CREDENTIAL_STATUS;
            return Some(Script::with_fields(status, "", b"").then(End::Close));
        }
        let is_robots = request.target == "/robots.txt" || request.target.starts_with("/moved");
        let mut ask = Ask {
            name: "",
            target: request.target,
            served_count,
            asked_count: 0,
            site: &self.site,
        };
        let row = match host {
            Host::Row(index) => {
                ask.name = ROWS[index].name;
                ask.asked_count = self.count_request(index, request.target);
                &ROWS[index]
            }
            _ if is_robots => return Some(paths::robots_absent(&ask)),
            Host::Index => return Some(self.index_page()),
            Host::Farm(_) => return Some(paths::farm(&ask, 'f', "farm")),
            Host::Wide(_) => return Some(paths::farm(&ask, 'w', "wide")),
        };
        Some(match request.target {
            _ if is_robots => Script { has_rules: true, ..(row.robots)(&ask) },
            "/next" => framing::genuine(&ask),
            _ => (row.answer)(&ask),
        })
    }

    /// Counts a request and returns how many of its kind came before.
    fn count_request(&self, index: usize, target: &str) -> u32 {
        let asked = &mut self.asked.borrow_mut()[index];
        let count = match target {
            "/robots.txt" => &mut asked.robots_count,
            "/" => &mut asked.page_count,
            _ => return 0,
        };
        *count += 1;
        *count - 1
    }

    /// Plans what happens to a DNS question; [`Lie::NotOurs`] if its name is not a hostile one.
    pub(super) fn answer_dns(&self, message: &[u8], query: &Query, carrier: Carrier) -> Lie {
        let Some(host) = host_named(&query.name) else { return Lie::NotOurs };
        let own = self.address_of(host);
        let naming = match host {
            Host::Row(index) => ROWS[index].naming,
            Host::Farm(number) if number % 2 == 1 => Naming::Mapped,
            _ => Naming::Own,
        };
        let asked_count = match host {
            Host::Row(index) if query.kind == Some(dnswire::Kind::A) => {
                let asked = &mut self.asked.borrow_mut()[index];
                asked.address_count += 1;
                asked.address_count - 1
            }
            _ => 0,
        };
        match naming::answer(naming, own, message, query, carrier, asked_count) {
            None => Lie::Silence,
            Some(bytes) if naming == Naming::WrongPort => Lie::FromElsewhere(bytes),
            Some(bytes) => Lie::Answer(bytes),
        }
    }

    /// Returns what a TLS client that reached `local` meets there.
    pub(super) fn secrecy_at(&self, local: IpAddr) -> Secrecy {
        let rows = ROWS.iter().enumerate();
        let mut here = rows.filter(|(index, _)| self.address_of(Host::Row(*index)) == local);
        here.next().map_or(Secrecy::Plain, |(_, row)| row.secrecy)
    }

    fn address_of(&self, host: Host) -> IpAddr {
        let net = self.site.net;
        let [a, b, c, d] = WIDE_NET;
        IpAddr::V4(match host {
            Host::Wide(number) => return Ipv6Addr::new(a, b, c, d, 0, 0, 1, number).into(),
            Host::Index => Ipv4Addr::new(net, ROW_NET, 0, INDEX_NUMBER),
            Host::Row(index) => Ipv4Addr::new(net, ROW_NET, 0, index as u8 + 1),
            Host::Farm(_) => Ipv4Addr::new(net, FARM_NET, 0, 1),
        })
    }

    fn index_page(&self) -> Script {
        let mut page = String::from("<!doctype html><title>hostile hosts</title>\n");
        let mut link = |url: &str| {
            // Writing to a String does not fail.
            let _ = writeln!(page, "<a href=\"{url}\">{url}</a>");
        };
        link(&self.site.neighbour);
        link(&format!("http://{}:{}/", paths::COLLIDING_HOST, self.site.port));
        // A web at public addresses is a simulated one, because no real crawler is sent there.
        let is_simulated = self.site.net != Ipv4Addr::LOCALHOST.octets()[0];
        for row in ROWS.iter().filter(|row| is_simulated || !row.is_simulated) {
            link(&self.url(row, "/"));
            if row.has_next || row.name == "honest" {
                link(&self.url(row, "/next"));
            }
        }
        Script::page(&page)
    }
}

/// What happens to a DNS question.
pub(super) enum Lie {
    /// The name is not a hostile one.
    NotOurs,
    Silence,
    Answer(Vec<u8>),
    /// The answer is sent from another port than the one that was asked.
    FromElsewhere(Vec<u8>),
}

impl Site {
    fn url(&self, label: &str, target: &str, is_secret: bool) -> String {
        let (scheme, port) = if is_secret { ("https", self.tls_port) } else { ("http", self.port) };
        format!("{scheme}://{label}.{ZONE}:{port}{target}")
    }
}

impl Ask<'_> {
    fn url(&self, label: &str, target: &str) -> String {
        self.site.url(label, target, false)
    }

    #[cfg(test)]
    fn of(target: &'static str) -> Ask<'static> {
        static SITE: Site = Site { port: 80, tls_port: 443, net: 127, neighbour: String::new() };
        Ask { name: "", target, served_count: 0, asked_count: 0, site: &SITE }
    }
}

fn host_named(name: &str) -> Option<Host> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let label = name.strip_suffix(ZONE)?.strip_suffix('.')?;
    if label == INDEX {
        return Some(Host::Index);
    }
    if let Some((member, farm @ ("farm" | "wide"))) = label.split_once('.') {
        let number: u16 = member.strip_prefix(&farm[..1])?.parse().ok()?;
        let is_member = usize::from(number) < WEB_FARM_HOST_COUNT && member.len() == 5;
        let host = if farm == "farm" { Host::Farm(number) } else { Host::Wide(number) };
        return is_member.then_some(host);
    }
    ROWS.iter().position(|row| row.name == label).map(Host::Row)
}

/// Makes links to every member of a farm.
fn farm_links(ask: &Ask<'_>, initial: char, farm: &str) -> String {
    let url = |member| ask.url(&format!("{initial}{member:04}.{farm}"), "/m");
    (0..WEB_FARM_HOST_COUNT).map(|member| format!("<a href=\"{}\">m</a>", url(member))).collect()
}

/// The farms. They are not rows, because each has a thousand names.
const FARMS: [(&str, &str); 2] = [
    (
        "f0000.farm",
        "1,000 names at one address, half of them spelled ::ffff:a.b.c.d -> one pace for all",
    ),
    ("w0000.wide", "1,000 names, each with an address in one /64 -> one pace for all (simulated)"),
];

/// Returns the table as text for people.
pub fn table() -> String {
    let mut text = String::new();
    for row in ROWS {
        let simulated = if row.is_simulated { " (in simulation)" } else { "" };
        // Writing to a String does not fail.
        let _ = writeln!(text, "{:<20} {} -> {}{simulated}", row.name, row.does, row.demands);
    }
    for (name, does) in FARMS {
        let _ = writeln!(text, "{name:<20} {does}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> Hostile {
        Hostile::new(Site { port: 80, tls_port: 443, net: 127, neighbour: "http://n.test/".into() })
    }

    fn ask(hostile: &Hostile, name: &str, target: &str, local: IpAddr) -> Option<Script> {
        let request = Request { method: "GET", host: name, target, ..Request::default() };
        hostile.script(&request, local, 0)
    }

    #[test]
    fn every_row_answers_at_its_own_address_and_at_no_other() {
        let hostile = hostile();
        for row in ROWS {
            let name = format!("{}.{ZONE}", row.name);
            let own = hostile.address(row).unwrap();
            assert!(ask(&hostile, &name, "/", own).unwrap().status != 421, "{name}");
            let other = hostile.farm_address();
            assert_eq!(ask(&hostile, &name, "/", other).unwrap().status, 421, "{name}");
        }
        assert!(ask(&hostile, "h000001.site0.test", "/", hostile.farm_address()).is_none());
        assert!(ask(&hostile, "nobody.hostile.test", "/", hostile.farm_address()).is_none());
    }

    #[test]
    fn the_index_leads_to_every_row_that_real_sockets_can_serve() {
        let hostile = hostile();
        let [Step::Send(bytes)] = &hostile.index_page().steps[..] else { panic!("one step") };
        let page = String::from_utf8_lossy(bytes).into_owned();
        for row in ROWS {
            let link = format!("\"{}\"", hostile.url(row, "/"));
            assert_eq!(page.contains(&link), !row.is_simulated, "{}", row.name);
        }
        assert!(page.contains("http://n.test/"));
    }

    #[test]
    fn a_credential_is_answered_by_a_status_that_the_log_shows() {
        let hostile = hostile();
        let host = "honest.hostile.test";
        let local = hostile.address(&ROWS[0]).unwrap();
        let request = Request { host, target: "/", has_credential: true, ..Request::default() };
        assert_eq!(hostile.script(&request, local, 0).unwrap().status, 418);
    }
}

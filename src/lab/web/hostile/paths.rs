//! Servers that lead a crawler astray: with redirects, links, credentials, robots.txt and
//! Retry-After.

use super::Ask;
use super::framing::{genuine, silent};
use super::script::{End, Script};

/// The status that answers a request with a credential, so that the log shows the request.
pub(super) const CREDENTIAL_STATUS: u16 = 418;

/// How many URLs of [`errors_some`] fail for ever, and how many do not. Those that fail come first.
pub const ERRORS_SOME: (u32, u32) = (8, 40);

/// Reads the number after `prefix` in a target.
fn step(ask: &Ask<'_>, prefix: &str) -> u32 {
    ask.target.strip_prefix(prefix).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

// --- Redirects ----------------------------------------------------------------------------------

pub(super) fn redirect_self(_: &Ask<'_>) -> Script {
    Script::redirect("/")
}

pub(super) fn redirect_pair(ask: &Ask<'_>) -> Script {
    Script::redirect(if ask.target == "/" { "/b" } else { "/" })
}

pub(super) fn redirect_endless(ask: &Ask<'_>) -> Script {
    Script::redirect(&format!("/r{}", step(ask, "/r") + 1))
}

pub(super) fn redirect_file(_: &Ask<'_>) -> Script {
    Script::redirect("file:///etc/passwd")
}

pub(super) fn redirect_gopher(_: &Ask<'_>) -> Script {
    Script::redirect(&format!("gopher://landing.{}/1", super::ZONE))
}

pub(super) fn redirect_data(_: &Ask<'_>) -> Script {
    Script::redirect("data:text/html,<a href=/>x</a>")
}

pub(super) fn redirect_javascript(_: &Ask<'_>) -> Script {
    Script::redirect("javascript:alert(1)")
}

pub(super) fn redirect_denied(ask: &Ask<'_>) -> Script {
    Script::redirect(&ask.url("landing", "/denied/by-redirect"))
}

pub(super) fn redirect_abroad(ask: &Ask<'_>) -> Script {
    Script::redirect(&ask.url("landing", "/from-abroad"))
}

pub(super) fn redirect_private(_: &Ask<'_>) -> Script {
    Script::redirect("http://169.254.169.254/latest/meta-data/")
}

pub(super) fn landing_robots(_: &Ask<'_>) -> Script {
    Script::plain_text(b"User-agent: *\nDisallow: /denied/\n")
}

// --- Hashes -------------------------------------------------------------------------------------

/// A name with the same 64-bit xxh3 hash as `hash-collision.hostile.test`. No server answers for
/// it.
pub(super) const COLLIDING_HOST: &str = concat!(
    "xxsxeeaaxxxxxxxxxx1mwtbaxxxxxxx.xxbs05baxxxxxxxxxxnzoidaxxxxxxx.",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.xxxxxxxxxxxxxx.evil.hostile.test"
);

// --- Request lines and credentials --------------------------------------------------------------

/// Sends line breaks in the two ways that a server can: folded into the field, and escaped in the
/// URL.
pub(super) fn crlf_location(ask: &Ask<'_>) -> Script {
    match ask.target {
        "/" => Script::redirect("/a\r\n GET /injected HTTP/1.1"),
        target if target.starts_with("/a") => {
            Script::redirect("/b%0d%0aX-Injected:%20yes%0d%0a%0d%0aGET%20/injected%20HTTP/1.1")
        }
        _ => genuine(ask),
    }
}

pub(super) fn crlf_bare(_: &Ask<'_>) -> Script {
    Script::redirect("/a\rX-Injected: yes")
}

pub(super) fn crlf_href(ask: &Ask<'_>) -> Script {
    if ask.target != "/" {
        return genuine(ask);
    }
    Script::page(
        "<a href=\"/c HTTP/1.1\r\nX-Injected: yes\r\n\r\nGET /injected HTTP/1.1\r\n\">1</a>\
         <a href=\"/d&#13;&#10;X-Injected:&#32;yes&#13;&#10;&#13;&#10;GET /injected\">2</a>\
         <a href=\"/e%0D%0AX-Injected:%20yes\">3</a>\
         <a href=\"http://landing.hostile.test\r\n/\">4</a>",
    )
}

pub(super) fn user_info(ask: &Ask<'_>) -> Script {
    let with_user = |url: String| url.replacen("://", "://user:secret@", 1);
    match ask.target {
        "/" => Script::page(&format!(
            "<a href=\"{}\">1</a><a href=\"{}\">2</a>",
            with_user(ask.url("user-info", "/here")),
            with_user(ask.url("landing", "/with-user")),
        )),
        "/here" => Script::with_fields(
            302,
            &format!(
                "Set-Cookie: session=secret\r\nLocation: {}\r\n",
                with_user(ask.url("landing", "/redirected-with-user"))
            ),
            b"",
        ),
        _ => genuine(ask),
    }
}

// --- robots.txt ---------------------------------------------------------------------------------

/// Serves a page that links to what its robots.txt forbids.
pub(super) fn guarded(ask: &Ask<'_>) -> Script {
    match ask.target {
        "/" => Script::page("<a href=/private/x>no</a><a href=/open>yes</a>"),
        _ => genuine(ask),
    }
}

pub(super) fn robots_absent(_: &Ask<'_>) -> Script {
    Script::with_fields(404, "", b"")
}

/// Asks for a delay of a second between two requests, so that what a server sends unasked has
/// arrived before the next one.
pub(super) fn robots_patient(_: &Ask<'_>) -> Script {
    Script::plain_text(b"User-agent: *\nCrawl-delay: 1\n")
}

pub(super) fn robots_gone(_: &Ask<'_>) -> Script {
    Script::with_fields(410, "", b"")
}

pub(super) fn robots_failing(_: &Ask<'_>) -> Script {
    Script::with_fields(500, "", b"")
}

pub(super) fn robots_silent(ask: &Ask<'_>) -> Script {
    silent(ask)
}

pub(super) fn robots_reset(_: &Ask<'_>) -> Script {
    Script::new(0, End::Reset)
}

pub(super) fn robots_throttled(ask: &Ask<'_>) -> Script {
    if ask.asked_count == 0 {
        return Script::with_fields(429, "Retry-After: 1\r\n", b"");
    }
    guard(ask)
}

const GUARD: &str = "User-agent: *\nDisallow: /private/\n";

fn guard(_: &Ask<'_>) -> Script {
    Script::plain_text(GUARD.as_bytes())
}

fn endless_robots(start: &str, unit: &[u8]) -> Script {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    Script::raw(200, [head, GUARD, start].concat()).endless(unit).then(End::Close)
}

pub(super) fn robots_huge(_: &Ask<'_>) -> Script {
    endless_robots("", b"Disallow: /private/and/on\n")
}

pub(super) fn robots_line(_: &Ask<'_>) -> Script {
    endless_robots("Disallow: /", b"x")
}

pub(super) fn robots_binary(_: &Ask<'_>) -> Script {
    let noise: Vec<u8> =
        (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    Script::plain_text(&[&noise[..], b"\n", GUARD.as_bytes(), &noise].concat())
}

fn moved(ask: &Ask<'_>, hop_count: u32) -> Script {
    let hop = step(ask, "/moved");
    if hop == hop_count { guard(ask) } else { Script::redirect(&format!("/moved{}", hop + 1)) }
}

pub(super) fn robots_moved_5(ask: &Ask<'_>) -> Script {
    moved(ask, 5)
}

pub(super) fn robots_moved_6(ask: &Ask<'_>) -> Script {
    moved(ask, 6)
}

/// Allows everything at first; a crawler that asks again finds `/late/` denied.
pub(super) fn robots_tightened(ask: &Ask<'_>) -> Script {
    let rules = if ask.asked_count == 0 { "" } else { "User-agent: *\nDisallow: /late/\n" };
    Script::plain_text(rules.as_bytes())
}

/// Serves a long chain of pages, each with a link that the rules will forbid later.
pub(super) fn tightened(ask: &Ask<'_>) -> Script {
    let page = step(ask, "/p");
    if page > 60 {
        return genuine(ask);
    }
    Script::page(&format!("<a href=/p{}>on</a><a href=/late/{page}>late</a>", page + 1))
}

// --- When to come back --------------------------------------------------------------------------

fn busy_once(ask: &Ask<'_>, retry_after: &str) -> Script {
    if ask.asked_count > 0 {
        return genuine(ask);
    }
    Script::with_fields(503, &format!("Retry-After: {retry_after}\r\n"), b"")
}

pub(super) fn retry_huge(ask: &Ask<'_>) -> Script {
    busy_once(ask, "99999999999999999999")
}

pub(super) fn retry_negative(ask: &Ask<'_>) -> Script {
    busy_once(ask, "-30")
}

pub(super) fn retry_date(ask: &Ask<'_>) -> Script {
    busy_once(ask, "Fri, 31 Dec 2100 23:59:59 GMT")
}

/// Links to the [`ERRORS_SOME`] URLs: first those that fail for ever, then those that do not.
pub(super) fn errors_some(ask: &Ask<'_>) -> Script {
    let (broken, sound) = ERRORS_SOME;
    if ask.target == "/" {
        let link = |path: &str, count| -> String {
            (0..count).map(|number| format!("<a href=/{path}/{number}>p</a> ")).collect()
        };
        return Script::page(&(link("broken", broken) + &link("sound", sound)));
    }
    match ask.target.starts_with("/broken/") {
        true => Script::with_fields(500, "", b"broken"),
        false => genuine(ask),
    }
}

// --- Traps --------------------------------------------------------------------------------------

pub(super) fn calendar(ask: &Ask<'_>) -> Script {
    let month = step(ask, "/calendar/");
    let (next, after) = (month + 1, month + 2);
    Script::page(&format!("<a href=/calendar/{next}>n</a><a href=/calendar/{after}>a</a>"))
}

/// Puts a new session id into every link: the same page under endless names.
pub(super) fn sessions(ask: &Ask<'_>) -> Script {
    let seed = ask.target.bytes().fold(7u64, |seed, byte| {
        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(byte))
    });
    let link =
        |n: u64| format!("<a href=/cart;s={:016x}/view>cart</a>", seed.wrapping_mul(2 * n + 3));
    Script::page(&(0..5).map(link).collect::<String>())
}

pub(super) fn farm(ask: &Ask<'_>, initial: char, farm: &str) -> Script {
    if ask.target != "/" {
        return genuine(ask);
    }
    Script::page(&super::farm_links(ask, initial, farm))
}

//! A page's bytes: markup, links and pooled paragraphs. They are a pure function of the page's body
//! key.
//!
//! A page is exactly as long as the size drawn for it, unless its links alone are longer. It also
//! carries bait: hrefs in a script and in a comment, which a parser must not take for links. They
//! lead nowhere (404), so the server's log shows when a crawler follows one.

use crate::base::limits::WEB_PAGE_BYTES_MAX;
use crate::lab::web::Web;
use crate::lab::web::chance::{Dice, mix, normal};
use crate::lab::web::graph::{Kind, Place};
use crate::lab::web::names::{push_number, turn_query};

/// A pooled paragraph in a finished page: where it starts, and which paragraph it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pasted {
    pub start: usize,
    pub paragraph: u32,
}

const HEAD: &[u8] = b"<meta name=\"viewport\" content=\"width=device-width\">\n\
<style>body{font:16px/1.5 serif;margin:0 auto;max-width:60em}nav li{display:inline}</style>\n\
<script>var menu='<a href=\"/trap/1\">not a link</a>';if(1<2){document.title+=''}</script>\n\
</head>\n<body class=\"page\">\n<!-- <a href=\"/trap/2\">an old menu</a> -->\n<nav><ul>\n";
const TAIL: &[u8] =
    b"</article></main>\n<footer><small>A page of the synthetic web.</small></footer>\n\
</body>\n</html>\n";
/// About how many bytes a link and its markup take. It only decides how links spread between
/// paragraphs.
const LINK_BYTES: usize = 90;
const NAV_COUNT: usize = 9;
/// The bytes that every stamp takes: room for a number and two of the longest words.
const STAMP_BYTES: usize = 64;

impl Web {
    /// Returns the size drawn for a page.
    pub fn page_bytes(&self, place: Place) -> usize {
        let spec = self.spec();
        if spec.page_bytes_sigma == 0.0 {
            return spec.page_bytes_mean as usize;
        }
        let draw = normal(mix(self.graph().body_key(place), 11)) * spec.page_bytes_sigma;
        ((self.page_bytes_median() * draw.exp()) as usize).min(WEB_PAGE_BYTES_MAX)
    }

    /// Appends the page's HTML to `out`, and to `pasted` where pooled paragraphs are in it.
    pub fn push_page(&self, place: Place, out: &mut Vec<u8>, pasted: &mut Vec<Pasted>) {
        let start = out.len();
        let key = self.graph().body_key(place);
        let page_bytes = self.page_bytes(place);
        let end = start + page_bytes;
        out.reserve(page_bytes + 4_096);
        let mut links = Vec::with_capacity(self.spec().link_count as usize + 64);
        self.graph().links(place, page_bytes, &mut links);
        let mut hrefs = Hrefs::new(self, place, key);
        let mut dice = Dice::new(mix(key, 12));
        self.push_head(place, &mut dice, out);
        let (nav, rest) = links.split_at(NAV_COUNT.min(links.len()));
        for link in nav {
            out.extend_from_slice(b"<li>");
            hrefs.push(*link, out);
            out.extend_from_slice(b"</li>\n");
        }
        out.extend_from_slice(b"</ul></nav>\n<main><article>\n");
        self.push_stamp(place, &mut dice, out);
        let mut paste = |out: &mut Vec<u8>, room_end: usize| {
            let (index, paragraph) = self.text().choose(dice.roll());
            let fits = out.len() + paragraph.html.len() + TAIL.len() <= room_end;
            if fits {
                pasted.push(Pasted { start: out.len() - start, paragraph: index });
                out.extend_from_slice(&paragraph.html);
            }
            fits
        };
        let room = end.saturating_sub(out.len() + TAIL.len() + rest.len() * LINK_BYTES);
        let gaps = room / self.text().paragraph_bytes_mean() + 1;
        for group in rest.chunks(rest.len().div_ceil(gaps).max(1)) {
            paste(out, end.saturating_sub(group.len() * LINK_BYTES));
            out.extend_from_slice(b"<div class=\"more\">");
            for link in group {
                hrefs.push(*link, out);
                out.push(b' ');
            }
            out.extend_from_slice(b"</div>\n");
        }
        while paste(out, end) {}
        self.push_filling(end.saturating_sub(out.len() + TAIL.len()), out);
        out.extend_from_slice(TAIL);
    }

    fn push_head(&self, place: Place, dice: &mut Dice, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
        );
        let title = Dice::new(dice.roll());
        self.push_words(5, title, out);
        out.extend_from_slice(b"</title>\n<meta name=\"description\" content=\"");
        self.push_words(12, Dice::new(dice.roll()), out);
        out.extend_from_slice(b"\">\n");
        if place.kind == Kind::Denied {
            out.extend_from_slice(
                b"<!-- robots.txt denies this page: asking for it was a fault -->\n",
            );
        }
        out.extend_from_slice(HEAD);
    }

    /// Appends the heading and its stamp, which are all that a variant changes.
    fn push_stamp(&self, place: Place, dice: &mut Dice, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<h1>");
        self.push_words(4, Dice::new(dice.roll()), out);
        out.extend_from_slice(b"</h1>\n<p class=\"stamp\">Edition ");
        let end = out.len() + STAMP_BYTES;
        let edition = if place.kind == Kind::Variant { place.page } else { 0 };
        push_number(edition, out);
        out.push(b' ');
        self.push_words(2, Dice::new(mix(dice.roll(), edition.into())), out);
        // All editions have one length, so the rest of the page stays the same.
        debug_assert!(out.len() <= end);
        out.resize(end, b' ');
        out.extend_from_slice(b"</p>\n");
    }

    fn push_words(&self, count: usize, mut dice: Dice, out: &mut Vec<u8>) {
        for index in 0..count {
            if index > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(self.text().word(dice.roll()).as_bytes());
        }
    }

    /// Appends exactly `count` bytes that render as text or not at all.
    fn push_filling(&self, count: usize, out: &mut Vec<u8>) {
        const WRAP: usize = b"<p></p>\n".len();
        if count <= WRAP {
            return out.resize(out.len() + count, b'\n');
        }
        out.extend_from_slice(b"<p>");
        self.text().push_filler(count - WRAP, out);
        out.extend_from_slice(b"</p>\n");
    }
}

/// Writes the links of one page, each in one of the forms that mean the same URL.
struct Hrefs<'a> {
    web: &'a Web,
    from_host: u32,
    /// How many directories are above the page's own path. `None` where relative links would not be
    /// safe, because the same bytes are served elsewhere.
    depth: Option<usize>,
    dice: Dice,
    path: Vec<u8>,
}

impl<'a> Hrefs<'a> {
    fn new(web: &'a Web, place: Place, key: u64) -> Hrefs<'a> {
        let mut path = Vec::with_capacity(64);
        let fixed = matches!(place.kind, Kind::Print | Kind::Variant | Kind::Press)
            || web.graph().has_twin(place);
        let depth = (!fixed && web.spec().varied_links).then(|| {
            web.push_path(place, &mut path);
            let end = path.iter().position(|&byte| byte == b'?').unwrap_or(path.len());
            path[..end].iter().filter(|&&byte| byte == b'/').count() - 1
        });
        // A press page is served by several hosts, so all its links name their host.
        let from_host = if place.kind == Kind::Press { u32::MAX } else { place.host };
        Hrefs { web, from_host, depth, dice: Dice::new(mix(key, 13)), path }
    }

    /// Appends a link: `<a href="...">words</a>`.
    fn push(&mut self, to: Place, out: &mut Vec<u8>) {
        let roll = self.dice.roll();
        self.path.clear();
        self.web.push_path(to, &mut self.path);
        if self.web.spec().turned_queries && (roll >> 16) & 1 == 1 {
            turn_query(&mut self.path);
        }
        let varied = self.web.spec().varied_links;
        let quote = match (roll >> 8) & 15 {
            0 if varied => b'\'',
            _ => b'"',
        };
        out.extend_from_slice(match (roll >> 12) & 15 {
            0 if varied => b"<A class=\"l\"\n HREF=" as &[u8],
            1 => b"<a rel=\"noopener\" href=",
            _ => b"<a href=",
        });
        out.push(quote);
        self.push_reference(to, roll & 15, out);
        if varied {
            self.push_tracking((roll >> 4) & 15, out);
        }
        out.push(quote);
        out.push(b'>');
        out.extend_from_slice(self.web.text().word(roll).as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.web.text().word(mix(roll, 2)).as_bytes());
        out.extend_from_slice(b"</a>");
    }

    /// Appends the URL of a link in one of its forms, without tracking parameters and fragment.
    fn push_reference(&mut self, to: Place, form: u64, out: &mut Vec<u8>) {
        let varied = self.web.spec().varied_links;
        let away = to.host != self.from_host;
        match (form, self.depth) {
            (0..4, Some(depth)) if !away => {
                out.extend_from_slice(if depth == 0 { b"./" } else { b"" });
                (0..depth).for_each(|_| out.extend_from_slice(b"../"));
                push_escaped(&self.path[1..], out);
                return;
            }
            (4, _) if varied && !away => out.extend_from_slice(b"/here/.."),
            (5..7, _) if varied => {
                out.extend_from_slice(b"//");
                self.web.push_authority(to.host, out);
            }
            (7, _) if varied => {
                let start = out.len();
                self.web.push_origin(to.host, out);
                out[start..].make_ascii_uppercase();
            }
            (8, _) => self.web.push_origin(to.host, out),
            _ if away => self.web.push_origin(to.host, out),
            _ => {}
        }
        push_escaped(&self.path, out);
    }

    fn push_tracking(&self, form: u64, out: &mut Vec<u8>) {
        let joint: &[u8] = if self.path.contains(&b'?') { b"&amp;" } else { b"?" };
        let (tracking, fragment): (&[u8], &[u8]) = match form {
            0 => (b"utm_source=feed&amp;utm_medium=rss", b""),
            1 => (b"gclid=Cj0KCQ", b"#top"),
            2 | 3 => (b"", b"#comments"),
            _ => return,
        };
        if !tracking.is_empty() {
            out.extend_from_slice(joint);
            out.extend_from_slice(tracking);
        }
        out.extend_from_slice(fragment);
    }
}

/// Appends a path escaped for an attribute. `&` is the only such character in paths of this web.
pub(super) fn push_escaped(path: &[u8], out: &mut Vec<u8>) {
    match path.iter().position(|&byte| byte == b'&') {
        None => out.extend_from_slice(path),
        Some(at) => {
            out.extend_from_slice(&path[..at]);
            out.extend_from_slice(b"&amp;");
            push_escaped(&path[at + 1..], out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::WebSpec;
    use hashbrown::HashSet;

    fn page(web: &Web, place: Place) -> Vec<u8> {
        let mut out = Vec::new();
        web.push_page(place, &mut out, &mut Vec::new());
        out
    }

    fn rough() -> Web {
        let rough = WebSpec::profile("rough").unwrap();
        Web::new(WebSpec { host_count: 8, page_count: 1_600, ..rough }).unwrap()
    }

    #[test]
    fn pages_have_the_size_that_was_drawn_for_them() {
        let web = Web::new(WebSpec::profile("small").unwrap()).unwrap();
        for number in 0..200 {
            assert_eq!(page(&web, web.graph().place(0, number).unwrap()).len(), 25_000);
        }
        let web = rough();
        let places = (0..web.graph().page_count(1)).map(|page| web.graph().place(1, page).unwrap());
        let large = places.filter(|place| web.page_bytes(*place) > 12_000);
        for place in large.filter(|place| place.page > 0) {
            assert_eq!(page(&web, place).len(), web.page_bytes(place), "{place:?}");
        }
    }

    #[test]
    fn copies_repeat_their_original_and_variants_change_a_few_words() {
        let web = rough();
        let mut seen = [0; 2];
        let numbers =
            (0..8).flat_map(|host| (0..web.graph().page_count(host)).map(move |n| (host, n)));
        for (host, number) in numbers {
            let place = web.graph().place(host, number).unwrap();
            let (copy, original) = (page(&web, place), page(&web, web.graph().original(place)));
            match place.kind {
                Kind::Print => assert!(copy == original),
                Kind::Variant => {
                    assert!(copy != original);
                    let lines = |page: &[u8]| -> HashSet<Vec<u8>> {
                        page.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
                    };
                    assert_eq!(lines(&copy).difference(&lines(&original)).count(), 1);
                }
                _ => continue,
            }
            seen[usize::from(place.kind == Kind::Print)] += 1;
        }
        assert!(seen[0] > 3 && seen[1] > 3, "{seen:?}");
    }

    #[test]
    fn press_pages_are_the_same_on_several_hosts() {
        let web = rough();
        let mut bodies: Vec<(Vec<u8>, u32)> = Vec::new();
        for host in 0..8 {
            let places = (0..web.graph().page_count(host)).map(|p| web.graph().place(host, p));
            let press = places.flatten().filter(|place| place.kind == Kind::Press);
            bodies.extend(press.map(|place| (page(&web, place), host)));
        }
        bodies.sort();
        let shared = bodies.windows(2).filter(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1);
        assert!(shared.count() > 10);
    }

    #[test]
    fn pasted_paragraphs_are_where_the_list_says() {
        let web = rough();
        let mut out = b"before".to_vec();
        let mut pasted = Vec::new();
        web.push_page(web.graph().root(3), &mut out, &mut pasted);
        assert!(!pasted.is_empty());
        for Pasted { start, paragraph } in pasted {
            assert!(out[6 + start..].starts_with(&web.text().paragraph(paragraph).html));
        }
    }
}

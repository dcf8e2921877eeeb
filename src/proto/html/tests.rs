//! Tests of the page reader on small pages, one rule each, and on hostile ones.

use super::*;
use crate::base::limits::{
    ANCHOR_TEXT_BYTES_MAX, ATTRIBUTE_BYTES_MAX, NAME_BYTES_MAX, PAGE_LINK_COUNT_MAX,
    TITLE_BYTES_MAX,
};
use crate::proto::url::Url;

fn read_chunks<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Page, String) {
    let mut text = Vec::new();
    let mut keep = |piece: &[u8]| text.extend_from_slice(piece);
    let mut reader = PageReader::new(Some("utf-8"));
    chunks.for_each(|chunk| reader.push(chunk, &mut keep));
    let page = reader.finish(&mut keep);
    (page, String::from_utf8_lossy(&text).into_owned())
}

/// Reads whole and byte by byte, without and with text, and checks that the results are the same.
fn read(html: &str) -> (Page, String) {
    let (page, text) = read_chunks(std::iter::once(html.as_bytes()));
    let (by_byte, by_byte_text) = read_chunks(html.as_bytes().chunks(1));
    let mut reader = PageReader::new(Some("utf-8"));
    reader.push(html.as_bytes(), &mut NoText);
    let without_text = reader.finish(&mut NoText);
    for other in [&by_byte, &without_text] {
        assert!(page.links().eq(other.links()), "{html}");
        assert_eq!(page.title(), other.title(), "{html}");
    }
    assert_eq!(text, by_byte_text, "{html}");
    (page, text)
}

fn hrefs(html: &str) -> Vec<String> {
    read(html).0.links().map(|link| link.href.to_owned()).collect()
}

/// Returns the visible text, its white space collapsed.
fn words(html: &str) -> String {
    read(html).1.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_kind_of_link_is_found_with_its_kind() {
    let (page, _) = read(
        "<link rel=next href=/l><meta http-equiv=Refresh content='5; url=/m'><a href=/a>x</a>\
         <map><area href=/r></map><iframe src=/i></iframe><frameset><frame src=/f></frameset>",
    );
    let links: Vec<_> = page.links().map(|link| (link.href, link.kind)).collect();
    let expected = [
        ("/l", LinkKind::Link),
        ("/m", LinkKind::Refresh),
        ("/a", LinkKind::Anchor),
        ("/r", LinkKind::Area),
        ("/i", LinkKind::Iframe),
        ("/f", LinkKind::Frame),
    ];
    assert_eq!(links, expected);
}

#[test]
fn hrefs_are_trimmed_decoded_and_the_first_of_two_counts() {
    assert_eq!(hrefs("<A HREF = '\n /a?b=1&amp;c=2&copy=3 ' href=/no>"), ["/a?b=1&c=2&copy=3"]);
    assert_eq!(hrefs("<a href>x<a href=>y<a name=z>"), ["", ""]);
    assert_eq!(hrefs("<a/href=/a/><a title='>' href=\"/b\"class=x>"), ["/a/", "/b"]);
}

#[test]
fn a_name_with_odd_bytes_in_it_is_another_name() {
    let behind = "<p>and enough behind it</p>";
    for name in ["a=", "a=b", "a\u{1}", "a\0", "a\u{1f}b", "a\u{e9}", "a<", "a\"b\""] {
        assert_eq!(hrefs(&format!("<{name} href=/no>{behind}")), [""; 0], "{name}");
        assert_eq!(
            words(&format!("<title>t</{name}>u</title>v{behind}")),
            "v and enough behind it"
        );
    }
    assert_eq!(hrefs(&format!("<a\x0chref=/yes>{behind}")), ["/yes"]);
}

#[test]
fn links_in_text_that_is_not_markup_are_none() {
    for html in [
        "<script>'<a href=/a>'</script>",
        "<script><!--<script></script><a href=/a>--></script>",
        "<style><a href=/a></style>",
        "<textarea><a href=/a></textarea>",
        "<title><a href=/a></title>",
        "<!-- <a href=/a> -->",
        "<!doctype '<a href=/a'>",
        "<noframes><a href=/a></noframes>",
        "<a href=/a",
        "<a title='<a href=/a>",
        "<plaintext><a href=/a>",
    ] {
        assert_eq!(hrefs(html), [""; 0], "{html}");
    }
    assert_eq!(hrefs("<script></scriptx></SCRIPT ><a href=/a>"), ["/a"]);
    assert_eq!(
        hrefs("<noscript><a href=/a></noscript><!--><a href=/b><!--x--!><a href=/c>").len(),
        3
    );
}

#[test]
fn foreign_content_has_no_raw_text_but_cdata() {
    assert_eq!(hrefs("<svg><title/><style/></svg><a href=/a>"), ["/a"]);
    assert_eq!(hrefs("<svg><![CDATA[<a href=/a>]]></svg><a href=/b>"), ["/b"]);
    assert_eq!(hrefs("<![CDATA[<a href=/a>]]><a href=/b>"), ["/b"]);
    assert_eq!(hrefs("<div><svg><path></div><script>'<a href=/a>'</script>"), [""; 0]);
    assert_eq!(
        hrefs("<svg><foreignObject><style><a href=/a></style></foreignObject></svg>").len(),
        0
    );
    let (page, text) = read("<svg><title>icon</title></svg><title>page</title>text");
    assert_eq!((page.title(), text.trim()), (Some("page"), "text"));
}

#[test]
fn rel_tells_nofollow_and_which_link_elements_lead_to_pages() {
    let (page, _) = read(
        "<a rel='external NoFollow' href=1></a><link rel=stylesheet href=2>\
         <link rel=alternate href=3>\
         <link rel='alternate stylesheet' href=4><link rel=canonical href=5><link href=6>",
    );
    let nofollow: Vec<_> = page.links().filter(Link::nofollow).map(|link| link.href).collect();
    let pages: Vec<_> = page.links().filter(Link::leads_to_page).map(|link| link.href).collect();
    assert_eq!(nofollow, ["1"]);
    assert_eq!(pages, ["1", "3", "5"]);
    assert_eq!(page.canonical(), Some("5"));
}

#[test]
fn the_first_base_holds_for_the_whole_page() {
    let (page, _) = read("<a href=x></a><base target=_top><base href=/dir/><base href=/no/>");
    assert_eq!(page.base(), Some("/dir/"));
    let url = Url::parse("http://a.example/p").expect("a URL");
    assert_eq!(page.base_url(&url).as_str(), "http://a.example/dir/");
    let (page, _) = read("<base href='javascript:1'>");
    assert_eq!(page.base_url(&url), url);
}

#[test]
fn anchor_text_is_collapsed_and_ends_with_its_anchor() {
    let (page, _) = read(
        "<a href=1> one <b>wo</b>rd\n<script>no</script></a> out \
         <a href=2>&lt;<p>x</p>y <a href=3>z",
    );
    let texts: Vec<_> = page.links().map(|link| link.text).collect();
    assert_eq!(texts, ["one word", "< x y", "z"]);
}

#[test]
fn robots_and_language_and_title_are_read() {
    let (page, _) = read(
        "<html lang=de-AT><meta http-equiv=content-language content=en>\
         <title> A &amp;\n B </title><title>no</title><meta name=Nephila content='noindex'>\
         <meta name=otherbot content=nofollow>",
    );
    assert_eq!(page.title(), Some("A & B"));
    assert_eq!(page.language(), Some("de-AT"));
    assert_eq!(page.robots, RobotsMeta { noindex: true, nofollow: false });
    let (page, _) = read("<meta http-equiv=content-language content=en>");
    assert_eq!(page.language(), Some("en"));
}

#[test]
fn robots_directives_of_all_metas_for_us_add_up() {
    let robots = |html: &str| {
        let (page, _) = read(html);
        (page.robots.noindex, page.robots.nofollow)
    };
    for (html, wanted) in [
        ("<meta name=robots content=none>", (true, true)),
        ("<META NAME=' Robots ' CONTENT='NOFOLLOW , NoArchive'>", (false, true)),
        ("<meta content=nofollow name=nephila>", (false, true)),
        ("<meta name=robots content=noindex><meta name=nephila content=nofollow>", (true, true)),
        ("<meta name=robots content=nofollow><meta name=robots content=all>", (false, true)),
        ("<meta name=googlebot content=none><meta name=nephilax content=none>", (false, false)),
        (
            "<meta name=robots content='unavailable_after: 25 Jun 2030 15:00:00 GMT'>",
            (false, false),
        ),
        ("<meta name=robots content='max-snippet:-1, nofollow'>", (false, true)),
        (
            "<meta name=robots><meta content=none><meta property=robots content=none>",
            (false, false),
        ),
        ("<body><p><meta name=robots content=nofollow>", (false, true)),
        (
            "<!--<meta name=robots content=none>--><title><meta name=robots content=none></title>",
            (false, false),
        ),
        ("<meta name=robots content='no&#102;ollow'>", (false, true)),
    ] {
        assert_eq!(robots(html), wanted, "{html}");
    }
}

#[test]
fn visible_text_is_what_a_reader_sees() {
    assert_eq!(words("<title>t</title><p>a<p>b <i>c</i>d<br>e&nbsp;&#102;"), "a b cd e\u{a0}f");
    assert_eq!(words("a<script>b</script><style>c</style><noscript>d</noscript>e"), "a e");
    assert_eq!(words("a<template>b<template>c</template>d</template>e<!-- f -->"), "a e");
    assert_eq!(words("1 < 2 && 3 </ x>&no; &notit;"), "1 < 2 && 3 &no; \u{ac}it;");
}

#[test]
fn malformed_utf8_in_links_is_replaced() {
    let mut reader = PageReader::new(Some("utf-8"));
    reader.push(b"<a href=/\xFF\xC3>\xE2\x82</a>", &mut NoText);
    let page = reader.finish(&mut NoText);
    let link = page.links().next().expect("a link");
    assert_eq!((link.href, link.text), ("/\u{fffd}\u{fffd}", ""));
    // Each text alone is malformed, though one behind the other they make a character.
    let mut reader = PageReader::new(Some("utf-8"));
    reader.push(b"<title>t\xC3\xA9</title><a href=/\xC3></a><a href=\xA9></a>", &mut NoText);
    let page = reader.finish(&mut NoText);
    let hrefs: Vec<_> = page.links().map(|link| link.href).collect();
    assert_eq!((page.title(), hrefs), (Some("t\u{e9}"), vec!["/\u{fffd}", "\u{fffd}"]));
}

#[test]
fn a_million_links_are_cut_at_the_limit_and_counted() {
    let (page, _) = read_chunks("<a href=/x>".repeat(1_000_000).as_bytes().chunks(16_384));
    assert_eq!((page.link_count(), page.link_over_count), (PAGE_LINK_COUNT_MAX, 0), "one link");
    let html: String = (0..1_000_000).map(|number| format!("<a href=/{number}>")).collect();
    let (page, _) = read_chunks(html.as_bytes().chunks(16_384));
    assert_eq!(page.link_count(), PAGE_LINK_COUNT_MAX);
    assert_eq!(page.link_over_count as usize, 1_000_000 - PAGE_LINK_COUNT_MAX);
}

#[test]
fn an_attribute_of_ten_megabytes_is_dropped_and_the_page_goes_on() {
    let long = "x".repeat(10_000_000);
    let html =
        format!("<a title={long} href={long}><a href='{long}'><p {long}=1 a='{long}'><a href=/y>");
    for chunk_bytes in [16_384, html.len()] {
        let mut tokenizer = PageReader::new(None);
        html.as_bytes().chunks(chunk_bytes).for_each(|chunk| tokenizer.push(chunk, &mut NoText));
        let page = tokenizer.finish(&mut NoText);
        assert_eq!(page.links().map(|link| link.href).collect::<Vec<_>>(), ["/y"]);
        assert_eq!(page.link_cut_count, 2);
    }
    let fits = "y".repeat(ATTRIBUTE_BYTES_MAX);
    assert_eq!(hrefs(&format!("<a href={fits}>")), [fits]);
}

#[test]
fn titles_and_anchor_texts_are_cut_between_characters() {
    let (page, _) = read(&format!("<title>{0}</title><a href=/>{0}</a>", "€".repeat(10_000)));
    assert_eq!(page.title().map(str::len), Some(TITLE_BYTES_MAX / 3 * 3));
    let text = page.links().next().map(|link| link.text.len());
    assert_eq!(text, Some(ANCHOR_TEXT_BYTES_MAX / 3 * 3));
}

#[test]
fn a_million_nested_elements_cost_nothing() {
    for tag in ["<div>", "<svg>", "<svg><foreignObject>", "<template>", "<math><mi>"] {
        let html = format!("{}<a href=/x>", tag.repeat(1_000_000));
        let (page, _) = read_chunks(html.as_bytes().chunks(16_384));
        assert_eq!(page.links().map(|link| link.href).collect::<Vec<_>>(), ["/x"], "{tag}");
    }
}

/// Pages that repeat one thing without end. Each was read in time linear in its length when the
/// test was written; with quadratic time, two megabytes would take hours.
const FLOODS: [(&str, &str); 24] = [
    ("", "<"),
    ("", "</"),
    ("", "<!"),
    ("", "<a "),
    ("", "&"),
    ("", "&#"),
    ("", "&#x1"),
    ("&#", "0"),
    ("", "&amp"),
    ("<p ", "a=b "),
    ("<p ", "a='b' c=\"d\" "),
    ("<p ", "\"'"),
    ("<p a=", "'"),
    ("<a ", "a=b "),
    ("<a ", "href='x"),
    ("<a ", "/"),
    ("<!--", "-"),
    ("<!--", "--!"),
    ("<script>", "</scrip"),
    ("<script><!--", "<script"),
    ("<title>", "</titl"),
    ("<textarea>", "&lt"),
    ("<svg><![CDATA[", "]"),
    ("<svg>", "<title><svg>"),
];

#[test]
fn floods_of_two_megabytes_are_read_in_one_go_and_in_few_bytes() {
    for (start, flood) in FLOODS {
        let page = format!("{start}{}", flood.repeat(2_000_000 / flood.len()));
        for chunk_bytes in [page.len(), 16_384] {
            let mut tokenizer = Tokenizer::new();
            let mut sink = WantsAll { text_bytes: 0, held_bytes: 0 };
            for chunk in page.as_bytes().chunks(chunk_bytes) {
                tokenizer.push(chunk, &mut sink);
                sink.held_bytes = sink.held_bytes.max(tokenizer.held_bytes());
            }
            tokenizer.finish(&mut sink);
            let held_bytes_max = 2 * (ATTRIBUTE_BYTES_MAX + 2 * NAME_BYTES_MAX + 64);
            assert!(sink.held_bytes <= held_bytes_max, "{start}{flood}: {}", sink.held_bytes);
            assert!(sink.text_bytes <= page.len(), "{start}{flood}");
        }
    }
}

struct WantsAll {
    text_bytes: usize,
    held_bytes: usize,
}

impl TokenSink for WantsAll {
    fn wants_text(&self) -> bool {
        true
    }

    fn text(&mut self, piece: &[u8]) {
        self.text_bytes += piece.len();
    }

    fn start_tag(&mut self, tag: Tag<'_>) -> bool {
        tag.name == TagName::A
    }

    fn attribute(&mut self, _name: &[u8], _value: Value<'_>) {}
    fn start_tag_end(&mut self, _self_closing: bool) {}
    fn end_tag(&mut self, _tag: Tag<'_>) {}
}

#[test]
fn an_endless_reference_stays_small_and_reads_right() {
    let zeros = "0".repeat(1_000_000);
    let html = format!("<p>&#{zeros}65;&#x{zeros}{zeros}41 &{zeros}");
    let (_, text) = read_chunks(html.as_bytes().chunks(1_000));
    assert!(text == format!("AA &{zeros}"));
}

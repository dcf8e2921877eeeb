use super::*;
use crate::base::limits::{SITEMAP_URL_COUNT_MAX, URL_BYTES_MAX};
use proptest::prelude::*;

type Owned = (String, String, Option<u16>);

/// Reads `bytes` in the pieces that end at `cuts`.
fn read_cut(bytes: &[u8], charset: Option<&str>, cuts: &[usize]) -> (Vec<Owned>, Summary) {
    let mut entries = Vec::new();
    let mut take = |entry: Entry<'_>| {
        entries.push((entry.loc.to_owned(), entry.lastmod.to_owned(), entry.priority_permille));
    };
    let mut reader = SitemapReader::new(charset);
    let mut start = 0;
    for &cut in cuts {
        let end = cut.clamp(start, bytes.len());
        reader.push(&bytes[start..end], &mut take);
        start = end;
    }
    reader.push(&bytes[start..], &mut take);
    let summary = reader.finish(&mut take);
    (entries, summary)
}

/// Reads `bytes` whole and byte by byte; both must give the same.
fn read(bytes: &[u8]) -> (Vec<Owned>, Summary) {
    let whole = read_cut(bytes, None, &[]);
    let cuts: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(whole, read_cut(bytes, None, &cuts), "byte by byte");
    whole
}

fn locs(text: &str) -> Vec<String> {
    read(text.as_bytes()).0.into_iter().map(|(loc, ..)| loc).collect()
}

fn summary(text: &str) -> Summary {
    read(text.as_bytes()).1
}

#[test]
fn rfc_a_urlset_gives_its_pages_with_date_and_priority() {
    let text = "<?xml version='1.0'?><!-- <url><loc>no</loc></url> --><urlset xmlns='x'>\
        <url><loc> http://a.test/?x=1&amp;y=&#50;&#x33; </loc>\
        <lastmod>2005-01-01</lastmod><priority>0.8</priority></url>\
        <url><loc><![CDATA[http://a.test/<&amp;]]]]><![CDATA[>]]></loc></url></urlset>";
    let (entries, summary) = read(text.as_bytes());
    let first = ("http://a.test/?x=1&y=23".to_owned(), "2005-01-01".to_owned(), Some(800));
    assert_eq!(entries, [first, ("http://a.test/<&amp;]]>".to_owned(), String::new(), None)]);
    assert_eq!((summary.form, summary.entry_count), (Some(Form::Urlset), 2));
    assert_eq!((summary.refused_count, summary.over_count), (0, 0));
}

#[test]
fn rfc_an_index_gives_its_sitemaps() {
    let text = "<sitemapindex><sitemap><loc>http://a.test/1.xml</loc></sitemap>\
        <sitemap><loc>http://a.test/2.xml</loc><lastmod>2005</lastmod></sitemap></sitemapindex>";
    assert_eq!(locs(text), ["http://a.test/1.xml", "http://a.test/2.xml"]);
    assert_eq!(summary(text).form, Some(Form::Index));
}

#[test]
fn lenient_an_address_straight_in_a_sitemap_element_is_taken() {
    let text = "<sitemapindex><sitemap>\n http://a.test/?p=1&amp;q\n</sitemap></sitemapindex>";
    assert_eq!(locs(text), ["http://a.test/?p=1&q"]);
    let both = "<sitemapindex><sitemap>x<loc>http://a.test/</loc>y</sitemap></sitemapindex>";
    assert_eq!(locs(both), ["http://a.test/"]);
}

#[test]
fn addresses_of_other_vocabularies_are_no_pages() {
    let text = "<urlset><url><image:image><image:loc>http://i.test/</image:loc></image:image>\
        <loc>http://a.test/</loc><video:player_loc>http://v.test/</video:player_loc></url>\
        </urlset>";
    assert_eq!(locs(text), ["http://a.test/"]);
    let prefixed = "<s:urlset><s:url><loc>no</loc><s:loc>http://a.test/</s:loc></s:url></s:urlset>";
    assert_eq!(locs(prefixed), ["http://a.test/"]);
}

#[test]
fn feeds_give_the_links_of_their_entries() {
    let rss = "<rss><channel><link>http://no.test/</link><atom:link href='http://no.test/'/>\
        <item><title>t</title><link>http://a.test/1</link></item>\
        <item><link><![CDATA[http://a.test/2?a&b]]></link></item></channel></rss>";
    assert_eq!(locs(rss), ["http://a.test/1", "http://a.test/2?a&b"]);
    let rdf =
        "<rdf:RDF><channel/><item rdf:about='x'><link>http://a.test/1</link></item></rdf:RDF>";
    assert_eq!(locs(rdf), ["http://a.test/1"]);
    let atom = "<feed><link href='http://no.test/'/><entry><link href=\"http://a.test/1&amp;x\"/>\
        <link rel='edit' href='http://no.test/'/><link rel='alternate' href='http://a.test/2'>\
        </link></entry></feed>";
    assert_eq!(locs(atom), ["http://a.test/1&x", "http://a.test/2"]);
}

#[test]
fn lines_give_their_urls_and_rubbish_gives_none() {
    let text = "\u{feff}\nhttp://a.test/1\r\n  HTTPS://a.test/2?a&b \n\nftp://a.test/\nnote";
    let (entries, summary) = read(text.as_bytes());
    let locs: Vec<&str> = entries.iter().map(|(loc, ..)| loc.as_str()).collect();
    assert_eq!(locs, ["http://a.test/1", "HTTPS://a.test/2?a&b"]);
    assert_eq!((summary.form, summary.refused_count), (Some(Form::Lines), 2));
    assert_eq!(read(b"%PDF-1.7\n\x00\xff\nstream\n").1.form, None);
    assert_eq!(read(b"").1, Summary::default());
}

#[test]
fn charsets_are_told_by_mark_then_header_then_declaration() {
    let text = "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\
        <urlset><url><loc>http://a.test/\u{e9}</loc></url></urlset>";
    let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
    assert_eq!(read(&latin).0[0].0, "http://a.test/\u{e9}");
    // The header wins over the declaration, and a mark over both.
    let cyrillic = read_cut(&latin, Some("windows-1251"), &[]).0;
    assert_eq!(cyrillic[0].0, "http://a.test/\u{439}");
    let utf16: Vec<u8> = std::iter::once('\u{feff}')
        .chain(text.chars())
        .flat_map(|c| (c as u16).to_le_bytes())
        .collect();
    assert_eq!(read(&utf16).0[0].0, "http://a.test/\u{e9}");
    assert_eq!(read_cut(&utf16, Some("windows-1251"), &[]).0[0].0, "http://a.test/\u{e9}");
    // Bytes that are not UTF-8 are replaced, not trusted.
    let broken = b"<urlset><url><loc>http://a.test/\xff</loc></url></urlset>";
    assert_eq!(read(broken).0[0].0, "http://a.test/\u{fffd}");
}

#[test]
fn a_billion_laughs_stay_one_and_the_rest_of_the_file_is_read() {
    let mut text = String::from("<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY lol0 \"lol\">");
    for n in 1..10 {
        let body = format!("&lol{};", n - 1).repeat(10);
        text.push_str(&format!("<!ENTITY lol{n} \"{body}\"> <!-- ]> don't -->"));
    }
    text.push_str("<!ENTITY x SYSTEM 'file:///etc/passwd'>]><urlset>");
    text.push_str("<url><loc>http://a.test/&lol9;</loc></url><url><loc>&x;</loc></url>");
    text.push_str("<url><loc>http://a.test/1</loc></url></urlset>");
    let (entries, summary) = read(text.as_bytes());
    assert_eq!(entries, [("http://a.test/1".to_owned(), String::new(), None)]);
    assert_eq!(summary.refused_count, 2);
}

#[test]
fn lenient_an_ampersand_that_begins_no_reference_is_one() {
    let text = "<urlset><url><loc>http://a.test/?a=1&b=2&c;&#xq;&amp</loc></url></urlset>";
    assert_eq!(summary(text).refused_count, 1, "`&c;` is an unknown entity");
    let text = "<urlset><url><loc>http://a.test/?a=1&b=2&amp</loc></url></urlset>";
    assert_eq!(locs(text), ["http://a.test/?a=1&b=2&amp"]);
}

#[test]
fn too_long_and_too_many_are_counted_and_dropped() {
    let long = "x".repeat(URL_BYTES_MAX);
    let escaped = "&amp;".repeat(URL_BYTES_MAX);
    let text = format!(
        "<urlset><url><loc>http://a.test/{long}</loc></url><url><loc>{escaped}</loc></url>\
         <url></url><url><loc>http://a.test/</loc></url></urlset>"
    );
    let (entries, summary) = read(text.as_bytes());
    assert_eq!((entries.len(), summary.refused_count), (1, 3));
    let many = "http://a.test/\n".repeat(SITEMAP_URL_COUNT_MAX + 7);
    let (entries, summary) = read_cut(many.as_bytes(), None, &[]);
    assert_eq!((entries.len(), summary.over_count), (SITEMAP_URL_COUNT_MAX, 7));
    let line = format!("http://a.test/{long}\nhttp://a.test/{}\n", &long[..200]);
    assert_eq!(read_cut(line.as_bytes(), None, &[5, 4_000, 4_100]).1.refused_count, 1);
}

#[test]
fn what_is_no_sitemap_gives_nothing() {
    for text in [
        "<!doctype html><html><body><url><loc>http://a.test/</loc></url></body></html>",
        "<urlset",
        "<urlset><url><loc>http://a.test/",
        "<",
        "<?xml",
        "<!",
        "<![CDATA[",
        "</",
        "<urlset a=\"<url><loc>http://a.test/</loc></url>",
        "<urlset></urlset></urlset>",
    ] {
        assert_eq!(locs(text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(summary("<html></html>").form, None);
}

#[test]
fn a_missing_end_tag_costs_one_entry() {
    let text = "<urlset><url><loc>http://a.test/1</url><url><loc>http://a.test/2</loc>\
        <url><loc>http://a.test/3</loc></url></urlset>";
    assert_eq!(locs(text), ["http://a.test/1", "http://a.test/3"]);
}

/// Makes pieces of XML in any order, which reach more of the tokenizer than random bytes do.
fn xml_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "<urlset>",
        "</urlset>",
        "<url>",
        "</url>",
        "<loc>",
        "</loc>",
        "<loc/>",
        "http://a.test/",
        "&amp;",
        "&lol;",
        "&#x41;",
        "&",
        ";",
        "<!--",
        "-->",
        "--",
        "<![CDATA[",
        "]]>",
        "]",
        "<?xml",
        "?>",
        "?",
        "<!DOCTYPE x [",
        "]>",
        "\"",
        "'",
        "=",
        "/",
        ">",
        "<",
        " ",
        "\n",
        "<feed>",
        "<entry>",
        "<link href='",
        "<sitemapindex>",
        "<sitemap>",
        "<rss>",
        "<item>",
        "<link>",
        "encoding='utf-16'",
        "\u{feff}",
        "\u{e9}",
        "<priority>0.5</priority>",
        "<lastmod>",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_cut_of_anything_like_xml_gives_the_same(
        bytes in xml_like(),
        mut cuts in prop::collection::vec(0..400usize, 0..12),
    ) {
        cuts.sort_unstable();
        prop_assert_eq!(read_cut(&bytes, None, &cuts), read_cut(&bytes, None, &[]));
    }

    #[test]
    fn no_bytes_panic_and_entries_are_never_empty_nor_long(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        cut in 0..600usize,
    ) {
        let (entries, _) = read_cut(&bytes, None, &[cut]);
        let sound = |loc: &str| !loc.is_empty() && loc.len() <= 3 * URL_BYTES_MAX;
        prop_assert!(entries.iter().all(|(loc, ..)| sound(loc)));
    }
}

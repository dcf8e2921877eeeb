use super::*;

fn ask(parser: Parser, question: Value) -> Value {
    answer(parser, question.to_string().as_bytes())
}

fn http(response: &[u8], eof: bool) -> Value {
    ask(Parser::Http, json!({"response_base64": BASE64.encode(response), "eof": eof}))
}

fn body(answer: &Value) -> Vec<u8> {
    BASE64.decode(answer["body_base64"].as_str().unwrap()).unwrap()
}

#[test]
fn a_url_is_resolved_normalised_and_placed() {
    let question = json!({"url": "../x?utm_source=a&b=%7e#f", "base": "HTTP://A.example:80/p/q"});
    let answer = ask(Parser::Url, question);
    assert_eq!(answer["url"], "http://a.example/x?utm_source=a&b=%7e");
    assert_eq!(answer["normal"], "http://a.example/x?b=~");
    assert_eq!(answer["host"], "a.example");
    assert!(answer["slot"].as_u64().unwrap() < crate::base::limits::SLOT_COUNT as u64);
    assert_eq!(answer["fingerprint"].as_str().unwrap().len(), 32);
    let same = ask(Parser::Url, json!({"url": "http://a.example/x?b=~"}));
    assert_eq!(same["fingerprint"], answer["fingerprint"]);
    assert_eq!(same["slot"], answer["slot"]);
    let found = ask(Parser::Url, json!({"url": "http://a.example/?y=2026&m=11"}));
    assert_eq!(found["normal"], "http://a.example/?y=2026&m=11");
    assert_eq!(found["compared"], "http://a.example/?m=11&y=2026");
    let same = ask(Parser::Url, json!({"url": "http://a.example/?m=11&y=2026"}));
    assert_eq!(same["fingerprint"], found["fingerprint"]);
}

#[test]
fn robots_rules_are_named_as_they_are_written() {
    let robots = "User-agent: nephila\nDisallow: /private/\nAllow: /private/open\n\
                  Crawl-delay: 2.5\nSitemap: https://a.example/s.xml\n";
    let about = |url: &str, agent: &str| {
        ask(Parser::Robots, json!({"robots": robots, "agent": agent, "url": url}))
    };
    let denied = about("http://a.example/private/x", "nephila/0.1 (+https://b.example/)");
    assert_eq!(denied["allowed"], false);
    assert_eq!(denied["rule"], "Disallow: /private/");
    assert_eq!(denied["crawl_delay_ms"], 2_500);
    assert_eq!(denied["sitemaps"], json!(["https://a.example/s.xml"]));
    assert_eq!(about("/private/open/x", "Nephila")["rule"], "Allow: /private/open");
    let other = about("http://a.example/private/x", "otherbot");
    assert_eq!((&other["allowed"], &other["rule"]), (&json!(true), &Value::Null));
}

#[test]
fn a_page_is_read_the_same_from_text_base64_and_file() {
    let html = "<html lang=de><title>T &amp; t</title><base href='/b/'>\
                <meta name=robots content='noindex'><link rel=canonical href=c>\
                <a href='x?a=1&amp;b=2' rel=nofollow>An <b>anchor</b></a> \
                <a href='mailto:a@b'>no</a><iframe src=//f.example/></iframe><p>Some text";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), html).unwrap();
    let base = "http://a.example/p";
    let one = ask(Parser::Html, json!({"html": html, "base": base}));
    let two = ask(Parser::Html, json!({"html_base64": BASE64.encode(html), "base": base}));
    let three = ask(Parser::Html, json!({"file": file.path(), "base": base}));
    assert_eq!(one, two);
    assert_eq!(one, three);
    assert_eq!(one, ask(Parser::HtmlLol, json!({"html": html, "base": base})));
    assert_eq!(one["title"], "T & t");
    assert_eq!(one["canonical"], "http://a.example/b/c");
    assert_eq!(one["robots"], "noindex");
    assert_eq!(one["language"], "de");
    assert_eq!(one["text"], "An anchor no Some text");
    assert_eq!(one["simhash"], Value::Null);
    let links = one["links"].as_array().unwrap();
    let of = |kind: &str| links.iter().find(|link| link["kind"] == kind).unwrap();
    assert_eq!(of("a")["url"], "http://a.example/b/x?a=1&b=2");
    assert_eq!((&of("a")["nofollow"], &of("a")["text"]), (&json!(true), &json!("An anchor")));
    assert_eq!(of("iframe")["url"], "http://f.example/");
    assert!(links.iter().all(|link| !link["url"].as_str().unwrap().contains("mailto")));
}

#[test]
fn a_long_page_has_a_simhash_in_hex() {
    let html = format!("<p>{}", "some words that differ not at all ".repeat(50));
    let answer = ask(Parser::Html, json!({"html": html, "base": "http://a.example/"}));
    let simhash = answer["simhash"].as_str().unwrap();
    assert!(simhash.len() == 16 && simhash.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn the_charset_of_the_header_counts() {
    let question = json!({
        "html_base64": BASE64.encode(b"<title>\xe4</title>"), "base": "http://a.example/",
        "content_type": "text/html; charset=iso-8859-1",
    });
    let answer = ask(Parser::Html, question);
    assert_eq!((&answer["title"], &answer["charset"]), (&json!("ä"), &json!("windows-1252")));
}

#[test]
fn a_response_by_length_is_complete_and_reusable() {
    let answer = http(b"HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nContent-Length: 2\r\n\r\nhi", false);
    assert_eq!(answer["status"], 200);
    assert_eq!(answer["headers"], json!([["A", "1"], ["A", "2"], ["Content-Length", "2"]]));
    assert_eq!(body(&answer), b"hi");
    assert_eq!((&answer["complete"], &answer["reusable"]), (&json!(true), &json!(true)));
    assert_eq!(answer["error"], Value::Null);
}

#[test]
fn chunks_are_joined_and_what_comes_behind_ends_the_connection() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let answer = http(chunked, false);
    assert_eq!(body(&answer), b"abc");
    assert_eq!((&answer["complete"], &answer["reusable"]), (&json!(true), &json!(true)));
    let forged = [&chunked[..], b"HTTP/1.1 200 OK\r\n\r\n"].concat();
    assert_eq!(http(&forged, false)["reusable"], false);
}

#[test]
fn a_cut_body_is_incomplete_and_a_broken_one_says_why() {
    let cut = http(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", true);
    assert_eq!((&cut["complete"], &cut["error"]), (&json!(false), &Value::Null));
    assert_eq!(body(&cut), b"half");
    let broken = http(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX", false);
    assert_eq!((&broken["status"], &broken["complete"]), (&json!(200), &json!(false)));
    assert!(broken["error"].is_string());
    let two = http(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", true);
    assert!(two["error"].is_string());
    let until_close = http(b"HTTP/1.1 200 OK\r\n\r\nall", true);
    assert_eq!((&until_close["complete"], &until_close["reusable"]), (&json!(true), &json!(false)));
}

#[test]
fn the_answer_to_head_has_no_body() {
    let response = BASE64.encode(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    let question = json!({"response_base64": response, "eof": false, "method": "HEAD"});
    let answer = ask(Parser::Http, question);
    assert_eq!((&answer["complete"], &answer["reusable"]), (&json!(true), &json!(true)));
}

#[test]
fn bad_lines_are_answered_in_their_place() {
    let input = "{\"url\": \"http://a.example/\"}\n\nnot json\n{\"base\": 1}\n[]\n\
                 {\"url\": \"/x\"}\n{\"url\": \"http://b.example/\"}";
    let mut output = Vec::new();
    run(Parser::Url, input.as_bytes(), &mut output).unwrap();
    let answers: Vec<Value> = std::str::from_utf8(&output)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 7);
    assert_eq!(answers[0]["url"], "http://a.example/");
    assert!(answers[1..6].iter().all(|answer| answer["error"].is_string()), "{answers:?}");
    assert_eq!(answers[6]["url"], "http://b.example/");
}

#[test]
fn no_question_makes_a_parser_panic() {
    for parser in [Parser::Url, Parser::Robots, Parser::Html, Parser::HtmlLol, Parser::Http] {
        for line in ["{}", "null", "\"", "{\"html\":\"\",\"base\":\"http://a.example\"}", "\u{0}"] {
            let _ = answer(parser, line.as_bytes());
        }
        assert!(answer(parser, b"\xff").get("error").is_some());
    }
    let both = json!({"html": "", "file": "x", "base": "http://a.example/"});
    assert!(ask(Parser::Html, both)["error"].is_string());
    assert!(ask(Parser::Http, json!({"response_base64": "*"}))["error"].is_string());
}

#[test]
fn a_sitemap_is_read_with_what_it_may_list() {
    let text = "<urlset><url><loc>http://a.example/x?a&amp;b</loc><priority>0.5</priority></url>\
        <url><loc>http://b.example/</loc><lastmod>2026-01-02</lastmod></url>\
        <url><loc>&file;</loc></url></urlset>";
    let url = "http://a.example/sitemap.xml";
    let own = ask(Parser::Sitemap, json!({"sitemap": text, "url": url}));
    assert_eq!((&own["form"], &own["refused"]), (&json!("urlset"), &json!(1)));
    let first = json!({
        "url": "http://a.example/x?a&b", "allowed": true, "lastmod": null, "priority": 0.5
    });
    assert_eq!(own["entries"][0], first);
    assert_eq!(own["entries"][1]["allowed"], false);
    let question = json!({
        "sitemap_base64": BASE64.encode(text), "url": url, "submitter": "b.example"
    });
    let other = ask(Parser::Sitemap, question);
    assert_eq!(other["entries"][1]["allowed"], true);
    assert_eq!(other["entries"][1]["lastmod"], "2026-01-02");
    let both = ask(Parser::Sitemap, json!({"sitemap": text, "file": "x", "url": url}));
    assert!(both["error"].as_str().unwrap().contains("`sitemap_base64`"), "{both}");
}

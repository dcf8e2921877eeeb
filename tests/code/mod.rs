//! Rust source without comments and without the contents of literals.

/// Returns `text` with comments and the insides of string and character literals replaced by
/// blanks. Line breaks stay, so that lines keep their numbers.
pub fn without_comments_and_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let skipped_len = skipped(rest, out.chars().next_back());
        if skipped_len == 0 {
            out.push(char);
            rest = &rest[char.len_utf8()..];
        } else {
            let blank = |char| if char == '\n' { '\n' } else { ' ' };
            out.extend(rest[..skipped_len].chars().map(blank));
            rest = &rest[skipped_len..];
        }
    }
    out
}

/// Returns the length of the comment or literal that `rest` starts with, or 0.
fn skipped(rest: &str, before: Option<char>) -> usize {
    let inside_word = before.is_some_and(|char| char.is_alphanumeric() || char == '_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_len(rest);
    }
    if rest.starts_with('"') {
        return quoted_len(rest);
    }
    if rest.starts_with('\'') {
        return character_len(rest);
    }
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'));
    match raw {
        Some(raw) if !inside_word => match raw_text_len(raw) {
            0 => 0,
            len => rest.len() - raw.len() + len,
        },
        _ => 0,
    }
}

fn block_comment_len(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A lifetime is not a literal: `'a` has no quote after one character.
fn character_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => match text[3.min(text.len())..].find('\'') {
            Some(at) => at + 4,
            None => 0,
        },
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

/// Matches `#"..."#` with any number of hashes, after its `r`.
fn raw_text_len(text: &str) -> usize {
    let hashes = text.len() - text.trim_start_matches('#').len();
    if !text[hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let start = hashes + 1;
    text[start..].find(&end).map_or(text.len(), |at| start + at + end.len())
}

#[test]
fn comments_and_texts_are_blanked_and_code_stays() {
    let blanked = |text: &str| {
        let out = without_comments_and_texts(text);
        assert_eq!(out.lines().count(), text.lines().count());
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(blanked("a // b\nc"), "a c");
    assert_eq!(blanked("a /* b /* c */ d\n */ e"), "a e");
    assert_eq!(blanked(r#"a "b \" // c" d"#), "a d");
    assert_eq!(blanked("a r#\"b \" c\"# d br\"e\" f"), "a d f");
    assert_eq!(blanked("a '\"' b '\\'' c '\\u{1}' d"), "a b c d");
    assert_eq!(blanked("fn f<'a>(x: &'a str) {} // \""), "fn f<'a>(x: &'a str) {}");
    assert_eq!(blanked("for r in var\"x\" {}"), "for r in var {}");
}

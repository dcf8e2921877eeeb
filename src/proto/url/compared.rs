//! The form in which URLs are compared: the normal form with its query parameters sorted by key.
//!
//! A URL is asked for, stored and logged with its parameters in the order in which it was found: a
//! server may read them in turn, and an archive must show what was asked. Still, `?y=2026&m=11` and
//! `?m=11&y=2026` are one page on nearly every server. So the [`super::Fingerprint`], by which URLs
//! are known, is of this form, and the first spelling that is found wins. Parameters of one key
//! keep their order (`a[]=1&a[]=2` is a list).
//!
//! Text goes in, text comes out. Hardly any URL has parameters out of order; all others are
//! borrowed, not copied. Any core may use it.

use super::params::{key, params};
use crate::sys::scan;
use std::borrow::Cow;

/// Returns the compared form of a URL whose text is `text` and whose path begins at `path_start`.
#[inline]
pub(super) fn compared(text: &str, path_start: usize) -> Cow<'_, str> {
    let question = scan::find_byte(text.as_bytes(), path_start, b'?');
    if question == text.len() {
        return Cow::Borrowed(text);
    }
    with_sorted_query(text, question + 1)
}

fn with_sorted_query(text: &str, query_start: usize) -> Cow<'_, str> {
    let (before, query) = text.split_at(query_start);
    if params(query).is_sorted_by_key(key) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    out.push_str(before);
    let (mut few, mut few_count) = ([""; PARAM_COUNT_FEW], 0);
    let mut all = params(query);
    for (place, param) in few.iter_mut().zip(all.by_ref()) {
        *place = param;
        few_count += 1;
    }
    let mut many: Vec<&str> = all.collect();
    if many.is_empty() {
        append_sorted(&mut few[..few_count], &mut out);
    } else {
        many.splice(..0, few);
        append_sorted(&mut many, &mut out);
    }
    Cow::Owned(out)
}

/// Up to this number, parameters are sorted without an allocation.
const PARAM_COUNT_FEW: usize = 16;

fn append_sorted(params: &mut [&str], out: &mut String) {
    params.sort_by_key(|param| key(param));
    for (index, param) in params.iter().enumerate() {
        if index > 0 {
            out.push('&');
        }
        out.push_str(param);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use crate::proto::url::tests::url_text;
    use crate::proto::url::{Normaliser, Url};
    use proptest::prelude::*;

    fn form(text: &str) -> String {
        Url::parse(text).expect(text).compared().into_owned()
    }

    #[test]
    fn parameters_are_sorted_by_key_and_equal_keys_keep_their_order() {
        assert_eq!(form("http://a/?y=2026&m=11"), "http://a/?m=11&y=2026");
        assert_eq!(form("http://a/b?b=2&a=2&a&a=1"), "http://a/b?a=2&a&a=1&b=2");
        for text in
            ["http://a/", "http://a/?", "http://a/?z=1", "http://a/?a=1&b", "http://a/?a=b?c"]
        {
            let url = Url::parse(text).expect(text);
            assert!(matches!(url.compared(), Cow::Borrowed(form) if form == text), "{text}");
        }
    }

    #[test]
    fn any_number_of_parameters_is_sorted() {
        for count in [1, 2, PARAM_COUNT_FEW - 1, PARAM_COUNT_FEW, PARAM_COUNT_FEW + 1, 60] {
            let params = |order: &mut dyn Iterator<Item = usize>| {
                order.map(|number| format!("p{number:02}=x")).collect::<Vec<_>>().join("&")
            };
            let (sorted, reversed) = (params(&mut (0..count)), params(&mut (0..count).rev()));
            assert_eq!(form(&format!("http://a/?{reversed}")), format!("http://a/?{sorted}"));
        }
    }

    #[test]
    fn orders_of_one_query_are_known_by_one_fingerprint_and_asked_for_as_they_are() {
        let normaliser = Normaliser::new(&[]);
        let found = |text: &str| normaliser.normalise(Url::parse(text).expect(text));
        let (one, other) = (found("http://a/?y=2026&m=11"), found("http://a/?m=11&y=2026#top"));
        assert_eq!(one.path_and_query(), "/?y=2026&m=11");
        assert_eq!(other.path_and_query(), "/?m=11&y=2026");
        assert_eq!(one.id(&test_key()), other.id(&test_key()));
        assert_ne!(one.id(&test_key()), found("http://a/?y=11&m=2026").id(&test_key()));
    }

    proptest! {
        #[test]
        fn the_form_is_that_of_a_stable_sort_and_its_own_form(text in url_text()) {
            let Ok(url) = Url::parse(&text) else { return Ok(()) };
            let form = url.compared().into_owned();
            let expected = match url.as_str().split_once('?') {
                None => url.to_string(),
                Some((before, query)) => {
                    let mut params: Vec<&str> = query.split('&').collect();
                    params.sort_by_key(|param| param.split('=').next().unwrap_or("").as_bytes());
                    format!("{before}?{}", params.join("&"))
                }
            };
            prop_assert_eq!(&form, &expected);
            let again = Url::parse(&form).expect("the compared form is a URL");
            prop_assert_eq!(again.compared(), &*form);
            prop_assert_eq!(again.id(&test_key()), url.id(&test_key()));
        }
    }
}

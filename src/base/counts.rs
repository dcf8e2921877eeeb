//! Counts in the form in which people read them: grouped digits, and the noun that fits the number.
//!
//! Numbers flow in, text flows out. Messages of all modules are made with these functions.

/// Writes `1234567` as `1,234,567`.
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number and its noun: `one` for one, `many` for any other number. Every message that
/// counts things uses it, so that none says `1 URLs`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", count_text(count), noun(count, one, many))
}

/// Returns the noun alone, for tables in which the number has a column of its own.
pub fn noun<'t>(count: u64, one: &'t str, many: &'t str) -> &'t str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count_text(count), text);
        }
        assert_eq!(count_text(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn one_thing_has_the_singular_and_any_other_number_the_plural() {
        for (count, text) in [(0, "0 entries"), (1, "1 entry"), (1_001, "1,001 entries")] {
            assert_eq!(counted(count, "entry", "entries"), text);
        }
    }
}

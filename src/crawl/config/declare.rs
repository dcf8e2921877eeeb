//! The macro by which every setting is declared once, and the code that it generates.

use super::ConfigError;

/// One setting, described for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    /// Empty if the setting has no unit.
    pub unit: &'static str,
    pub default: String,
    pub allowed: String,
    pub why: &'static str,
}

/// Takes `name: type = default, allowed, "unit", "why";` for each setting. Generates the struct,
/// its defaults, the reading by key, the check of every value, the list of names and the
/// descriptions for operators.
macro_rules! settings {
    ($(#[$about:meta])* $settings:ident {
        $($name:ident: $kind:ty = $default:expr, $allowed:expr, $unit:literal, $why:literal;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $settings { $(#[doc = $why] pub $name: $kind,)* }

        impl Default for $settings {
            fn default() -> $settings {
                $settings { $($name: $default,)* }
            }
        }

        impl $settings {
            /// The names of all settings, in the order of declaration.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// Sets the setting called `key`. Fails if there is no such setting, or if `value` is
            /// not allowed for it.
            pub fn set(&mut self, key: &str, value: &toml::Value) -> Result<(), ConfigError> {
                match key {
                    $(stringify!($name) => {
                        let allowed = $allowed;
                        assign(&mut self.$name, stringify!($name), value, &allowed)
                    })*
                    _ => Err(ConfigError::unknown(key, $settings::NAMES)),
                }
            }

            /// Describes each setting for the operator, in the order of declaration.
            pub fn describe() -> Vec<Setting> {
                let defaults = $settings::default();
                vec![$(Setting {
                    name: stringify!($name),
                    unit: $unit,
                    default: defaults.$name.show(),
                    allowed: <$kind as Value>::describe(&$allowed),
                    why: $why,
                },)*]
            }

            /// Returns every setting and its value as a configuration file, which reads back as
            /// equal settings.
            pub fn to_toml(&self) -> String {
                let lines = [$(format!("{} = {}\n", stringify!($name), self.$name.show()),)*];
                lines.concat()
            }

            fn check_each(&self) -> Result<(), ConfigError> {
                $(check(&self.$name, stringify!($name), &$allowed)?;)*
                Ok(())
            }
        }
    };
}

impl ConfigError {
    pub(super) fn unknown(key: &str, names: &[&'static str]) -> ConfigError {
        ConfigError::UnknownKey { key: key.to_owned(), closest: closest(key, names) }
    }
}

/// Returns the name that `key` was probably meant to be: the nearest, if at least a third of it is
/// right.
fn closest(key: &str, names: &[&'static str]) -> Option<&'static str> {
    // Names with typing errors are short, so the key is cut: the time grows with the square of its
    // length.
    let key: Vec<u8> = key.bytes().take(64).collect();
    let nearest = names.iter().min_by_key(|name| distance(&key, name.as_bytes()))?;
    (distance(&key, nearest.as_bytes()) * 3 <= nearest.len() * 2).then_some(*nearest)
}

/// Returns the Levenshtein distance: how many insertions, deletions and replacements lead from one
/// text to the other.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

pub(super) use settings;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(distance(b"delay", b"delay"), 0);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }

    #[test]
    fn a_slip_has_a_closest_name_and_nonsense_has_none() {
        let names = &["delay_ms", "max_pages"];
        assert_eq!(closest("delay", names), Some("delay_ms"));
        assert_eq!(closest("maxpages", names), Some("max_pages"));
        assert_eq!(closest("qqqqqqqqqqqqqqq", names), None);
    }
}

//! The kinds of values that a setting may have: how each is read from TOML, checked and shown.

use super::ConfigError;
use crate::base::limits::{SETTING_LIST_COUNT_MAX, SETTING_TEXT_BYTES_MAX};
use crate::proto::http::Coding;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A type that a setting may have. `Allowed` is the type of the constraint that a setting declares
/// beside its default.
pub trait Value: Sized {
    type Allowed;

    /// Reads a TOML value. Returns `None` if it is of another type or does not parse.
    fn read(value: &toml::Value) -> Option<Self>;

    fn is_allowed(&self, allowed: &Self::Allowed) -> bool;

    /// Returns the value as it would stand in a configuration file.
    fn show(&self) -> String;

    /// Describes, for operators, which values are allowed.
    fn describe(allowed: &Self::Allowed) -> String;
}

/// The constraint of types whose every value is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Any;

/// What a text is for, which decides the characters that it may have.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// The contact in the User-Agent: no space, no parenthesis, nothing that ends a header line.
    Contact,
    /// The name of a query parameter.
    Parameter,
    /// A list of content codings that we can decode, separated by commas.
    Codings,
}

/// Reads `value`, checks it and stores it in `place`.
pub(super) fn assign<V: Value>(
    place: &mut V,
    key: &'static str,
    value: &toml::Value,
    allowed: &V::Allowed,
) -> Result<(), ConfigError> {
    match V::read(value) {
        Some(read) if read.is_allowed(allowed) => {
            *place = read;
            Ok(())
        }
        _ => Err(bad_value::<V>(key, value.to_string(), allowed)),
    }
}

/// Checks a value that was not read from TOML: a flag, or a value set by code.
pub(super) fn check<V: Value>(
    value: &V,
    key: &'static str,
    allowed: &V::Allowed,
) -> Result<(), ConfigError> {
    if value.is_allowed(allowed) { Ok(()) } else { Err(bad_value::<V>(key, value.show(), allowed)) }
}

fn bad_value<V: Value>(key: &'static str, value: String, allowed: &V::Allowed) -> ConfigError {
    ConfigError::BadValue { key, value, allowed: V::describe(allowed) }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            type Allowed = RangeInclusive<$number>;

            fn read(value: &toml::Value) -> Option<Self> {
                <$number>::try_from(value.as_integer()?).ok()
            }

            fn is_allowed(&self, allowed: &Self::Allowed) -> bool {
                allowed.contains(self)
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn describe(allowed: &Self::Allowed) -> String {
                format!("a whole number from {} to {}", allowed.start(), allowed.end())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, usize);

impl Value for bool {
    type Allowed = Any;

    fn read(value: &toml::Value) -> Option<Self> {
        value.as_bool()
    }

    fn is_allowed(&self, Any: &Any) -> bool {
        true
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn describe(Any: &Any) -> String {
        "true or false".into()
    }
}

impl Value for String {
    type Allowed = Text;

    fn read(value: &toml::Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }

    fn is_allowed(&self, allowed: &Text) -> bool {
        if let Text::Codings = allowed {
            return are_codings(self);
        }
        let plain = self.bytes().all(|b| b.is_ascii_graphic() && !b"()<>\"\\".contains(&b));
        let shape = match allowed {
            // An empty contact means none. The engine asks for one before it crawls public hosts.
            Text::Contact => self.is_empty() || self.contains("://") || self.contains('@'),
            Text::Parameter => !self.is_empty() && !self.contains(['=', '&', '#']),
            Text::Codings => true,
        };
        plain && shape && self.len() <= SETTING_TEXT_BYTES_MAX
    }

    fn show(&self) -> String {
        toml::Value::String(self.clone()).to_string()
    }

    fn describe(allowed: &Text) -> String {
        match allowed {
            Text::Contact => format!(
                "a URL or an e-mail address: up to {SETTING_TEXT_BYTES_MAX} characters of \
                 ASCII, no spaces, quotes, backslashes, parentheses or angle brackets"
            ),
            Text::Parameter => "the names of query parameters".into(),
            Text::Codings => format!(
                "content codings that can be decoded, each once, like \"gzip, br\", of {}; or \
                 \"\" for none",
                Coding::NAMES.join(", ")
            ),
        }
    }
}

/// Reports whether `list` is empty or names known content codings, each at most once: `gzip, br`.
fn are_codings(list: &str) -> bool {
    let names: Vec<&str> = list.split(',').map(|name| name.trim_matches(' ')).collect();
    let is_known = |name: &&str| Coding::NAMES.contains(name);
    let is_first = |index: usize| !names[..index].contains(&names[index]);
    list.is_empty() || names.iter().all(is_known) && (0..names.len()).all(is_first)
}

impl Value for Option<PathBuf> {
    type Allowed = Any;

    fn read(value: &toml::Value) -> Option<Self> {
        value.as_str().map(|path| (!path.is_empty()).then(|| PathBuf::from(path)))
    }

    fn is_allowed(&self, Any: &Any) -> bool {
        self.as_ref().is_none_or(|path| path.as_os_str().len() <= SETTING_TEXT_BYTES_MAX)
    }

    fn show(&self) -> String {
        let path = self.as_ref().map(|path| path.to_string_lossy().into_owned());
        path.unwrap_or_default().show()
    }

    fn describe(Any: &Any) -> String {
        format!("a path of up to {SETTING_TEXT_BYTES_MAX} bytes, or \"\" for none")
    }
}

/// The address of a DNS resolver. The port may be left out and is then 53.
impl Value for SocketAddr {
    type Allowed = Any;

    fn read(value: &toml::Value) -> Option<Self> {
        let text = value.as_str()?;
        let bare = || text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 53));
        text.parse().ok().or_else(bare)
    }

    fn is_allowed(&self, Any: &Any) -> bool {
        self.port() != 0 && !self.ip().is_unspecified() && !self.ip().is_multicast()
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }

    fn describe(Any: &Any) -> String {
        "IP:PORT".into()
    }
}

impl<V: Value> Value for Vec<V> {
    type Allowed = V::Allowed;

    fn read(value: &toml::Value) -> Option<Self> {
        value.as_array()?.iter().map(V::read).collect()
    }

    fn is_allowed(&self, allowed: &V::Allowed) -> bool {
        self.len() <= SETTING_LIST_COUNT_MAX && self.iter().all(|one| one.is_allowed(allowed))
    }

    fn show(&self) -> String {
        let shown: Vec<String> = self.iter().map(V::show).collect();
        format!("[{}]", shown.join(", "))
    }

    fn describe(allowed: &V::Allowed) -> String {
        format!("a list of up to {SETTING_LIST_COUNT_MAX} items, each {}", V::describe(allowed))
    }
}

/// Declares an enum that is written as one of a few words.
macro_rules! choice {
    ($(#[$about:meta])* $choice:ident { $($(#[$doc:meta])* $member:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice { $($(#[$doc])* $member,)* }

        impl $choice {
            pub fn word(self) -> &'static str {
                match self { $($choice::$member => $word,)* }
            }
        }

        impl Value for $choice {
            type Allowed = Any;

            fn read(value: &toml::Value) -> Option<Self> {
                match value.as_str()? {
                    $($word => Some($choice::$member),)*
                    _ => None,
                }
            }

            fn is_allowed(&self, Any: &Any) -> bool {
                true
            }

            fn show(&self) -> String {
                format!("\"{}\"", self.word())
            }

            fn describe(Any: &Any) -> String {
                [$(concat!("\"", $word, "\""),)*].join(" or ")
            }
        }
    };
}

choice! {
    /// Which parser finds the links of a page.
    Extractor {
        /// The streaming tokenizer of this crate.
        Own = "own",
        /// The lol_html crate. It is slower and comes from other authors, and serves for
        /// comparison.
        Lol = "lol",
    }
}

choice! {
    /// How far from the seeds links are followed.
    Stay {
        /// Links are followed anywhere.
        Web = "web",
        /// Links are followed on the registrable domains of the seeds, with all their hosts.
        Domain = "domain",
        /// Links are followed on the hosts of the seeds only.
        Host = "host",
    }
}

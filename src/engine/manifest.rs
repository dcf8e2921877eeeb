//! `MANIFEST.json`: what a data directory is, and which settings its crawl runs with.
//!
//! The file is written aside and renamed, so it is complete or as it was before. A checksum over
//! all of it reveals a flipped bit or an edit by hand. A repair replaces it with the copy in
//! `state/`: the state is useless without the secret in the manifest.

use super::DirectoryError;
use crate::base::limits::{self, HOME_SHOWN_COUNT_MAX, MANIFEST_BYTES_MAX, SHARD_COUNT_MAX};
use crate::crawl::config::{Settings, Stay};
use crate::engine::report::count_text;
use crate::shard::Past;
use crate::sys::process::entropy_u64;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The version of the layout and meaning of the files. Another version is refused.
const FORMAT_VERSION: u64 = 5;
const NAME: &str = "MANIFEST.json";
/// The copy, which is written after the manifest and read only by a repair.
const COPY: &str = "state/MANIFEST.json";
const DAMAGED: &str = "it is damaged, or was changed by hand. `nephila repair DIR` says whether \
                       its copy is sound, and puts it back with --apply";
/// Settings that decide what the state means. With another value the state would be wrong.
const BINDING: [&str; 2] = ["extra_parameters", "stay"];
/// Settings that hold for one run of the process, and not for the whole crawl.
const PASSING: [&str; 3] = ["max_pages", "max_seconds", "cores"];

/// The description of a crawl in its data directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub past: Past,
    /// The secret of [`crate::base::HashKey`], drawn when the crawl begins. Without it nothing in
    /// the directory can be found again. Whoever knows it can hide hosts and URLs from the crawl.
    pub hash_secret: u128,
    pub settings: Settings,
    /// The hosts or registrable domains of all seeds so far, if `stay` keeps the crawl to them.
    pub homes: BTreeSet<Box<str>>,
    /// The shortest delay of any run. The whole crawl is judged by it.
    pub delay_ms_least: u64,
    /// The longest IPv6 prefix that any run has paced by, kept for the same reason.
    pub ipv6_pace_prefix_most: u8,
}

impl Manifest {
    pub fn new(settings: &Settings, shard_count: u16, homes: BTreeSet<Box<str>>) -> Manifest {
        Manifest {
            past: Past { generation: 1, shard_count },
            hash_secret: u128::from(entropy_u64()) << 64 | u128::from(entropy_u64()),
            settings: settings.clone(),
            homes,
            delay_ms_least: settings.delay_ms,
            ipv6_pace_prefix_most: settings.ipv6_pace_prefix,
        }
    }

    pub fn is_in(directory: &Path) -> bool {
        directory.join(NAME).symlink_metadata().is_ok()
    }

    /// Reports whether there is a copy of a manifest, and so a crawl that may have lost the
    /// manifest itself.
    pub fn has_copy(directory: &Path) -> bool {
        directory.join(COPY).symlink_metadata().is_ok()
    }

    pub fn load(directory: &Path) -> Result<Manifest, DirectoryError> {
        Manifest::load_as(directory, NAME)
    }

    /// Loads the copy, which is the manifest as it was when it was last completely written.
    pub fn load_copy(directory: &Path) -> Result<Manifest, DirectoryError> {
        Manifest::load_as(directory, COPY)
    }

    fn load_as(directory: &Path, name: &str) -> Result<Manifest, DirectoryError> {
        let path = directory.join(name);
        let failed = |error| DirectoryError::Io { doing: "read", path: path.clone(), error };
        let mut options = std::fs::OpenOptions::new();
        // A symbolic link would lead out of the directory.
        let file = options.read(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = match file {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let directory = directory.to_owned();
                return Err(match name == NAME && Manifest::has_copy(&directory) {
                    true => DirectoryError::ManifestGone(directory),
                    false => DirectoryError::NoCrawl(directory),
                });
            }
            file => file.map_err(failed)?,
        };
        let mut text = String::new();
        match file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(DirectoryError::Manifest { path, what: DAMAGED.into() });
            }
            read => read.map_err(failed)?,
        };
        Manifest::read(&text).map_err(|what| DirectoryError::Manifest { path: path.clone(), what })
    }

    fn read(text: &str) -> Result<Manifest, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("{error}: {DAMAGED}"))?;
        let told = value["checksum"].as_str();
        if told.is_some_and(|told| told != checksum(&value)) {
            return Err(DAMAGED.into());
        }
        let format = value["format"].as_u64().ok_or("it names no format")?;
        if format != FORMAT_VERSION {
            return Err(format!(
                "the crawl has format {format} (nephila {}), and this nephila ({}) reads format \
                 {FORMAT_VERSION}; go on with the version that began it",
                value["version"].as_str().unwrap_or("?"),
                env!("CARGO_PKG_VERSION"),
            ));
        }
        if told.is_none() {
            return Err(format!("it has no checksum: {DAMAGED}"));
        }
        let secret = value["hash_secret"].as_str().filter(|secret| secret.len() == 32);
        let secret = secret.and_then(|secret| u128::from_str_radix(secret, 16).ok());
        let hash_secret = secret.ok_or("it has no hash_secret of 32 hexadecimal digits")?;
        let number = |key: &str| value[key].as_u64().ok_or(format!("it names no {key}"));
        if number("slots")? != limits::SLOT_COUNT as u64 {
            return Err(format!(
                "its hosts fall into {} slots, and this nephila uses {}",
                number("slots")?,
                limits::SLOT_COUNT
            ));
        }
        let shard_count = u16::try_from(number("shards")?).unwrap_or(0);
        if shard_count == 0 || usize::from(shard_count) > SHARD_COUNT_MAX {
            return Err("it has no usable number of shards".into());
        }
        let settings = value["settings"].as_str().ok_or("it has no settings")?;
        let settings = Settings::from_toml(settings).map_err(|error| error.to_string())?;
        let homes = value["homes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // A crawl that began before this setting existed paced each address by itself.
        let ipv6_pace_prefix_most = value["ipv6_pace_prefix_most"].as_u64().unwrap_or(128);
        let generation = u32::try_from(number("generation")?).unwrap_or(0).max(1);
        Ok(Manifest {
            past: Past { generation, shard_count },
            hash_secret,
            homes: homes.map(Box::from).collect(),
            delay_ms_least: number("delay_ms_least")?,
            ipv6_pace_prefix_most: u8::try_from(ipv6_pace_prefix_most).unwrap_or(128),
            settings,
        })
    }

    pub fn save(&self, directory: &Path) -> Result<(), DirectoryError> {
        let mut value = json!({
            "format": FORMAT_VERSION,
            "version": env!("CARGO_PKG_VERSION"),
            "slots": limits::SLOT_COUNT,
            "shards": self.past.shard_count,
            "generation": self.past.generation,
            "hash_secret": format!("{:032x}", self.hash_secret),
            // The product name in robots.txt and the settings: a crawl is judged by these.
            "product": env!("CARGO_PKG_NAME"),
            "settings": self.settings.to_toml(),
            "delay_ms_least": self.delay_ms_least,
            "ipv6_pace_prefix_most": self.ipv6_pace_prefix_most,
            "homes": self.homes,
        });
        value["checksum"] = checksum(&value).into();
        let text = format!("{value:#}\n");
        write_whole(directory, NAME, &text)?;
        let state = directory.join("state");
        let made = std::fs::create_dir_all(&state);
        made.map_err(|error| DirectoryError::Io { doing: "make", path: state, error })?;
        write_whole(directory, COPY, &text)
    }

    /// Adopts other settings. Returns what has changed, for the operator. Refuses a change after
    /// which the state would be wrong.
    pub fn adopt(&mut self, settings: &Settings) -> Result<Vec<String>, DirectoryError> {
        let (before, after) = (self.settings.to_toml(), settings.to_toml());
        let mut changes = Vec::new();
        for (was, now) in before.lines().zip(after.lines()).filter(|(was, now)| was != now) {
            let name = was.split(' ').next().unwrap_or_default();
            if BINDING.contains(&name) {
                let (was, now) = (was.to_owned(), now.to_owned());
                return Err(DirectoryError::Changed { was, now });
            }
            if !PASSING.contains(&name) {
                let value = now.split_once(" = ").map_or(now, |(_, value)| value);
                changes.push(format!("{was} -> {value}"));
            }
        }
        if !settings.journal {
            let (was, now) = ("journal = true".to_owned(), "journal = false".to_owned());
            return Err(DirectoryError::Changed { was, now });
        }
        self.settings = settings.clone();
        self.delay_ms_least = self.delay_ms_least.min(settings.delay_ms);
        self.ipv6_pace_prefix_most = self.ipv6_pace_prefix_most.max(settings.ipv6_pace_prefix);
        Ok(changes)
    }

    /// Returns the settings to go on with, before those of the command line: the settings of the
    /// crawl, except those that held for one run.
    pub fn lasting_settings(&self) -> Settings {
        let fresh = Settings::default();
        Settings {
            max_pages: fresh.max_pages,
            max_seconds: fresh.max_seconds,
            cores: fresh.cores,
            ..self.settings.clone()
        }
    }

    /// Returns the settings that a resumed crawl begins with before the operator's configuration
    /// file is read: the defaults, except for the settings that decide what the state means. A file
    /// that does not name those leaves them as they are, whatever this version's defaults are.
    pub fn binding_settings(&self) -> Settings {
        let Settings { extra_parameters, stay, .. } = self.settings.clone();
        Settings { extra_parameters, stay, ..Settings::default() }
    }

    /// Returns the first line of a run, which says where links are followed.
    pub fn scope_text(&self) -> String {
        let name = |one: &'static str, many: &'static str| match self.homes.len() {
            1 => one.to_owned(),
            count => format!("{} {many}", count_text(count as u64)),
        };
        let places = match self.settings.stay {
            Stay::Web => return "links are followed everywhere (stay = \"web\")".to_owned(),
            Stay::Domain => name("the domain", "domains"),
            Stay::Host => name("the host", "hosts"),
        };
        let shown: Vec<&str> = self.homes.iter().take(HOME_SHOWN_COUNT_MAX).map(|h| &**h).collect();
        let rest = match self.homes.len() - shown.len() {
            0 => String::new(),
            count => format!(" and {} more", count_text(count as u64)),
        };
        let stay = self.settings.stay.word();
        format!("links are followed on {places} {}{rest} (stay = \"{stay}\")", shown.join(", "))
    }

    /// Reports whether links are followed on the homes only.
    pub fn has_homes(&self) -> bool {
        self.settings.stay != Stay::Web
    }
}

/// Returns the checksum over all fields but the checksum itself. Spaces do not matter, because `jq`
/// may have rewritten the file.
fn checksum(manifest: &Value) -> String {
    let mut rest = manifest.clone();
    rest.as_object_mut().map(|fields| fields.remove("checksum"));
    format!("{:016x}", xxh3_64(rest.to_string().as_bytes()))
}

/// Writes a file aside and renames it, so that it is complete or as it was before.
fn write_whole(directory: &Path, name: &str, text: &str) -> Result<(), DirectoryError> {
    let failed =
        |doing| move |error| DirectoryError::Io { doing, path: directory.to_owned(), error };
    let (path, aside) = (directory.join(name), directory.join(format!("{name}.new")));
    match std::fs::remove_file(&aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove")(error));
        }
        _ => {}
    }
    // This is always a new file, so nothing is written through an old file or link of that name.
    let mut file = std::fs::File::create_new(&aside).map_err(failed("write"))?;
    file.write_all(text.as_bytes()).map_err(failed("write"))?;
    file.sync_all().map_err(failed("sync"))?;
    std::fs::rename(&aside, &path).map_err(failed("rename"))?;
    let folder = path.parent().unwrap_or(directory);
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed("sync"))
}

#[cfg(test)]
mod tests {
    use super::super::DataDirectory;
    use super::*;

    fn manifest() -> Manifest {
        let settings = Settings { max_pages: 7, delay_ms: 900, ..Settings::default() };
        Manifest::new(&settings, 3, ["a.test".into()].into())
    }

    fn saved(manifest: &Manifest) -> (tempdir::Dir, String) {
        let dir = tempdir::Dir::new();
        manifest.save(&dir.0).expect("a directory");
        let text = std::fs::read_to_string(dir.0.join(NAME)).expect("a manifest");
        (dir, text)
    }

    /// A directory of the test's own, which is removed when the test ends.
    mod tempdir {
        pub struct Dir(pub std::path::PathBuf);

        impl Dir {
            pub fn new() -> Dir {
                let unique = crate::sys::process::monotonic_ns();
                let name = format!("nephila-manifest-{}-{unique}", std::process::id());
                let path = std::env::temp_dir().join(name);
                std::fs::create_dir(&path).expect("a temporary directory");
                Dir(path)
            }
        }

        impl Drop for Dir {
            fn drop(&mut self) {
                let _ = std::fs::remove_dir_all(&self.0);
            }
        }
    }

    /// Returns a manifest with other contents and a matching checksum.
    fn resigned(text: &str, from: &str, to: &str) -> String {
        let mut value: Value = serde_json::from_str(&text.replace(from, to)).expect("JSON");
        value["checksum"] = checksum(&value).into();
        value.to_string()
    }

    #[test]
    fn a_bit_that_flips_anywhere_is_found_and_other_spaces_are_not_held_against_it() {
        let (dir, text) = saved(&manifest());
        for at in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at / 8] ^= 1 << (at % 8);
            std::fs::write(dir.0.join(NAME), &bytes).expect("a file");
            let error = Manifest::load(&dir.0).expect_err("a flipped bit").to_string();
            assert!(error.contains("MANIFEST.json: "), "bit {at}: {error}");
            assert!(error.contains("repair DIR"), "bit {at}: {error}");
        }
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(Manifest::read(&value.to_string()), Ok(manifest_like(&dir)));
        assert!(Manifest::read(&text.replace("\"checksum\"", "\"other\"")).is_err());
    }

    fn manifest_like(dir: &tempdir::Dir) -> Manifest {
        Manifest::load_copy(&dir.0).expect("the copy is as it was")
    }

    #[test]
    fn a_manifest_that_is_gone_is_told_apart_from_a_directory_without_a_crawl() {
        let (dir, _) = saved(&manifest());
        std::fs::remove_file(dir.0.join(NAME)).expect("a manifest");
        let gone = |error: DirectoryError| {
            assert!(matches!(error, DirectoryError::ManifestGone(_)), "{error}");
            assert!(error.to_string().contains("nephila repair "), "{error}");
        };
        gone(Manifest::load(&dir.0).expect_err("no manifest"));
        gone(DataDirectory::open(&dir.0).map(|_| ()).expect_err("no manifest"));
        std::fs::remove_file(dir.0.join(COPY)).expect("a copy");
        let none = Manifest::load(&dir.0).expect_err("no crawl");
        assert!(matches!(none, DirectoryError::NoCrawl(_)), "{none}");
    }

    #[test]
    fn a_manifest_reads_back_and_other_formats_are_refused_by_name() {
        let written = manifest();
        let (dir, text) = saved(&written);
        assert_eq!(Manifest::load(&dir.0).expect("a manifest"), written);
        let spoilt = |from: &str, to: &str| resigned(&text, from, to);
        let old = spoilt("\"format\": 5", "\"format\": 4");
        let error = Manifest::read(&old).expect_err("another format");
        assert!(error.contains("format 4") && error.contains("version that began it"), "{error}");
        for (from, to) in [("\"slots\": 4096", "\"slots\": 1"), ("\"shards\": 3", "\"shards\": 0")]
        {
            assert!(text.contains(from), "{text}");
            assert!(Manifest::read(&spoilt(from, to)).is_err(), "{to}");
        }
        assert!(Manifest::read("{").is_err());
    }

    #[test]
    fn each_crawl_has_a_secret_of_its_own_and_none_goes_on_without() {
        let (one, other) = (manifest(), manifest());
        assert_ne!(one.hash_secret, other.hash_secret);
        let (_dir, text) = saved(&one);
        let secret = format!("{:032x}", one.hash_secret);
        assert!(text.contains(&secret), "{text}");
        for spoilt in ["", "0123", "xyz45678901234567890123456789012"] {
            let error = Manifest::read(&resigned(&text, &secret, spoilt)).expect_err("no secret");
            assert!(error.contains("hash_secret"), "{error}");
        }
    }

    #[test]
    fn harmless_changes_are_listed_and_those_that_alter_the_state_refused() {
        let mut kept = manifest();
        let settings = Settings { delay_ms: 2_000, max_pages: 9, ..kept.settings.clone() };
        assert_eq!(kept.adopt(&settings).expect("harmless"), ["delay_ms = 900 -> 2000"]);
        assert_eq!((kept.settings.delay_ms, kept.delay_ms_least), (2_000, 900));
        let parameters = Settings { extra_parameters: vec!["ref".into()], ..settings.clone() };
        let error = kept.adopt(&parameters).expect_err("another meaning").to_string();
        assert!(error.contains("extra_parameters"), "{error}");
        assert!(kept.adopt(&Settings { journal: false, ..settings }).is_err());
    }

    #[test]
    fn the_first_line_names_a_few_homes_and_counts_the_rest() {
        let homes = |count: usize| (0..count).map(|n| format!("{n:07}.test").into()).collect();
        let text = |stay, count| {
            let settings = Settings { stay, ..Settings::default() };
            Manifest::new(&settings, 1, homes(count)).scope_text()
        };
        assert_eq!(text(Stay::Web, 0), "links are followed everywhere (stay = \"web\")");
        let one = "links are followed on the host 0000000.test (stay = \"host\")";
        assert_eq!(text(Stay::Host, 1), one);
        let many = text(Stay::Domain, 2_000);
        assert!(many.contains("2,000 domains 0000000.test, ") && many.contains(" and 1,995 more"));
        assert!(many.len() < 200, "{many}");
    }

    #[test]
    fn a_manifest_of_many_homes_reads_back_and_too_many_are_refused() {
        let long = |n: usize| format!("{n:0>60}.{}.test", "y".repeat(60)).into();
        let settings = Settings::default();
        let many = Manifest::new(&settings, 1, (0..20_000).map(long).collect());
        let (dir, text) = saved(&many);
        assert!(text.len() as u64 > 2 * limits::CONFIG_BYTES_MAX, "{}", text.len());
        assert_eq!(Manifest::load(&dir.0).expect("a manifest"), many);
        let homes = (0..=limits::HOME_COUNT_MAX).map(|n| n.to_string().into()).collect();
        let error = super::super::check_homes(&Manifest { homes, ..many });
        let error = error.expect_err("too many").to_string();
        assert!(error.contains("1000001") && error.contains("--stay web"), "{error}");
    }
}

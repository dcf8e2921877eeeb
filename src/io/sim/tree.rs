//! The simulated disk without time: directories, files, and what of both a power cut leaves.
//!
//! A file knows how many of its bytes were synced, a directory which of its names were. Open files
//! live on after their name is gone, as on Linux. A truncation is durable at once: that a cut may
//! bring the old tail back is not modelled yet.

use super::chance::Chance;
use crate::io::disk::DiskError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;

pub(super) type DirRef = Rc<RefCell<Directory>>;
pub(super) type FileRef = Rc<RefCell<Content>>;

#[derive(Default)]
pub(super) struct Directory {
    entries: BTreeMap<String, Node>,
    /// The entries at the last `sync_dir`.
    durable: BTreeMap<String, Node>,
}

#[derive(Default)]
pub(super) struct Content {
    pub bytes: Vec<u8>,
    /// So many bytes survive a power cut; never more than there are.
    pub synced_len: usize,
    /// A sync that a truncation overtook does not know what it synced, and promises nothing.
    pub truncate_count: u64,
}

#[derive(Clone)]
enum Node {
    File(FileRef),
    Dir(DirRef),
}

pub(super) fn create(root: &DirRef, path: &Path) -> Result<FileRef, DiskError> {
    let (parent, name) = parent(root, path)?;
    let mut parent = parent.borrow_mut();
    if parent.entries.contains_key(name) {
        return Err(DiskError::Exists);
    }
    let file = FileRef::default();
    parent.entries.insert(name.to_owned(), Node::File(file.clone()));
    Ok(file)
}

pub(super) fn open(root: &DirRef, path: &Path) -> Result<FileRef, DiskError> {
    let (parent, name) = parent(root, path)?;
    match parent.borrow().entries.get(name) {
        Some(Node::File(file)) => Ok(file.clone()),
        Some(Node::Dir(_)) => Err(DiskError::Os(EISDIR)),
        None => Err(DiskError::NotFound),
    }
}

/// As rename(2): an existing file, or an empty directory for a directory, is replaced.
pub(super) fn rename(root: &DirRef, from: &Path, to: &Path) -> Result<(), DiskError> {
    let (from_names, to_names) = (names(from)?, names(to)?);
    let (from_parent, from_name) = parent(root, from)?;
    let node = from_parent.borrow().entries.get(from_name).cloned().ok_or(DiskError::NotFound)?;
    let (to_parent, to_name) = parent(root, to)?;
    if from_names == to_names {
        return Ok(());
    }
    if to_names.starts_with(&from_names) {
        return Err(DiskError::Os(EINVAL));
    }
    match (&node, to_parent.borrow().entries.get(to_name)) {
        (_, None) | (Node::File(_), Some(Node::File(_))) => {}
        (Node::File(_), Some(Node::Dir(_))) => return Err(DiskError::Os(EISDIR)),
        (Node::Dir(_), Some(Node::File(_))) => return Err(DiskError::Os(ENOTDIR)),
        (Node::Dir(_), Some(Node::Dir(there))) if there.borrow().entries.is_empty() => {}
        (Node::Dir(_), Some(Node::Dir(_))) => return Err(DiskError::Os(ENOTEMPTY)),
    }
    from_parent.borrow_mut().entries.remove(from_name);
    to_parent.borrow_mut().entries.insert(to_name.to_owned(), node);
    Ok(())
}

/// Files only, as unlink(2).
pub(super) fn remove(root: &DirRef, path: &Path) -> Result<(), DiskError> {
    open(root, path)?;
    let (parent, name) = parent(root, path)?;
    parent.borrow_mut().entries.remove(name);
    Ok(())
}

pub(super) fn create_dir(root: &DirRef, path: &Path) -> Result<DirRef, DiskError> {
    let mut at = root.clone();
    for name in names(path)? {
        let node = {
            let mut directory = at.borrow_mut();
            let new = || Node::Dir(DirRef::default());
            directory.entries.entry(name.to_owned()).or_insert_with(new).clone()
        };
        at = match node {
            Node::Dir(directory) => directory,
            Node::File(_) => return Err(DiskError::Exists),
        };
    }
    Ok(at)
}

pub(super) fn list(root: &DirRef, path: &Path) -> Result<Vec<String>, DiskError> {
    Ok(directory(root, &names(path)?)?.borrow().entries.keys().cloned().collect())
}

pub(super) fn sync_dir(root: &DirRef, path: &Path) -> Result<(), DiskError> {
    let directory = directory(root, &names(path)?)?;
    let directory = &mut *directory.borrow_mut();
    directory.durable = directory.entries.clone();
    Ok(())
}

/// Makes the directories along a path durable: they were there before the run.
pub(super) fn make_durable(root: &DirRef, path: &Path) -> Result<(), DiskError> {
    let mut at = root.clone();
    for name in names(path)? {
        let below = directory(&at, &[name])?;
        at.borrow_mut().durable.insert(name.to_owned(), Node::Dir(below.clone()));
        at = below;
    }
    Ok(())
}

pub(super) fn put_file(root: &DirRef, path: &Path, bytes: Vec<u8>) -> Result<(), DiskError> {
    let (name, above) = split(names(path)?)?;
    let above: PathBuf = above.iter().collect();
    let parent = create_dir(root, &above)?;
    make_durable(root, &above)?;
    let parent = &mut *parent.borrow_mut();
    if matches!(parent.entries.get(name), Some(Node::Dir(_))) {
        return Err(DiskError::Os(EISDIR));
    }
    let file = Rc::new(RefCell::new(Content { synced_len: bytes.len(), bytes, truncate_count: 0 }));
    parent.entries.insert(name.to_owned(), Node::File(file.clone()));
    parent.durable.insert(name.to_owned(), Node::File(file));
    Ok(())
}

pub(super) fn files(root: &DirRef) -> BTreeMap<PathBuf, Vec<u8>> {
    fn collect(at: &DirRef, path: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for (name, node) in &at.borrow().entries {
            match node {
                Node::Dir(below) => collect(below, &path.join(name), found),
                Node::File(file) => {
                    found.insert(path.join(name), file.borrow().bytes.clone());
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(root, Path::new(""), &mut found);
    found
}

/// Leaves what a power cut would; gives the number of bytes lost from files that are still there.
pub(super) fn lose_unsynced(root: &DirRef, keeps_names: bool, chance: &Chance) -> u64 {
    let directory = &mut *root.borrow_mut();
    if keeps_names {
        directory.durable = directory.entries.clone();
    } else {
        directory.entries = directory.durable.clone();
    }
    let mut lost_bytes = 0;
    for node in directory.entries.values() {
        match node {
            Node::Dir(below) => lost_bytes += lose_unsynced(below, keeps_names, chance),
            Node::File(file) => {
                let content = &mut *file.borrow_mut();
                let len = content.bytes.len() as u64;
                let kept = chance.between(content.synced_len as u64, len);
                content.bytes.truncate(kept as usize);
                content.synced_len = kept as usize;
                lost_bytes += len - kept;
            }
        }
    }
    lost_bytes
}

/// The names along a path that stays inside.
fn names(path: &Path) -> Result<Vec<&str>, DiskError> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().ok_or(DiskError::Os(EINVAL))?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(DiskError::OutsideDirectory);
            }
        }
    }
    Ok(names)
}

/// The last name, and those above it.
fn split(mut names: Vec<&str>) -> Result<(&str, Vec<&str>), DiskError> {
    let last = names.pop().ok_or(DiskError::Os(EISDIR))?;
    Ok((last, names))
}

fn parent<'path>(root: &DirRef, path: &'path Path) -> Result<(DirRef, &'path str), DiskError> {
    let (name, above) = split(names(path)?)?;
    Ok((directory(root, &above)?, name))
}

fn directory(root: &DirRef, names: &[&str]) -> Result<DirRef, DiskError> {
    let mut at = root.clone();
    for name in names {
        let node = at.borrow().entries.get(*name).cloned();
        at = match node {
            Some(Node::Dir(directory)) => directory,
            Some(Node::File(_)) => return Err(DiskError::Os(ENOTDIR)),
            None => return Err(DiskError::NotFound),
        };
    }
    Ok(at)
}

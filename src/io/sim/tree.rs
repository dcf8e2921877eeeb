//! The names of the simulated disk, without time: directories, and what a power cut leaves of them.
//!
//! Readers see a change of names at once. It is durable once its directory was synced. Until then
//! it is pending: a power cut keeps or loses it as a whole, independently of other changes, except
//! that no change survives the loss of one that it was built on (a journaling file system keeps
//! that much order). Open files live on after their name is gone, as on Linux.

use super::chance::Chance;
use super::content::{Content, PowerCut};
use super::fault::strikes;
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
    /// The entries on the platter.
    durable: BTreeMap<String, Node>,
}

#[derive(Clone)]
enum Node {
    File(FileRef),
    Dir(DirRef),
}

impl Node {
    fn is(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::File(one), Node::File(two)) => Rc::ptr_eq(one, two),
            (Node::Dir(one), Node::Dir(two)) => Rc::ptr_eq(one, two),
            _ => false,
        }
    }
}

/// One name that is set to a node, or to nothing.
struct Entry {
    directory: DirRef,
    name: String,
    node: Option<Node>,
}

/// A change of names that happens as a whole; a rename sets two names.
struct Change {
    serial: u64,
    entries: Vec<Entry>,
    /// The node that was created, renamed or removed.
    node: Node,
}

impl Change {
    fn touches(&self, directory: &DirRef) -> bool {
        self.entries.iter().any(|entry| Rc::ptr_eq(&entry.directory, directory))
    }

    fn sets(&self, directory: &DirRef, name: &str) -> bool {
        let is = |entry: &Entry| Rc::ptr_eq(&entry.directory, directory) && entry.name == name;
        self.entries.iter().any(is)
    }

    fn builds_on(&self, earlier: &Change) -> bool {
        self.node.is(&earlier.node)
            || self.entries.iter().any(|entry| earlier.sets(&entry.directory, &entry.name))
    }

    fn apply(&self, durable: bool) {
        for Entry { directory, name, node } in &self.entries {
            let directory = &mut *directory.borrow_mut();
            let map = if durable { &mut directory.durable } else { &mut directory.entries };
            match node {
                Some(node) => map.insert(name.clone(), node.clone()),
                None => map.remove(name),
            };
        }
    }
}

/// What a power cut destroyed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    pub byte_count: u64,
    pub change_count: usize,
}

/// The whole disk. Paths are relative to a directory `at` somewhere in it.
#[derive(Default)]
pub(super) struct Tree {
    pub root: DirRef,
    pending: RefCell<Vec<Change>>,
    serial: std::cell::Cell<u64>,
}

impl Tree {
    pub fn create(&self, at: &DirRef, path: &Path) -> Result<FileRef, DiskError> {
        let (parent, name) = parent(at, path)?;
        if parent.borrow().entries.contains_key(name) {
            return Err(DiskError::Exists);
        }
        let file = FileRef::default();
        self.link(&parent, name, Node::File(file.clone()));
        Ok(file)
    }

    pub fn open(&self, at: &DirRef, path: &Path) -> Result<FileRef, DiskError> {
        let (parent, name) = parent(at, path)?;
        match parent.borrow().entries.get(name) {
            Some(Node::File(file)) => Ok(file.clone()),
            Some(Node::Dir(_)) => Err(DiskError::Os(EISDIR)),
            None => Err(DiskError::NotFound),
        }
    }

    /// Renames as rename(2) does: an existing file is replaced, and so is an empty directory by a
    /// directory.
    pub fn rename(&self, at: &DirRef, from: &Path, to: &Path) -> Result<(), DiskError> {
        let (from_names, to_names) = (names(from)?, names(to)?);
        let (from_parent, from_name) = parent(at, from)?;
        let node =
            from_parent.borrow().entries.get(from_name).cloned().ok_or(DiskError::NotFound)?;
        let (to_parent, to_name) = parent(at, to)?;
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
        let (from_name, to_name) = (from_name.to_owned(), to_name.to_owned());
        let gone = Entry { directory: from_parent, name: from_name, node: None };
        let there = Entry { directory: to_parent, name: to_name, node: Some(node.clone()) };
        self.change(vec![gone, there], node);
        Ok(())
    }

    /// Removes a file; like unlink(2) it refuses a directory.
    pub fn remove(&self, at: &DirRef, path: &Path) -> Result<(), DiskError> {
        let file = self.open(at, path)?;
        let (directory, name) = parent(at, path)?;
        let gone = Entry { directory, name: name.to_owned(), node: None };
        self.change(vec![gone], Node::File(file));
        Ok(())
    }

    pub fn create_dir(&self, at: &DirRef, path: &Path) -> Result<DirRef, DiskError> {
        let mut at = at.clone();
        for name in names(path)? {
            let found = at.borrow().entries.get(name).cloned();
            at = match found {
                Some(Node::Dir(directory)) => directory,
                Some(Node::File(_)) => return Err(DiskError::Exists),
                None => {
                    let new = DirRef::default();
                    self.link(&at, name, Node::Dir(new.clone()));
                    new
                }
            };
        }
        Ok(at)
    }

    pub fn list(&self, at: &DirRef, path: &Path) -> Result<Vec<String>, DiskError> {
        Ok(directory(at, &names(path)?)?.borrow().entries.keys().cloned().collect())
    }

    /// Returns the number of changes so far, which a sync that begins now will cover.
    pub fn cover(&self) -> u64 {
        self.serial.get()
    }

    /// Makes a directory's changes up to `covered` durable, together with the changes that they are
    /// built on.
    pub fn sync_dir(&self, at: &DirRef, path: &Path, covered: u64) -> Result<(), DiskError> {
        let directory = directory(at, &names(path)?)?;
        let mut pending = self.pending.borrow_mut();
        let mut is_covered: Vec<bool> = pending
            .iter()
            .map(|change| change.serial <= covered && change.touches(&directory))
            .collect();
        for later in (0..pending.len()).rev() {
            for earlier in 0..later {
                if is_covered[later] && pending[later].builds_on(&pending[earlier]) {
                    is_covered[earlier] = true;
                }
            }
        }
        let mut covered = is_covered.into_iter();
        pending.retain(|change| {
            let is_durable = covered.next().unwrap_or_default();
            if is_durable {
                change.apply(true);
            }
            !is_durable
        });
        Ok(())
    }

    /// Makes a directory that counts as durable, as if it existed before the run.
    pub fn put_dir(&self, at: &DirRef, path: &Path) -> Result<DirRef, DiskError> {
        let made = self.create_dir(at, path)?;
        let mut at = at.clone();
        for name in names(path)? {
            let below = directory(&at, &[name])?;
            self.put(&at, name, Node::Dir(below.clone()));
            at = below;
        }
        Ok(made)
    }

    pub fn put_file(&self, path: &Path, bytes: Vec<u8>) -> Result<(), DiskError> {
        let (name, above) = split(names(path)?)?;
        let parent = self.put_dir(&self.root, &above.iter().collect::<PathBuf>())?;
        if matches!(parent.borrow().entries.get(name), Some(Node::Dir(_))) {
            return Err(DiskError::Os(EISDIR));
        }
        self.put(&parent, name, Node::File(Rc::new(RefCell::new(Content::durable(bytes)))));
        Ok(())
    }

    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        visit(&self.root, Path::new(""), &mut |path, file| {
            found.insert(path, file.borrow().bytes.clone());
        });
        found
    }

    pub fn used_bytes(&self) -> u64 {
        let mut used_bytes = 0;
        visit(&self.root, Path::new(""), &mut |_, file| {
            used_bytes += file.borrow().bytes.len() as u64;
        });
        used_bytes
    }

    /// Leaves what a power cut would leave.
    pub fn lose_unsynced(&self, cut: &PowerCut, chance: &Chance) -> Lost {
        let mut lost: Vec<Change> = Vec::new();
        for change in self.pending.take() {
            let is_lost = strikes(chance, cut.name_lost_per_mille);
            if is_lost || lost.iter().any(|earlier| change.builds_on(earlier)) {
                lost.push(change);
            } else {
                change.apply(true);
            }
        }
        revert(&self.root);
        let mut byte_count = 0;
        visit(&self.root, Path::new(""), &mut |_, file| {
            byte_count += file.borrow_mut().lose_unsynced(cut, chance);
        });
        Lost { byte_count, change_count: lost.len() }
    }

    fn link(&self, directory: &DirRef, name: &str, node: Node) {
        let (directory, name) = (directory.clone(), name.to_owned());
        self.change(vec![Entry { directory, name, node: Some(node.clone()) }], node);
    }

    fn change(&self, entries: Vec<Entry>, node: Node) {
        self.serial.set(self.serial.get() + 1);
        let change = Change { serial: self.serial.get(), entries, node };
        change.apply(false);
        self.pending.borrow_mut().push(change);
    }

    fn put(&self, directory: &DirRef, name: &str, node: Node) {
        self.pending.borrow_mut().retain(|change| !change.sets(directory, name));
        let directory = &mut *directory.borrow_mut();
        directory.entries.insert(name.to_owned(), node.clone());
        directory.durable.insert(name.to_owned(), node);
    }
}

/// Makes readers see what the platter holds, from this directory down.
fn revert(at: &DirRef) {
    let directory = &mut *at.borrow_mut();
    directory.entries = directory.durable.clone();
    for node in directory.entries.values() {
        if let Node::Dir(below) = node {
            revert(below);
        }
    }
}

fn visit(at: &DirRef, path: &Path, see: &mut dyn FnMut(PathBuf, &FileRef)) {
    for (name, node) in &at.borrow().entries {
        match node {
            Node::Dir(below) => visit(below, &path.join(name), see),
            Node::File(file) => see(path.join(name), file),
        }
    }
}

/// Returns the names along a path; fails if the path leads out of the directory.
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

/// Returns the last name, and the names above it.
fn split(mut names: Vec<&str>) -> Result<(&str, Vec<&str>), DiskError> {
    let last = names.pop().ok_or(DiskError::Os(EISDIR))?;
    Ok((last, names))
}

fn parent<'path>(at: &DirRef, path: &'path Path) -> Result<(DirRef, &'path str), DiskError> {
    let (name, above) = split(names(path)?)?;
    Ok((directory(at, &above)?, name))
}

fn directory(at: &DirRef, names: &[&str]) -> Result<DirRef, DiskError> {
    let mut at = at.clone();
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

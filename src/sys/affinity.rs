//! Which cores a thread may run on.

use super::check;

/// The cores that the calling thread may run on, in order.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = affinity() else { return vec![0] };
    let is_in = |core: &usize| {
        // SAFETY: looks at a bit of a set that is larger.
        unsafe { libc::CPU_ISSET(*core, &set) }
    };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
}

/// Keeps the calling thread, and those that it starts meanwhile, to `cores`; until it is dropped.
pub fn keep_to(cores: &[usize]) -> Result<Kept, i32> {
    let before = affinity()?;
    set_affinity(&set_of(cores))?;
    Ok(Kept { before })
}

/// See [`keep_to`].
pub struct Kept {
    before: libc::cpu_set_t,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // It was allowed before. Where it no longer is, the thread stays where it may be.
        let _ = set_affinity(&self.before);
    }
}

pub(super) fn set_of(cores: &[usize]) -> libc::cpu_set_t {
    // SAFETY: an all-zero set is a valid, empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
        // SAFETY: sets a bit of a set that is larger.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    set
}

fn affinity() -> Result<libc::cpu_set_t, i32> {
    let mut set = set_of(&[]);
    // SAFETY: the set outlives the call and is as long as said.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    Ok(set)
}

fn set_affinity(set: &libc::cpu_set_t) -> Result<(), i32> {
    // SAFETY: the set outlives the call and is as long as said.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
    check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_children_keep_to_their_cores_until_they_need_not() {
        let all = allowed_cores();
        let kept = keep_to(&all[..1]).expect("one of those that are allowed");
        assert_eq!(allowed_cores(), all[..1]);
        let child = std::thread::spawn(allowed_cores).join().expect("a thread");
        assert_eq!(child, all[..1]);
        drop(kept);
        assert_eq!(allowed_cores(), all);
        assert!(keep_to(&[]).is_err(), "nowhere is no place to run");
        assert_eq!(allowed_cores(), all);
    }
}

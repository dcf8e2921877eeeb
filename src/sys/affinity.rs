//! Sets which cores a thread may run on.

use super::check;

/// Returns the cores that the calling thread may run on, in order.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = affinity() else { return vec![0] };
    let is_in = |core: &usize| {
        // SAFETY: reads a bit of a set that is larger than `core`.
        unsafe { libc::CPU_ISSET(*core, &set) }
    };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
}

/// Keeps the calling thread, and those that it starts meanwhile, to `cores` until the result is
/// dropped.
pub fn keep_to(cores: &[usize]) -> Result<Kept, i32> {
    let before = affinity()?;
    set_affinity(&set_of(cores))?;
    Ok(Kept { before })
}

/// Restores the former cores of a thread when dropped; see [`keep_to`].
pub struct Kept {
    before: libc::cpu_set_t,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // These cores were allowed before. If they no longer are, the thread stays on its present
        // ones.
        let _ = set_affinity(&self.before);
    }
}

pub(super) fn set_of(cores: &[usize]) -> libc::cpu_set_t {
    // SAFETY: an all-zero set is valid and empty.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
        // SAFETY: sets a bit of a set that is larger than `core`.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    set
}

fn affinity() -> Result<libc::cpu_set_t, i32> {
    let mut set = set_of(&[]);
    // SAFETY: the set outlives the call and has the stated size.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    Ok(set)
}

fn set_affinity(set: &libc::cpu_set_t) -> Result<(), i32> {
    // SAFETY: the set outlives the call and has the stated size.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
    check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_children_keep_to_their_cores_until_they_need_not() {
        let all = allowed_cores();
        let kept = keep_to(&all[..1]).expect("the core is allowed");
        assert_eq!(allowed_cores(), all[..1]);
        let child = std::thread::spawn(allowed_cores).join().expect("a thread");
        assert_eq!(child, all[..1]);
        drop(kept);
        assert_eq!(allowed_cores(), all);
        assert!(keep_to(&[]).is_err(), "a thread needs a core to run on");
        assert_eq!(allowed_cores(), all);
    }
}

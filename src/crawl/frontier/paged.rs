//! A growing array in pages, for data of which every host has one item.
//!
//! This module owns the items. They are pushed and changed in place, never removed. Invariant:
//! pages never move. A `Vec` of millions of hosts would copy a hundred megabytes when it doubles,
//! with every fetch of the core waiting, and would hold up to twice what it needs.

use std::ops::{Index, IndexMut};

const PAGE_BITS: u32 = 10;
const PAGE_COUNT: usize = 1 << PAGE_BITS;

pub struct Paged<T> {
    pages: Vec<Vec<T>>,
    len: usize,
}

impl<T> Paged<T> {
    pub fn new() -> Paged<T> {
        Paged { pages: Vec::new(), len: 0 }
    }

    pub fn push(&mut self, item: T) {
        if self.len.is_multiple_of(PAGE_COUNT) {
            self.pages.push(Vec::with_capacity(PAGE_COUNT));
        }
        if let Some(page) = self.pages.last_mut() {
            page.push(item);
            self.len += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

impl<T> Index<u32> for Paged<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.pages[(index >> PAGE_BITS) as usize][index as usize & (PAGE_COUNT - 1)]
    }
}

impl<T> IndexMut<u32> for Paged<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.pages[(index >> PAGE_BITS) as usize][index as usize & (PAGE_COUNT - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_index_across_pages() {
        let mut paged = Paged::new();
        (0..PAGE_COUNT as u32 * 3 + 1).for_each(|number| paged.push(number));
        paged[PAGE_COUNT as u32] += 1;
        assert_eq!(paged.len(), PAGE_COUNT * 3 + 1);
        assert_eq!(paged[PAGE_COUNT as u32], PAGE_COUNT as u32 + 1);
        assert_eq!(paged[PAGE_COUNT as u32 * 3], PAGE_COUNT as u32 * 3);
    }
}

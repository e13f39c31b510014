//! What belongs to each of millions of units, in few bytes: one other unit or none, or a list.

use std::ops::Index;

/// No unit.
const NONE: u32 = u32::MAX;

/// One unit, or none, for each of many.
#[derive(Clone, Debug)]
pub(in crate::native) struct UnitLinks(Vec<u32>);

impl UnitLinks {
    /// None for each of so many.
    pub(in crate::native) fn none(count: usize) -> UnitLinks {
        UnitLinks(vec![NONE; count])
    }

    /// The unit that belongs to one; none also for what is beyond the last.
    pub(in crate::native) fn of(&self, at: usize) -> Option<usize> {
        self.0.get(at).filter(|&&unit| unit != NONE).map(|&unit| unit as usize)
    }

    pub(in crate::native) fn set(&mut self, at: usize, unit: Option<usize>) {
        self.0[at] = unit.map_or(NONE, |unit| unit as u32);
    }

    /// For how many.
    pub(in crate::native) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A list for each unit.
#[derive(Clone, Debug)]
pub(in crate::native) struct UnitLists<T> {
    /// Where the list of each begins, and where the last ends.
    starts: Vec<u32>,
    all: Vec<T>,
}

impl<T: Copy> UnitLists<T> {
    /// Lists for so many units, from items with their unit. Items of one unit stay in order.
    pub(in crate::native) fn of(units: usize, items: &[(u32, T)]) -> UnitLists<T> {
        let mut starts = vec![0; units + 1];
        items.iter().for_each(|&(unit, _)| starts[unit as usize + 1] += 1);
        (0..units).for_each(|unit| starts[unit + 1] += starts[unit]);
        // Each list is filled from its start on, so that this is where the next begins once all are.
        let Some(&(_, first)) = items.first() else { return UnitLists { starts, all: Vec::new() } };
        let mut all = vec![first; items.len()];
        for &(unit, item) in items {
            let next = &mut starts[unit as usize];
            all[*next as usize] = item;
            *next += 1;
        }
        starts.copy_within(..units, 1);
        starts[0] = 0;
        UnitLists { starts, all }
    }

    /// The lists, in order.
    pub(in crate::native) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..self.starts.len() - 1).map(|at| &self[at])
    }
}

impl<T> Index<usize> for UnitLists<T> {
    type Output = [T];

    fn index(&self, at: usize) -> &[T] {
        &self.all[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// A value for each unit, of which there are few different ones.
#[derive(Clone, Debug)]
pub(in crate::native) struct UnitKinds<T> {
    different: Vec<T>,
    of: Vec<u32>,
}

impl<T> UnitKinds<T> {
    /// The same value for so many.
    pub(in crate::native) fn all(value: T, count: usize) -> UnitKinds<T> {
        UnitKinds { different: vec![value], of: vec![0; count] }
    }

    /// Adds a value, and returns its number.
    pub(in crate::native) fn add(&mut self, value: T) -> u32 {
        self.different.push(value);
        self.different.len() as u32 - 1
    }

    pub(in crate::native) fn set(&mut self, at: usize, number: u32) {
        self.of[at] = number;
    }
}

impl<T> Index<usize> for UnitKinds<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.different[self.of[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_one_other_or_none() {
        let mut links = UnitLinks::none(3);
        links.set(1, Some(7));
        assert_eq!([0, 1, 2, 3].map(|at| links.of(at)), [None, Some(7), None, None]);
        links.set(1, None);
        assert_eq!((links.of(1), links.len()), (None, 3));
    }

    #[test]
    fn lists_keep_the_order_of_their_items() {
        let lists = UnitLists::of(4, &[(2, 'a'), (0, 'b'), (2, 'c'), (0, 'd')]);
        let all: Vec<&[char]> = lists.iter().collect();
        assert_eq!(all, [&['b', 'd'][..], &[], &['a', 'c'], &[]]);
        assert!(lists[1].is_empty());
    }

    #[test]
    fn equal_values_are_stored_once() {
        let mut kinds = UnitKinds::all('-', 3);
        let number = kinds.add('+');
        kinds.set(1, number);
        assert_eq!([kinds[0], kinds[1], kinds[2]], ['-', '+', '-']);
    }
}

//! Copies elements between two placements.

use super::axes::Axis;
use super::placement::Placement;

/// The elements of the target, `bytes` in all; padding is zero.
pub(super) fn copy(
    source: &[u8],
    from: &Placement,
    to: &Placement,
    axes: &[Axis],
    size: usize,
    bytes: usize,
) -> Vec<u8> {
    // The innermost axis of the target is copied in the inner loop.
    let mut axes = axes.to_vec();
    if let Some(at) = axes.iter().position(|&axis| Some(axis) == to.innermost()) {
        let last = axes.remove(at);
        axes.push(last);
    }
    let groups = from.groups().max(to.groups());
    let mut target = vec![0; bytes];
    // Once for all groups: a file may have as many groups as elements.
    let (from_all, to_all) = (from.tables(&axes), to.tables(&axes));
    for group in 0..groups {
        let (from_first, from_tables) = from.group(group, groups, &from_all);
        let (to_first, to_tables) = to.group(group, groups, &to_all);
        let mut part = Loop { source, target: &mut target, size };
        part.axis(&from_tables, &to_tables, from_first, to_first);
    }
    target
}

struct Loop<'a> {
    source: &'a [u8],
    target: &'a mut [u8],
    size: usize,
}

impl Loop<'_> {
    /// One loop for each axis: there are at most as many as dimensions.
    fn axis(&mut self, from: &[&[usize]], to: &[&[usize]], source: usize, target: usize) {
        match (from.split_first(), to.split_first()) {
            (Some((from, inner_from)), Some((to, inner_to))) if !inner_from.is_empty() => {
                for (&here, &there) in from.iter().zip(*to) {
                    self.axis(inner_from, inner_to, source + here, target + there);
                }
            }
            (Some((from, _)), Some((to, _))) => match self.size {
                1 => self.elements::<1>(from, to, source, target),
                2 => self.elements::<2>(from, to, source, target),
                4 => self.elements::<4>(from, to, source, target),
                8 => self.elements::<8>(from, to, source, target),
                _ => self.elements::<16>(from, to, source, target),
            },
            _ => {}
        }
    }

    fn elements<const SIZE: usize>(&mut self, from: &[usize], to: &[usize], source: usize, target: usize) {
        let (sources, _) = self.source.as_chunks::<SIZE>();
        let (targets, _) = self.target.as_chunks_mut::<SIZE>();
        for (&here, &there) in from.iter().zip(to) {
            if let (Some(element), Some(place)) =
                (sources.get(source + here), targets.get_mut(target + there))
            {
                *place = *element;
            }
        }
    }
}

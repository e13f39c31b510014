//! Where each element is in a layout: the sum of one offset for each axis.

use super::axes::{Axis, Part, Spec};

/// The sizes of a tensor's axes, in the order in which its program has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extents(pub(super) Vec<(Axis, usize)>);

impl Extents {
    /// The size of an axis: an axis that the tensor does not have has one element.
    pub(super) fn of(&self, axis: Axis) -> usize {
        self.0.iter().find(|(one, _)| *one == axis).map_or(1, |(_, size)| *size)
    }

    fn with(&self, axis: Axis, size: usize) -> Extents {
        let mut axes: Vec<(Axis, usize)> = self.0.iter().copied().filter(|(one, _)| *one != axis).collect();
        axes.push((axis, size));
        Extents(axes)
    }
}

/// The sizes of blocks, by axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks(pub(super) Vec<(Axis, usize)>);

impl Blocks {
    fn of(&self, axis: Axis) -> usize {
        self.0.iter().find(|(one, _)| *one == axis).map_or(1, |(_, size)| *size)
    }
}

/// A layout with sizes.
#[derive(Debug)]
pub(super) struct Placement {
    /// The stored dimensions.
    pub(super) shape: Vec<usize>,
    /// Part, size and stride in elements of everything that is stored.
    parts: Vec<(Part, usize, usize)>,
    blocks: Blocks,
    extents: Extents,
    /// Elements of one group of groups; all elements if there are no groups.
    span: usize,
    groups: Groups,
}

/// How the groups of a grouped convolution share blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Groups {
    count: usize,
    /// How many are stored in the same blocks.
    together: usize,
    channels: usize,
    filters: usize,
}

impl Placement {
    /// The places of a tensor. None if its size does not fit the address space.
    pub(super) fn of(spec: &Spec, extents: &Extents, blocks: &Blocks, groups: usize) -> Option<Placement> {
        let is_grouped = groups > 1 && spec.iter().flatten().any(|part| *part == Part::Block(Axis::N));
        let groups = if is_grouped { Groups::of(extents, blocks, groups)? } else { Groups::one(extents) };
        let inner = extents
            .with(Axis::C, groups.channels.checked_mul(groups.together)?)
            .with(Axis::N, groups.filters.checked_mul(groups.together)?);
        let size = |part: Part| match part {
            Part::Whole(axis) => inner.of(axis),
            Part::Block(axis) => inner.of(axis).div_ceil(blocks.of(axis).max(1)),
            Part::Within(axis) => blocks.of(axis),
        };
        let mut parts = Vec::new();
        let mut stride = 1usize;
        for part in spec.iter().flatten().rev().copied() {
            parts.push((part, size(part), stride));
            stride = stride.checked_mul(size(part))?;
        }
        parts.reverse();
        let product =
            |parts: &Vec<Part>| parts.iter().try_fold(1usize, |all, &part| all.checked_mul(size(part)));
        let mut shape = spec.iter().map(product).collect::<Option<Vec<usize>>>()?;
        if let Some(first) = shape.first_mut() {
            *first = first.checked_mul(groups.count.div_ceil(groups.together))?;
        }
        shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        Some(Placement { shape, parts, blocks: blocks.clone(), extents: inner, span: stride, groups })
    }

    /// The offset of each place of an axis.
    fn table(&self, axis: Axis) -> Vec<usize> {
        let block = self.blocks.of(axis).max(1);
        let offset = |at: usize| -> usize {
            let of_part = |&(part, _, stride): &(Part, usize, usize)| match part {
                Part::Whole(one) if one == axis => at * stride,
                Part::Block(one) if one == axis => at / block * stride,
                Part::Within(one) if one == axis => at % block * stride,
                Part::Whole(_) | Part::Block(_) | Part::Within(_) => 0,
            };
            self.parts.iter().map(of_part).sum()
        };
        (0..self.extents.of(axis)).map(offset).collect()
    }

    /// The axis that varies fastest.
    pub(super) fn innermost(&self) -> Option<Axis> {
        self.parts.last().map(|(part, _, _)| part.axis())
    }

    /// The offset tables of all groups, one for each axis.
    pub(super) fn tables(&self, axes: &[Axis]) -> Vec<(Axis, Vec<usize>)> {
        axes.iter().map(|&axis| (axis, self.table(axis))).collect()
    }

    /// The part of the tables that one group has: for each axis the places of its elements, after the first of all.
    pub(super) fn group<'a>(
        &self,
        number: usize,
        all: usize,
        tables: &'a [(Axis, Vec<usize>)],
    ) -> (usize, Vec<&'a [usize]>) {
        let Groups { count, together, channels, filters } = self.groups;
        let first = if count > 1 { number / together * self.span } else { 0 };
        let tables = tables.iter().map(|(axis, table)| {
            let axis = *axis;
            let range = match axis {
                // Here: all groups in one place, and this one's part of it.
                Axis::C | Axis::N if count > 1 => {
                    let size = if axis == Axis::C { channels } else { filters };
                    number % together * size..(number % together + 1) * size
                }
                // There are groups in the other layout only: filters of all groups follow each other.
                Axis::N if all > 1 => {
                    let size = table.len() / all;
                    number * size..(number + 1) * size
                }
                _ => 0..table.len(),
            };
            table.get(range).unwrap_or_default()
        });
        (first, tables.collect())
    }

    /// How many groups it stores apart.
    pub(super) fn groups(&self) -> usize {
        self.groups.count
    }
}

impl Groups {
    fn one(extents: &Extents) -> Groups {
        Groups { count: 1, together: 1, channels: extents.of(Axis::C), filters: extents.of(Axis::N) }
    }

    /// As many groups share blocks as fill whole blocks of channels and of filters.
    fn of(extents: &Extents, blocks: &Blocks, count: usize) -> Option<Groups> {
        let (channels, filters) = (extents.of(Axis::C), extents.of(Axis::N) / count);
        if channels == 0 || filters == 0 || !extents.of(Axis::N).is_multiple_of(count) {
            return None;
        }
        let fill = |size: usize, block: usize| least_common_multiple(size, block).map(|all| all / size);
        let together =
            least_common_multiple(fill(channels, blocks.of(Axis::C))?, fill(filters, blocks.of(Axis::N))?)?;
        Some(Groups { count, together: together.min(count), channels, filters })
    }
}

fn least_common_multiple(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a.checked_div(x)?.checked_mul(b)
}

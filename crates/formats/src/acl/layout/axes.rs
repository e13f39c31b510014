//! Which axes each layout stores, and in which parts.

use crate::acl::Format;

/// An axis of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    N,
    C,
    D,
    H,
    W,
    /// An axis before the last two of a tensor without named axes.
    Lead(usize),
    /// The last but one.
    Row,
    /// The last.
    Column,
}

/// What a stored dimension has of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole(Axis),
    /// The number of the block.
    Block(Axis),
    /// The place in the block.
    Within(Axis),
}

impl Part {
    pub(super) fn axis(self) -> Axis {
        match self {
            Part::Whole(axis) | Part::Block(axis) | Part::Within(axis) => axis,
        }
    }
}

/// The stored dimensions of a layout, outermost first. A dimension may be the product of several parts. If two have
/// the same place in a block, only elements where both agree are part of the tensor.
pub(super) type Spec = Vec<Vec<Part>>;

/// The layout of a format; none if it is not converted. `rank` is the number of stored dimensions, which decides how
/// many axes a tensor without named ones has.
pub(super) fn spec(format: Format, rank: usize) -> Option<Spec> {
    use Axis::{C, Column, D, H, N, Row, W};
    let one = |part: Part| vec![part];
    let (c1, c0) = (Part::Block(C), Part::Within(C));
    let (n1, n0) = (Part::Block(N), Part::Within(N));
    let [n, d, h, w] = [N, D, H, W].map(Part::Whole);
    Some(match format.name()? {
        "NC1HWC0" => vec![one(n), one(c1), one(h), one(w), one(c0)],
        "NDC1HWC0" => vec![one(n), one(d), one(c1), one(h), one(w), one(c0)],
        "FRACTAL_Z" => vec![vec![c1, h, w], one(n1), one(n0), one(c0)],
        "FRACTAL_Z_3D" => vec![vec![d, c1, h, w], one(n1), one(n0), one(c0)],
        "C1HWNC0" => vec![one(c1), one(h), one(w), one(n), one(c0)],
        "C1HWNCoC0" => vec![one(c1), one(h), one(w), one(n), one(c0), one(c0)],
        "FRACTAL_NZ" => {
            let matrix = [Part::Block(Column), Part::Block(Row), Part::Within(Row), Part::Within(Column)];
            lead(rank.checked_sub(matrix.len())?).chain(matrix).map(one).collect()
        }
        "ND" => unnamed(rank).into_iter().map(|axis| one(Part::Whole(axis))).collect(),
        name => letters(name)?.into_iter().map(|axis| one(Part::Whole(axis))).collect(),
    })
}

fn lead(count: usize) -> impl Iterator<Item = Part> {
    (0..count).map(|at| Part::Whole(Axis::Lead(at)))
}

/// The axes of a tensor without named ones: of a vector only columns.
pub(super) fn unnamed(rank: usize) -> Vec<Axis> {
    let mut axes: Vec<Axis> = (0..rank.saturating_sub(2)).map(Axis::Lead).collect();
    axes.extend([Axis::Row, Axis::Column].into_iter().skip(2usize.saturating_sub(rank)));
    axes
}

/// The axes of a format that stores each of them whole.
pub(super) fn plain(format: Format) -> Option<Vec<Axis>> {
    letters(format.name()?)
}

fn letters(name: &str) -> Option<Vec<Axis>> {
    const PLAIN: [&str; 10] =
        ["NCHW", "NHWC", "HWCN", "CHWN", "NDHWC", "NCDHW", "DHWCN", "DHWNC", "CN", "NC"];
    if !PLAIN.contains(&name) {
        return None;
    }
    name.chars()
        .map(|letter| match letter {
            'N' => Some(Axis::N),
            'C' => Some(Axis::C),
            'D' => Some(Axis::D),
            'H' => Some(Axis::H),
            'W' => Some(Axis::W),
            _ => None,
        })
        .collect()
}

//! Changes of layout, compared with the index formulas of each.
#![allow(clippy::unwrap_used)]

use ulpscope_formats::acl::{DataType, DumpTensor, Format};

fn format(name: &str) -> Format {
    Format::from_name(name).unwrap()
}

/// A tensor of int32 in a layout.
fn dumped(layout: &str, shape: &[usize], original: &[usize], values: &[i32]) -> DumpTensor {
    let dims = |sizes: &[usize]| sizes.iter().map(|&size| size as u64).collect();
    DumpTensor {
        data_type: DataType::from_name("INT32").unwrap(),
        format: format(layout),
        shape: dims(shape),
        original_shape: dims(original),
        data: values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into(),
        ..DumpTensor::default()
    }
}

/// Shape and elements in a layout.
fn relaid(tensor: &DumpTensor, layout: &str) -> (Vec<usize>, Vec<i32>) {
    let relaid = tensor.relaid(format(layout), None).unwrap();
    assert_eq!(relaid.unsure, None, "{} to {layout}", tensor.format);
    let view = relaid.tensor.view();
    (view.shape().to_vec(), (0..view.len()).map(|at| view.get(at).to_f64() as i32).collect())
}

/// The same elements again, as a dump.
fn again(layout: &str, original: &[usize], stored: (Vec<usize>, Vec<i32>)) -> DumpTensor {
    dumped(layout, &stored.0, original, &stored.1)
}

const N: usize = 18;
const C: usize = 20;
const D: usize = 2;
const H: usize = 3;
const W: usize = 5;

/// The element of a place, never zero, which is what padding is.
fn value(n: usize, c: usize, d: usize, h: usize, w: usize) -> i32 {
    ((((n * C + c) * D + d) * H + h) * W + w) as i32 + 1
}

/// Elements in order of the given axes.
fn plain(axes: &str) -> (Vec<usize>, Vec<i32>) {
    let size = |axis: char| match axis {
        'N' => N,
        'C' => C,
        'D' => D,
        'H' => H,
        _ => W,
    };
    let shape: Vec<usize> = axes.chars().map(size).collect();
    let count = shape.iter().product();
    let mut values = Vec::with_capacity(count);
    for mut at in 0..count {
        let mut place = [0; 5];
        for (axis, &size) in axes.chars().rev().zip(shape.iter().rev()) {
            place["NCDHW".find(axis).unwrap()] = at % size;
            at /= size;
        }
        values.push(value(place[0], place[1], place[2], place[3], place[4]));
    }
    (shape, values)
}

#[test]
fn every_order_of_named_axes() {
    for family in [&["NCHW", "NHWC", "HWCN", "CHWN"][..], &["NCDHW", "NDHWC", "DHWCN", "DHWNC"][..]] {
        for from in family {
            let (shape, values) = plain(from);
            let tensor = dumped(from, &shape, &shape, &values);
            for to in family {
                assert_eq!(relaid(&tensor, to), plain(to), "{from} to {to}");
            }
        }
    }
}

/// Stored dimensions, and the place of an element in them.
type Formula = (&'static str, Vec<usize>, fn(usize, usize, usize, usize, usize) -> Vec<usize>);

fn offset(shape: &[usize], place: &[usize]) -> usize {
    shape.iter().zip(place).fold(0, |offset, (size, at)| offset * size + at)
}

#[test]
fn blocks_there_and_back_by_the_formulas() {
    let formulas: [Formula; 4] = [
        ("NC1HWC0", vec![N, 2, H, W, 16], |n, c, _, h, w| vec![n, c / 16, h, w, c % 16]),
        ("FRACTAL_Z", vec![2 * H * W, 2, 16, 16], |n, c, _, h, w| {
            vec![c / 16 * H * W + h * W + w, n / 16, n % 16, c % 16]
        }),
        ("C1HWNC0", vec![2, H, W, N, 16], |n, c, _, h, w| vec![c / 16, h, w, n, c % 16]),
        ("C1HWNCoC0", vec![2, H, W, N, 16, 16], |n, c, _, h, w| vec![c / 16, h, w, n, c % 16, c % 16]),
    ];
    for (layout, shape, place) in formulas {
        let mut stored = vec![0; shape.iter().product()];
        for (n, c, h, w) in places(H, W) {
            stored[offset(&shape, &place(n, c, 0, h, w))] = value(n, c, 0, h, w);
        }
        for origin in ["NCHW", "NHWC", "HWCN"] {
            let flat = plain_of_first_depth(origin);
            let tensor = dumped(origin, &flat.0, &flat.0, &flat.1);
            assert_eq!(relaid(&tensor, layout), (shape.clone(), stored.clone()), "{origin} to {layout}");
            let tensor = again(layout, &flat.0, (shape.clone(), stored.clone()));
            for target in ["NCHW", "NHWC", "HWCN"] {
                assert_eq!(relaid(&tensor, target), plain_of_first_depth(target), "{layout} to {target}");
            }
            assert_eq!(relaid(&tensor, "ND"), flat, "{layout} to the original order");
        }
    }
}

#[test]
fn blocks_with_depth() {
    let formulas: [Formula; 2] = [
        ("NDC1HWC0", vec![N, D, 2, H, W, 16], |n, c, d, h, w| vec![n, d, c / 16, h, w, c % 16]),
        ("FRACTAL_Z_3D", vec![D * 2 * H * W, 2, 16, 16], |n, c, d, h, w| {
            vec![((d * 2 + c / 16) * H + h) * W + w, n / 16, n % 16, c % 16]
        }),
    ];
    for (layout, shape, place) in formulas {
        let mut stored = vec![0; shape.iter().product()];
        for d in 0..D {
            for (n, c, h, w) in places(H, W) {
                stored[offset(&shape, &place(n, c, d, h, w))] = value(n, c, d, h, w);
            }
        }
        for origin in ["NCDHW", "NDHWC", "DHWCN"] {
            let flat = plain(origin);
            let tensor = dumped(origin, &flat.0, &flat.0, &flat.1);
            assert_eq!(relaid(&tensor, layout), (shape.clone(), stored.clone()), "{origin} to {layout}");
            let tensor = again(layout, &flat.0, (shape.clone(), stored.clone()));
            assert_eq!(relaid(&tensor, "NCDHW"), plain("NCDHW"), "{layout} of {origin}");
        }
    }
}

fn places(height: usize, width: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..N).flat_map(move |n| {
        (0..C).flat_map(move |c| (0..height).flat_map(move |h| (0..width).map(move |w| (n, c, h, w))))
    })
}

/// The first depth of [`plain`], for layouts without it.
fn plain_of_first_depth(axes: &str) -> (Vec<usize>, Vec<i32>) {
    let (shape, values) = plain(&format!("D{axes}"));
    (shape[1..].to_vec(), values[..shape[1..].iter().product()].to_vec())
}

#[test]
fn matrices_in_blocks() {
    for lead in [vec![], vec![3], vec![2, 3]] {
        let shape: Vec<usize> = lead.iter().copied().chain([18, 37]).collect();
        let count: usize = shape.iter().product();
        let values: Vec<i32> = (1..=count as i32).collect();
        let tensor = dumped("ND", &shape, &shape, &values);
        let (stored, blocks) = relaid(&tensor, "FRACTAL_NZ");
        assert_eq!(stored, lead.iter().copied().chain([3, 2, 16, 16]).collect::<Vec<_>>());
        for (at, &value) in values.iter().enumerate() {
            let (outer, i, j) = (at / (18 * 37), at / 37 % 18, at % 37);
            let place = [outer, j / 16, i / 16, i % 16, j % 16];
            assert_eq!(blocks[offset(&[0, 3, 2, 16, 16], &place)], value, "{place:?}");
        }
        assert_eq!(blocks.iter().filter(|&&value| value == 0).count(), blocks.len() - count);
        assert_eq!(relaid(&again("FRACTAL_NZ", &shape, (stored, blocks)), "ND"), (shape, values));
    }
    let vector = dumped("ND", &[20], &[20], &(1..=20).collect::<Vec<_>>());
    let (stored, blocks) = relaid(&vector, "FRACTAL_NZ");
    assert_eq!(stored, [2, 1, 16, 16]);
    assert_eq!(relaid(&again("FRACTAL_NZ", &[20], (stored, blocks)), "ND").1, (1..=20).collect::<Vec<_>>());
}

#[test]
fn groups_share_blocks() {
    // By the formula: groups that together fill whole blocks are stored in them, diagonally.
    for (groups, channels, filters) in [(2, 8, 16), (3, 8, 6), (4, 4, 2), (5, 16, 16), (7, 3, 5)] {
        let total = groups * filters;
        let shape = [2, 3, channels, total];
        let count: usize = shape.iter().product();
        let values: Vec<i32> = (1..=count as i32).collect();
        let mut tensor = dumped("HWCN", &shape, &shape, &values);
        tensor.sub_format = groups as i32;
        let (stored, blocks) = relaid(&tensor, "FRACTAL_Z");
        let lcm = |a: usize, b: usize| (1..).map(|k| a * k).find(|all| all % b == 0).unwrap();
        let together = lcm(lcm(channels, 16) / channels, lcm(filters, 16) / filters).min(groups);
        let c1 = (together * channels).div_ceil(16);
        let n1 = (together * filters).div_ceil(16);
        assert_eq!(stored, [groups.div_ceil(together) * c1 * 6, n1, 16, 16], "{groups} groups");
        for (at, &value) in values.iter().enumerate() {
            let (h, w) = (at / (3 * channels * total), at / (channels * total) % 3);
            let (c, n) = (at / total % channels, at % total);
            let (g, n) = (n / filters, n % filters);
            let (c, n) = (g % together * channels + c, g % together * filters + n);
            let row = (g / together * c1 + c / 16) * 6 + h * 3 + w;
            assert_eq!(
                blocks[offset(&stored, &[row, n / 16, n % 16, c % 16])],
                value,
                "{groups} groups, {at}"
            );
        }
        let mut back = again("FRACTAL_Z", &shape, (stored, blocks));
        back.sub_format = groups as i32;
        assert_eq!(back.relaid(format("HWCN"), None).unwrap().tensor.shape(), shape);
        assert_eq!(relaid(&back, "HWCN").1, values, "{groups} groups and back");
    }
}

#[test]
fn what_is_not_known_is_said() {
    let cube = dumped("NC1HWC0", &[2, 1, 2, 2, 16], &[2, 2, 2, 2], &[0; 128]);
    assert_eq!(cube.relaid(format("NCHW"), None).unwrap().unsure, None, "every order has the same sizes");
    let odd = dumped("NC1HWC0", &[2, 1, 2, 3, 16], &[9, 9], &vec![0; 192]);
    let relaid = odd.relaid(format("NCHW"), None).unwrap();
    assert_eq!(relaid.tensor.shape(), [2, 16, 2, 3]);
    assert!(relaid.unsure.unwrap().contains("padding was not removed"));
    // Two filters of 3 channels and 5x5, or 5 channels of 3x5 and so on: both fill the same blocks.
    let twice = dumped("FRACTAL_Z", &[15, 1, 16, 16], &[3, 5, 3, 5], &vec![0; 15 * 256]);
    assert!(twice.relaid(format("NCHW"), None).unwrap().unsure.unwrap().contains("more than one order"));
    let known = twice.relaid(format("NCHW"), Some(format("HWCN"))).unwrap();
    assert_eq!((known.tensor.shape(), known.unsure), (&[5, 3, 3, 5][..], None));
    let kernel = dumped("FRACTAL_Z", &[6, 1, 16, 16], &[1, 1], &vec![0; 6 * 256]);
    assert_eq!(
        kernel.relaid(format("NCHW"), None).unwrap_err().to_string(),
        "expected an original shape that fills FRACTAL_Z blocks of shape [6, 1, 16, 16], found [1, 1]"
    );
    let unknown = dumped("FRACTAL_DECONV", &[2, 2], &[2, 2], &[1, 2, 3, 4]);
    assert_eq!(
        unknown.relaid(format("NCHW"), None).unwrap_err().to_string(),
        "layout FRACTAL_DECONV with 2 dimensions is not converted"
    );
}

#[test]
fn many_groups_cost_no_more_than_their_elements() {
    let groups = 1 << 17;
    let mut tensor = dumped("HWCN", &[1, 1, 1, groups], &[], &vec![1; groups]);
    tensor.sub_format = groups as i32;
    let started = std::time::Instant::now();
    let blocks = tensor.relaid(format("FRACTAL_Z"), None).unwrap().tensor;
    assert_eq!(blocks.shape(), [groups / 16, 1, 16, 16]);
    // The square of the number of groups takes far longer.
    assert!(started.elapsed().as_secs_f64() < 5.0, "{:?}", started.elapsed());
}

#[test]
fn hostile_shapes_cost_no_memory() {
    let empty = dumped("NHWC", &[1 << 40, 0, 1 << 20, 1], &[], &[]);
    assert_eq!(empty.relaid(format("NCHW"), None).unwrap().tensor.shape(), [1 << 40, 1, 0, 1 << 20]);
    let padded = dumped("HWCN", &[1 << 10, 1 << 10, 1, 1], &[], &vec![1; 1 << 20]);
    let refused = padded.relaid(format("FRACTAL_Z"), None).unwrap_err().to_string();
    assert!(refused.starts_with("the blocks of a layout need 1073741824 bytes of memory"), "{refused}");
    let mut groups = dumped("HWCN", &[1, 1, 2, 6], &[], &[1; 12]);
    groups.sub_format = i32::MAX;
    assert!(groups.relaid(format("FRACTAL_Z"), None).is_err());
    let mut original = dumped("NC1HWC0", &[1, 1, 1, 1, 16], &[1, 1, 1, 1], &[1; 16]);
    original.original_shape = vec![u64::MAX; 4];
    assert!(original.relaid(format("NCHW"), None).unwrap().unsure.is_some());
}

//! The kernel, compiled by g++ for this machine, against the kernels of this project. Blocks and threads run one after
//! the other, which changes nothing: each has its own elements, and results are merged in a fixed order.
#![allow(clippy::unwrap_used, missing_docs)]

mod standin;

use std::sync::OnceLock;

use libloading::{Library, Symbol};
use ulpscope_gpu::{Driver, Error, Launch, Outcome, PARTIAL_BYTES, Tensor, function_name};
use ulpscope_kernels::{Digest, DigestKind, Stats, Threads, digest, stats};
use ulpscope_tensor::{DType, NumberKind, View};

/// How far sums may be from those of the host, which are in a different order.
const BOUND: f64 = 1e-12;

/// The kernel as a library; `None` without g++.
fn kernel() -> Option<&'static Library> {
    static KERNEL: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: the library was just made from our own source.
    #[expect(unsafe_code)]
    let open = |path| unsafe { Library::new(path) }.unwrap();
    KERNEL.get_or_init(|| standin::library().map(open)).as_ref()
}

/// Measures views of one dtype in one launch.
fn run(views: &[View<'_>], origins: &[u64]) -> Option<Vec<Outcome>> {
    let library = kernel()?;
    let dtype = views[0].dtype();
    let mut outcomes = vec![Outcome::default(); views.len()];
    let mut tensors = Vec::new();
    let mut memory = Vec::new();
    for ((view, &origin), outcome) in views.iter().zip(origins).zip(&mut outcomes) {
        let tensor = Tensor::new(dtype, origin, view.shape(), view.strides()).unwrap();
        let mut partials = vec![0u64; tensor.blocks() as usize * PARTIAL_BYTES / 8];
        let mut finished = vec![0u32; 1];
        let addresses = (partials.as_mut_ptr() as u64, finished.as_mut_ptr() as u64);
        tensors.push(tensor.with_memory(addresses.0, addresses.1, std::ptr::from_mut(outcome) as u64));
        memory.push((partials, finished));
    }
    let launch = Launch::new(tensors, true);
    // SAFETY: the structures have the layout of the kernel, which a test below checks, and all memory is alive.
    #[expect(unsafe_code)]
    unsafe {
        let set_block: Symbol<'_, unsafe extern "C" fn(u32)> = library.get(b"set_block\0").unwrap();
        let name = function_name(dtype).unwrap();
        let function: Symbol<'_, unsafe extern "C" fn(Launch)> = library.get(name.as_bytes()).unwrap();
        for block in 0..launch.blocks() {
            set_block(block);
            function(launch);
        }
    }
    assert!(memory.iter().all(|(_, finished)| finished == &[0]));
    Some(outcomes)
}

/// Random bytes, the same each time.
fn bytes(count: usize, mut seed: u64) -> Vec<u8> {
    let next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn close(found: f64, expected: f64, scale: f64) -> bool {
    found == expected
        || found.is_nan() && expected.is_nan()
        || (found - expected).abs() <= BOUND * scale.max(expected.abs())
}

fn check(outcome: &Outcome, view: &View<'_>, what: &str) {
    let dtype = view.dtype();
    let expected = Stats { subnormals: 0, ..stats(view, Threads::One) };
    let found = outcome.stats(dtype, view.len() as u64, 1);
    assert_eq!(outcome.done, 1, "{what}");
    assert_eq!(outcome.digest(), digest(view, DigestKind::Mix64), "{what}");
    let scale = (0..view.len()).map(|index| view.get(index).to_f64().abs()).filter(|value| value.is_finite());
    let scale = scale.sum::<f64>() / view.len().max(1) as f64;
    let (mean, norm) = (expected.mean.unwrap_or(0.0), expected.norm);
    assert!(close(found.mean.unwrap_or(0.0), mean, scale), "{what}: mean {:?} {mean}", found.mean);
    assert!(close(found.norm, norm, norm), "{what}: norm {} {norm}", found.norm);
    let without_sums = |stats: &Stats| Stats { mean: None, norm: 0.0, ..stats.clone() };
    // NaN is not equal to itself; the text is.
    assert_eq!(format!("{:?}", without_sums(&found)), format!("{:?}", without_sums(&expected)), "{what}");
}

fn dtypes() -> Vec<DType> {
    DType::ALL.into_iter().filter(|&dtype| function_name(dtype).is_ok()).collect()
}

#[test]
fn every_dtype_in_every_layout() {
    if kernel().is_none() {
        return;
    }
    for dtype in dtypes() {
        let size = dtype.size();
        let mut memory = bytes(size * 5000 + 64, 7);
        if dtype.encoding().kind() == NumberKind::Bool {
            memory.iter_mut().for_each(|byte| *byte &= 1);
        }
        let start = memory.as_ptr() as u64;
        let s = size as isize;
        // Shape, strides in elements, first element.
        let layouts: [(&[usize], &[isize], usize); 10] = [
            (&[30, 16], &[160, 1], 0),
            (&[70, 70], &[70, 1], 0),
            (&[70, 70], &[1, 70], 0),
            (&[17, 30], &[140, 2], 3),
            (&[9, 1, 100], &[0, 5, 1], 1),
            (&[3, 4, 5, 6], &[1000, 7, 1, 30], 2),
            (&[1], &[1], 1),
            (&[], &[], 5),
            (&[0, 3], &[3, 1], 0),
            (&[4999], &[1], 1),
        ];
        let views: Vec<(View<'_>, u64)> = layouts
            .iter()
            .map(|(shape, strides, first)| {
                let strides: Vec<isize> = strides.iter().map(|stride| stride * s).collect();
                let origin = first * size;
                (View::strided(dtype, *shape, strides, &memory, origin).unwrap(), start + origin as u64)
            })
            .collect();
        let (views, origins): (Vec<View<'_>>, Vec<u64>) = views.into_iter().unzip();
        // All in one launch, and each alone: the same bits.
        let together = run(&views, &origins).unwrap();
        for ((view, origin), outcome) in views.iter().zip(&origins).zip(&together) {
            check(outcome, view, &format!("{dtype} {:?} {:?}", view.shape(), view.strides()));
            let alone = run(std::slice::from_ref(view), &[*origin]).unwrap();
            assert_eq!(format!("{:?}", alone[0]), format!("{outcome:?}"));
        }
    }
}

#[test]
fn every_8_and_16_bit_pattern_is_decoded() {
    if kernel().is_none() {
        return;
    }
    for dtype in dtypes().into_iter().filter(|dtype| dtype.size() <= 2) {
        let patterns: Vec<u8> = match dtype.size() {
            1 if dtype.encoding().kind() == NumberKind::Bool => vec![0, 1],
            1 => (0..=255).collect(),
            _ => (0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
        };
        let views: Vec<View<'_>> =
            patterns.chunks(dtype.size()).map(|one| View::contiguous(dtype, vec![1], one).unwrap()).collect();
        let views = if dtype.size() == 2 { views.into_iter().step_by(37).collect() } else { views };
        for part in views.chunks(16) {
            let origins: Vec<u64> =
                part.iter().map(|view| view.as_packed().unwrap().as_ptr() as u64).collect();
            for (outcome, view) in run(part, &origins).unwrap().iter().zip(part) {
                check(outcome, view, &format!("{dtype} {:?}", view.as_packed()));
            }
        }
    }
}

#[test]
fn layout_and_alignment_do_not_change_a_bit() {
    if kernel().is_none() {
        return;
    }
    // More than one block, with a last round that is not full.
    let count = 100_003;
    let values: Vec<u8> = (0..count).flat_map(|index| ((index as f32).sin() * 1e3).to_le_bytes()).collect();
    let mut shifted = vec![0; 4];
    shifted.extend_from_slice(&values);
    let mut spread = Vec::new();
    values.chunks(4).for_each(|element| {
        spread.extend_from_slice(element);
        spread.extend_from_slice(&[1; 4]);
    });
    let packed = View::contiguous(DType::F32, vec![count], &values).unwrap();
    let other = View::contiguous(DType::F32, vec![count], &shifted[4..]).unwrap();
    let strided = View::strided(DType::F32, vec![count], vec![8], &spread, 0).unwrap();
    let found: Vec<String> =
        [(&packed, values.as_ptr()), (&other, shifted[4..].as_ptr()), (&strided, spread.as_ptr())]
            .into_iter()
            .map(|(view, at)| format!("{:?}", run(std::slice::from_ref(view), &[at as u64]).unwrap()))
            .collect();
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
    check(&run(std::slice::from_ref(&packed), &[values.as_ptr() as u64]).unwrap()[0], &packed, "packed");
}

#[test]
fn a_digest_depends_on_positions_and_length() {
    let digest = |bytes: &[u8]| {
        digest(&View::contiguous(DType::U8, vec![bytes.len()], bytes).unwrap(), DigestKind::Mix64)
    };
    let all: [Digest; 6] = [
        digest(&[]),
        digest(&[0]),
        digest(&[0, 0]),
        digest(&[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        digest(&[9, 2, 3, 4, 5, 6, 7, 8, 1]),
        digest(&[0; 16]),
    ];
    assert!((0..all.len()).all(|one| (0..one).all(|other| all[one] != all[other])), "{all:x?}");
}

#[test]
fn structures_have_the_layout_of_the_kernel() {
    let Some(library) = kernel() else { return };
    // SAFETY: the function has no arguments and returns a number.
    #[expect(unsafe_code)]
    let sizes = unsafe { library.get::<unsafe extern "C" fn() -> u64>(b"sizes\0").unwrap()() };
    let (launch, partial, result) = (sizes >> 16, sizes >> 8 & 255, sizes & 255);
    assert_eq!(launch as usize, size_of::<Launch>());
    assert_eq!((partial as usize, result as usize), (PARTIAL_BYTES, size_of::<Outcome>()));
    // The driver passes up to 4 KiB by value.
    assert!(size_of::<Launch>() <= 4096);
}

#[test]
fn without_a_gpu_opening_the_driver_is_an_error_that_says_so() {
    match Driver::open() {
        Ok(_) => {}
        Err(Error::Library { library, .. }) => assert_eq!(library, "the CUDA driver"),
        Err(Error::Driver { function, .. }) => assert_eq!(function, "cuInit"),
        Err(other) => panic!("{other}"),
    }
}

//! Programs with calls removed and inserted: every other call is paired with its true counterpart, and none is lost.

#![allow(clippy::unwrap_used)]

mod pairing_programs;

use pairing_programs::{Paired, Program, pair_programs};
use proptest::prelude::*;
use ulpscope_compare::{How, Matching};

const APIS: [&str; 6] = [
    "Tensor.__add__",
    "Functional.linear",
    "Torch.matmul",
    "Functional.gelu",
    "Tensor.transpose",
    "Torch.cat",
];

/// A call that knows who it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    identity: usize,
    api: usize,
    shape: [u64; 2],
}

fn program(steps: &[Step]) -> Program {
    steps.iter().fold(Program::new(), |program, step| program.api(APIS[step.api], &step.shape))
}

/// The steps forward, then backward in reverse.
fn trained(steps: &[Step]) -> Program {
    let mut numbers = [0; APIS.len()];
    let mut backward = Vec::new();
    for step in steps {
        backward.push((step, numbers[step.api]));
        numbers[step.api] += 1;
    }
    let back = |program: Program, (step, number): (&Step, u32)| {
        program.backward(APIS[step.api], number, &step.shape)
    };
    backward.into_iter().rev().fold(program(steps), back)
}

/// Calls of an API in one of some shapes.
fn steps(shapes: u64, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..APIS.len(), 0..shapes), count).prop_map(|calls| {
        let step =
            |(identity, (api, shape)): (usize, (usize, u64))| Step { identity, api, shape: [2, shape] };
        calls.into_iter().enumerate().map(step).collect()
    })
}

/// Leaves calls out and puts new ones in, at places given as parts of the whole.
fn changed(steps: &[Step], changes: &[(u64, bool, usize, u64)]) -> Vec<Step> {
    let mut changed = steps.to_vec();
    for (number, &(place, leave_out, api, shape)) in changes.iter().enumerate() {
        let at = (place as usize * changed.len()) / 1000;
        if leave_out && !changed.is_empty() {
            changed.remove(at.min(changed.len() - 1));
        } else {
            changed.insert(at, Step { identity: steps.len() + number, api, shape: [2, shape] });
        }
    }
    changed
}

/// How many of the calls that both have are paired with each other, and how many there are.
fn true_partners(paired: &Paired, target: &[Step], golden: &[Step]) -> (usize, usize) {
    let partners = paired.partners();
    let common: Vec<(usize, usize)> = target
        .iter()
        .enumerate()
        .filter_map(|(at, step)| Some((at, golden.iter().position(|other| other.identity == step.identity)?)))
        .collect();
    (common.iter().filter(|(ours, theirs)| partners.get(ours) == Some(theirs)).count(), common.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn unchanged_calls_are_paired_when_shapes_vary(
        golden in steps(500, 300..500),
        changes in prop::collection::vec((0..1000u64, any::<bool>(), 0..APIS.len(), 0..500u64), 0..20),
    ) {
        let target = changed(&golden, &changes);
        let paired = pair_programs(&program(&target), &program(&golden), Matching::Auto);
        let (found, common) = true_partners(&paired, &target, &golden);
        prop_assert!(found * 100 >= common * 99, "{found} of {common}");
    }

    #[test]
    fn backward_calls_follow_their_forward_calls(
        golden in steps(3, 1..80),
        changes in prop::collection::vec((0..1000u64, any::<bool>(), 0..APIS.len(), 0..3u64), 0..10),
    ) {
        let target = changed(&golden, &changes);
        for matching in [Matching::Auto, Matching::Align] {
            let paired = pair_programs(&trained(&target), &trained(&golden), matching);
            let partners = paired.partners();
            // The backward call of the first forward call is the last call, and so on.
            let mirrored = |call: usize, calls: usize| 2 * calls - 1 - call;
            for call in 0..target.len() {
                let backward = partners.get(&mirrored(call, target.len())).copied();
                let expected = partners.get(&call).map(|&partner| mirrored(partner, golden.len()));
                prop_assert_eq!(backward, expected);
            }
        }
    }

    #[test]
    fn nothing_vanishes_and_nothing_is_paired_twice(
        golden in steps(2, 0..120),
        target in steps(2, 0..120),
    ) {
        for matching in [Matching::Auto, Matching::Exact, Matching::Shape, Matching::Fuzzy, Matching::Align] {
            // `pair_programs` checks that the units cover both sides.
            pair_programs(&program(&target), &program(&golden), matching);
        }
    }

    #[test]
    fn alignment_is_as_long_as_the_longest_common_subsequence(
        golden in steps(2, 0..60),
        target in steps(2, 0..60),
    ) {
        let same = |a: &Step, b: &Step| (a.api, a.shape) == (b.api, b.shape);
        let mut lengths = vec![vec![0u64; golden.len() + 1]; target.len() + 1];
        for (x, ours) in target.iter().enumerate() {
            for (y, theirs) in golden.iter().enumerate() {
                let either = lengths[x][y + 1].max(lengths[x + 1][y]);
                lengths[x + 1][y + 1] = if same(ours, theirs) { lengths[x][y] + 1 } else { either };
            }
        }
        let paired = pair_programs(&program(&target), &program(&golden), Matching::Align);
        let partners = paired.partners();
        let alike = partners.iter().filter(|&(&ours, &theirs)| same(&target[ours], &golden[theirs])).count();
        prop_assert!(alike as u64 >= lengths[target.len()][golden.len()]);
    }
}

#[test]
fn thousands_of_equal_calls_pair_one_by_one() {
    let run = |count: usize| vec![Step { identity: 0, api: 0, shape: [2, 2] }; count];
    let paired = pair_programs(&program(&run(10_000)), &program(&run(9_999)), Matching::Align);
    assert_eq!((paired.pairing.counts.exact, paired.pairing.counts.target_only), (9_999, 1));
    assert!(
        pair_programs(&program(&run(10_000)), &program(&run(10_000)), Matching::Auto).all_are(How::Exact)
    );
}

#[test]
fn nothing_in_common_ends_at_once() {
    let run = |api: usize| (0..20_000).map(move |at| Step { identity: at, api, shape: [at as u64, 2] });
    let ours: Vec<Step> = run(0).collect();
    let theirs: Vec<Step> = run(1).collect();
    let paired = pair_programs(&program(&ours), &program(&theirs), Matching::Auto);
    assert_eq!(paired.pairing.counts.pairs(), 0);
}

/// Numbers that look random and are the same every time.
fn scrambled(seed: u64, count: usize, below: u64) -> Vec<u64> {
    let mut state = seed;
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn long_sequences_with_little_in_common_are_given_up_on_in_time() {
    let random = |seed| -> Vec<Step> {
        let calls = scrambled(seed, 30_000, 12).into_iter().enumerate();
        calls
            .map(|(identity, call)| Step { identity, api: call as usize % 6, shape: [2, call / 6] })
            .collect()
    };
    let paired = pair_programs(&program(&random(1)), &program(&random(2)), Matching::Auto);
    // The longest common subsequence of such sequences has about a third of them.
    assert!(paired.pairing.counts.pairs() > 5_000, "{:?}", paired.pairing.counts);
}

#[test]
fn long_insertions_in_a_repetitive_program_are_skipped() {
    // Six hundred equal layers; the target makes every tenth one twice, as one stretch of calls between marks.
    let layer = |steps: &mut Vec<Step>| {
        for api in 0..5 {
            steps.push(Step { identity: steps.len(), api, shape: [2, 2] });
        }
    };
    let mut golden = Vec::new();
    let mut target = Vec::new();
    for number in 0..600u64 {
        layer(&mut golden);
        layer(&mut target);
        if number % 10 == 0 {
            layer(&mut target);
        }
        let mark = |steps: &Vec<Step>| Step { identity: steps.len(), api: 5, shape: [2, 3 + number % 7] };
        golden.push(mark(&golden));
        target.push(mark(&target));
    }
    let paired = pair_programs(&program(&target), &program(&golden), Matching::Auto);
    assert_eq!((paired.pairing.counts.target_only, paired.pairing.counts.golden_only), (300, 0));
}

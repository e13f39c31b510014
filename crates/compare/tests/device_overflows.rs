//! Overflows that devices detected, of dumps that are damaged.
#![allow(clippy::unwrap_used)]

use std::fs;

use ulpscope_compare::overflow::device_overflows;
use ulpscope_dump::{Dump, Problems, Select};

#[test]
fn a_rank_that_cannot_be_opened_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, text) in [("rank0", "{\"data\": {}}"), ("rank1", "{\"data\": ")] {
        let rank = folder.path().join("step0").join(rank);
        fs::create_dir_all(&rank).unwrap();
        fs::write(rank.join("dump.json"), text).unwrap();
    }
    let dump = Dump::open(folder.path(), &Select::default()).unwrap();
    let mut problems = Problems::default();
    assert!(device_overflows(&dump, &mut problems).is_empty());
    let [problem] = problems.listed() else { panic!("{:?}", problems.listed()) };
    assert!(problem.contains("rank1"), "{problem}");
}

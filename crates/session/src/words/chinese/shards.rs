//! Ranks that do not have what they should, in Simplified Chinese.

use ulpscope_compare::{ParameterFault, ParameterFaultKind, ParameterSlice, ShardFault};
use ulpscope_report::format_short;

pub(super) fn sentence(fault: &ShardFault) -> String {
    match fault {
        ShardFault::Parameter(fault) => parameter(fault),
        ShardFault::Unreduced { partial, entry, ranks } => format!(
            "{} 直接使用了 {entry}，它只是 {partial} 之和的一部分，没有集合通信对其求和：缺少 all-reduce。",
            named(ranks)
        ),
        ShardFault::Replica { entry, rank } => {
            format!("{entry} 在所有 rank 上应当相同，但 rank {rank} 的与标杆不一致。")
        }
    }
}

fn parameter(fault: &ParameterFault) -> String {
    let ParameterFault { parameter, ranks, kind, .. } = fault;
    let ranks = named(ranks);
    match kind {
        ParameterFaultKind::OtherSlice { found, expected } => {
            format!("{ranks} 的 {parameter} 分片等于标杆的{}；应为{}。", slice(found), slice(expected))
        }
        ParameterFaultKind::SameAs(others) => format!(
            "{ranks} 的 {parameter} 分片与 {} 的统计量相同，合在一起不等于标杆的参数。",
            named(others)
        ),
        ParameterFaultKind::Differs { expected, error } => {
            let error = format_short(error * 100.0);
            match expected {
                Some(expected) => {
                    format!("{ranks} 的 {parameter} 分片与标杆的{}相差 {error} %。", slice(expected))
                }
                None => format!("{ranks} 的 {parameter} 与标杆相差 {error} %。"),
            }
        }
    }
}

fn slice(slice: &ParameterSlice) -> String {
    let ParameterSlice { dim, start, end } = slice;
    match dim {
        0 => format!("第 {start}:{end} 行"),
        1 => format!("第 {start}:{end} 列"),
        dim => format!("第 {dim} 维的 {start}:{end}"),
    }
}

fn named(ranks: &[u64]) -> String {
    let numbers: Vec<String> = ranks.iter().map(u64::to_string).collect();
    format!("rank {}", numbers.join("、"))
}

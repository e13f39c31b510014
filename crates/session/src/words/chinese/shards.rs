//! Ranks that do not have what they should, in Simplified Chinese.

use ulpscope_compare::{ParameterFault, ParameterFaultKind, ParameterSlice, ShardFault, StagePlace};
use ulpscope_report::format_short;

pub(super) fn sentence(fault: &ShardFault) -> String {
    match fault {
        ShardFault::Parameter(fault) => parameter(fault),
        ShardFault::Unreduced { partial, entry, ranks } => format!(
            "{} 直接使用了 {entry}，它只是 {partial} 之和的一部分，没有集合通信对其求和：缺少 all-reduce。",
            named(ranks)
        ),
        ShardFault::LostPiece { entry, ranks, pieces, rows, expected } => format!(
            "{} 的批次在 {entry} 处只有标杆 {expected} 行中的 {rows} 行（共 {pieces} 个 micro-batch）：缺少 micro-batch。",
            named(ranks)
        ),
        ShardFault::NoGradient { stage, ranks, lacking, .. } => match lacking {
            None => format!("流水线阶段 {stage}（{}）没有反向传播：没有收到下一阶段的梯度。", named(ranks)),
            Some(pieces) => format!(
                "流水线阶段 {stage}（{}）对 micro-batch {} 没有反向传播。",
                named(ranks),
                numbers(pieces)
            ),
        },
        ShardFault::Message { stages: [from, to], ranks, entry, is_gradient, is_zero } => {
            let what = if *is_gradient { "梯度" } else { "结果" };
            let found = if *is_zero { "为零" } else { "不一致" };
            format!(
                "{entry} 在流水线阶段 {to}（{}）上{found}，而阶段 {from} 算出的{what}是正确的：没有发送或没有接收。",
                named(ranks)
            )
        }
        ShardFault::Undivided { stage, ranks, entry, pieces, is_larger } => {
            let stage = stage.map(|stage| format!("流水线阶段 {stage} 的")).unwrap_or_default();
            let (factor, why) = match is_larger {
                true => (format!("{pieces} 倍"), "micro-batch 之和没有除以其个数"),
                false => (format!("1/{pieces}"), "除以 micro-batch 个数的操作做了两次"),
            };
            format!("{stage}梯度（{}）是标杆的 {factor}，第一个是 {entry}：{why}。", named(ranks))
        }
        ShardFault::TiedGradients { parameter, stages, ranks, .. } => format!(
            "{parameter} 由流水线阶段 {}（{}）共享，但其梯度不一致：各阶段的梯度没有求和。",
            numbers(stages),
            named(ranks)
        ),
        ShardFault::Replica { entry, rank } => {
            format!("{entry} 在所有 rank 上应当相同，但 rank {rank} 的与标杆不一致。")
        }
    }
}

fn parameter(fault: &ParameterFault) -> String {
    let ParameterFault { parameter, ranks, kind, stage, .. } = fault;
    let ranks = match stage {
        None => named(ranks),
        Some(StagePlace { stage, name: None }) => format!("{}（流水线阶段 {stage}）", named(ranks)),
        Some(StagePlace { stage, name: Some(name) }) => {
            format!("{}（流水线阶段 {stage}，在该处名为 {name}）", named(ranks))
        }
    };
    match kind {
        ParameterFaultKind::OtherParameter { found, parameters } => {
            let more = match parameters {
                0 | 1 => String::new(),
                count => format!("；另有 {} 个参数也是如此", count - 1),
            };
            format!("{ranks} 的 {parameter} 等于标杆的另一个参数 {found}{more}。")
        }
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
    format!("rank {}", numbers(ranks))
}

fn numbers(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    numbers.join("、")
}

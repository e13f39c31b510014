//! Where two programs part, in Chinese.

use ulpscope_report::{format_ratio, format_short};

use super::super::level;
use super::{side_word, spoken};
use crate::region::{Edge, FirstCall, RegionStatement, lines};

pub(super) fn sentence(said: &RegionStatement) -> String {
    match said {
        RegionStatement::Edge { edge, target, golden } => {
            let (word, what) = match edge {
                Edge::After => ("之后    ", "一致"),
                Edge::Before => ("之前    ", "不同"),
            };
            let golden = if golden == target { String::new() } else { format!("；标杆中为 {golden}") };
            format!("{word}{target}（{what}{golden}）")
        }
        RegionStatement::MayBeginEarlier => {
            "只比较了统计量，单个元素的差异几乎不会显示：差异可能更早产生。记录张量可以看清。".to_owned()
        }
        RegionStatement::FromStart => "之后    运行的输入和参数".to_owned(),
        RegionStatement::MoreBefore(count) => format!("之前另有 {count} 个调用一致。"),
        RegionStatement::CodeOf { side, code } => format!("{}  {code}", side_word(*side)),
        RegionStatement::Call(call) => lines(&[call]).concat(),
        RegionStatement::NoCalls => "没有调用".to_owned(),
        RegionStatement::NotListed { computing, others: 0 } => {
            format!("未列出：另有 {computing} 个计算调用。")
        }
        RegionStatement::NotListed { computing: 0, others } => format!("未列出：{}。", moving(*others)),
        RegionStatement::NotListed { computing, others } => {
            format!("未列出：另有 {computing} 个计算调用，以及 {}。", moving(*others))
        }
        RegionStatement::OthersMarked => "- 只移动元素，或不依赖任何参数".to_owned(),
        RegionStatement::Excess { call, distance, allowed } => format!(
            "{} 的结果相对距离为 {}：累积舍入所允许误差的 {} 倍（{}）。",
            spoken(call),
            format_short(*distance),
            format_ratio(distance / allowed),
            format_short(*allowed)
        ),
        RegionStatement::Confidence { region, first } => {
            let words = ["很高", "高", "中等", "低"];
            let region = format!("差异产生于其间：{}（{region:.2}）", words[level(*region)]);
            match first {
                None => region,
                Some(FirstCall { call, confidence }) => format!(
                    "{region}；由 {} 引起：{}（{confidence:.2}）",
                    spoken(call),
                    words[level(*confidence)]
                ),
            }
        }
    }
}

fn moving(count: u64) -> String {
    format!("{count} 个只移动元素或不依赖任何参数的调用")
}

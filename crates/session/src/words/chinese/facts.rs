//! What was seen at an entry, in Chinese.

use ulpscope_compare::words::{argument_name, factor, statistics_apart, typed, typed_values};
use ulpscope_compare::{ArgumentDifference, Fact, Likeness, NonFiniteCount, Plain};
use ulpscope_report::{format_count, format_short};

use super::side_word;

pub(super) fn fact(seen: &Fact) -> String {
    match seen {
        Fact::Elements { distance, largest, likeness } => {
            let text = format!("相对距离 {}，最大误差 {}", format_short(*distance), format_short(*largest));
            match likeness {
                None => text,
                Some(Likeness::FewElements { differ, of }) => {
                    format!("{text}，在 {} 个元素中的 {} 个", format_count(*of), format_count(*differ))
                }
                Some(Likeness::Zero) => format!("{text}，如同为零"),
                Some(Likeness::SignFlipped) => format!("{text}，如同符号相反"),
                Some(Likeness::Factor(by)) => format!("{text}，如同乘以 {}", factor(*by)),
            }
        }
        Fact::Statistics { target, golden } => {
            let apart = statistics_apart(target, golden);
            let apart = apart.iter().map(|(name, one, other)| format!("{name} {one}（标杆 {other}）"));
            format!("按统计值：{}", apart.collect::<Vec<String>>().join("，"))
        }
        Fact::ElementsDiffer { differ, of, .. } => {
            format!("{} 个元素中有 {} 个不同", format_count(*of), format_count(*differ))
        }
        Fact::NonFinite { elements, counts: [target, golden] } => format!(
            "{} 个元素只在一侧为 NaN 或无穷大：目标 {}，标杆 {}",
            format_count(*elements),
            non_finite(*target),
            non_finite(*golden)
        ),
        Fact::NonFiniteStatistics(side) => format!("只有{}的统计值为 NaN 或无穷大", side_word(*side)),
        Fact::BothNan { elements: 0 } => "两侧的统计值均为 NaN，无法比较".to_owned(),
        Fact::BothNan { elements } => format!("{} 个元素在两侧均为 NaN；其余一致", format_count(*elements)),
        Fact::DigestsDiffer => "摘要不同".to_owned(),
        Fact::OnlyDigestsDiffer => "摘要不同，统计值相同：请保存张量".to_owned(),
        Fact::NothingInCommon => "两侧没有共同的元素或统计值".to_owned(),
        Fact::Uninitialised => "未初始化的内存".to_owned(),
        Fact::Devices => "设备".to_owned(),
        Fact::Objects => "不是张量的对象".to_owned(),
        Fact::Values { target, golden } => {
            let (target, golden) = typed_values(target, golden);
            format!("{target}（标杆 {golden}）")
        }
        Fact::Kinds { target, golden } => format!("{}（标杆 {}）", plain(target), plain(golden)),
        Fact::Shapes { target, golden } => format!("形状 {target:?}（标杆 {golden:?}）"),
        Fact::Reshaped { target, golden, elements } => {
            let seen = elements.as_ref().map(|seen| format!("{}；", fact(seen))).unwrap_or_default();
            format!("{seen}形状 {target:?}（标杆 {golden:?}），按顺序比较")
        }
        Fact::OnlyIn { side, value } => format!("{} 仅在{}", plain(value), side_word(*side)),
        Fact::Unpaired(reason) => reason.clone(),
        Fact::Unread => "该调用无法读取".to_owned(),
        Fact::InheritedFrom(call) => format!("来自 {call}"),
        Fact::Unexplained => "最终结果的差异超过累积舍入所允许的范围，没有调用能解释".to_owned(),
    }
}

fn non_finite(count: NonFiniteCount) -> String {
    let (nan, infinite) = (format_count(count.nan), format_count(count.infinite));
    match (count.nan, count.infinite) {
        (0, 0) => "没有".to_owned(),
        (_, 0) => format!("{nan} 个 NaN"),
        (0, _) => format!("{infinite} 个无穷大"),
        (_, _) => format!("{nan} 个 NaN 和 {infinite} 个无穷大"),
    }
}

fn plain(value: &Plain) -> String {
    match value {
        Plain::Tensor(dtype) => format!("{dtype} 张量"),
        Plain::Object => "对象".to_owned(),
        Plain::None | Plain::Scalar { .. } => typed(value),
    }
}

/// Arguments that differ.
pub(super) fn arguments(differences: &[ArgumentDifference]) -> String {
    let words = differences.iter().map(|difference| {
        let name = argument_name(&difference.entry);
        match &difference.fact {
            Some(Fact::Values { target, golden }) => {
                let (target, golden) = typed_values(target, golden);
                format!("{name}={target}（标杆 {golden}）")
            }
            Some(Fact::OnlyIn { side, value }) => {
                format!("{name}={}（仅在{}）", plain(value), side_word(*side))
            }
            Some(other) => format!("{name}：{}", fact(other)),
            None => name.to_owned(),
        }
    });
    words.collect::<Vec<String>>().join("，")
}

//! How an error was introduced, in Chinese: one sentence for each cause.

use ulpscope_compare::{FindingCause, LeftDetails, Region};
use ulpscope_dump::parse_key;

use super::facts::arguments;
use super::{other_side, side_word, source_word, spaced, spoken};
use crate::statement::{Cause, Origin, OriginSource, Producer};

pub(super) fn sentence(said: &Cause) -> String {
    let call = spoken(&said.call);
    let Cause { entry, origin, producers, dtypes, .. } = said;
    match &said.cause {
        FindingCause::Made => format!("{call} 的输入一致，但返回了不同的结果。"),
        FindingCause::Sum => {
            let (module, _, _) = parse_key(&said.call);
            let whose = match &origin.call {
                Some(_) => format!("{module} 的参数 {entry}"),
                None => format!("{module} 的参数"),
            };
            format!("{whose} 的梯度（各处使用之和）在两次运行中不同。没有已录制的调用能解释。")
        }
        FindingCause::ArgumentsInBackward(differences) => {
            format!("{call} 的调用参数不同：{}。只有梯度显示出差异。", arguments(differences))
        }
        FindingCause::Arguments(differences) => {
            format!("{call} 的调用参数不同：{}。", arguments(differences))
        }
        FindingCause::Cut(side) if matches!(origin.source, OriginSource::Parameter(_)) => {
            spaced(&named(origin), &format!("在{}中不需要梯度，因此没有被训练。", side_word(*side)))
        }
        FindingCause::Cut(side) => {
            format!("{call} 在{}中没有梯度通过：detach、no_grad，或输入不需要梯度。", side_word(*side))
        }
        FindingCause::Draw => format!("{call} 产生的随机数在两次运行中不同。"),
        FindingCause::Origin => spaced(&named(origin), "在两次运行中不同。"),
        FindingCause::Between => format!("{call} 收到的 {entry} 是不同的张量，但产生它的调用一致。"),
        FindingCause::Wiring => different_producer(&call, entry, producers),
        FindingCause::Lone(side) | FindingCause::Left(side, _) => {
            let instead = said.instead.as_ref();
            let instead = instead.map(|other| format!("；{}在此处调用 {}", other_side(*side), spoken(other)));
            format!("只有{}调用 {call}{}。", side_word(*side), instead.unwrap_or_default())
        }
        FindingCause::Updates(LeftDetails { name, differ, of, calls: [target, golden], region }) => {
            let name = match name.split_once(':') {
                Some(("gradient", name)) => format!("梯度 {name}"),
                Some((_, name)) => format!("参数 {name}"),
                None => name.clone(),
            };
            let place = match region {
                Some(_) => "对第一个参数，原因在下面列出的调用之中。",
                None => "原因可能在其中任何一个。",
            };
            format!(
                "参数的更新不同：本步之后，在比较过的 {of} 个参数和梯度中有 {differ} 个不同。第一个是{name}，先看 {call}。\
                 两次运行用不同的调用来更新（目标 {target} 个，标杆 {golden} 个）。{place}"
            )
        }
        FindingCause::Cast => {
            let [target, golden] =
                dtypes.each_ref().map(|dtype| dtype.as_deref().unwrap_or("不同的数据类型"));
            format!(
                "{call} 在目标中以 {target} 计算，在标杆中以 {golden} 计算。两次运行的大部分为 float32 或更高精度。"
            )
        }
        FindingCause::Shape => format!("{call} 的输入形状相同，但返回了不同的形状。"),
        FindingCause::GivenShape => format!("{call} 的输入形状与标杆不同。"),
        FindingCause::NonFinite => format!("{call} 返回了输入中没有的 NaN 或无穷大{}。", dtype(dtypes)),
        FindingCause::BothNonFinite => {
            format!("{call} 返回了输入中没有的 NaN 或无穷大{}，两次运行都如此。", dtype(dtypes))
        }
        FindingCause::Region(region) => region_sentence(&call, region),
        FindingCause::Sharded(fault) => super::shards::sentence(fault),
        FindingCause::Rule => format!("{call} 有第一个失败的行。"),
    }
}

/// The part of two programs that may have made a difference.
fn region_sentence(call: &str, region: &Region) -> String {
    let after = region.after.first().map(|[one, _]| format!("直到 {} 为止", spoken(&one.name)));
    let partner = region.partner.as_ref().filter(|partner| spoken(partner) != call);
    let partner = partner.map(|partner| format!("（标杆中为 {}）", spoken(partner)));
    format!(
        "两个程序的调用不同。{}计算结果一致，到 {} 时不再一致。其间目标有 {} 个调用，标杆有 {} 个；首先查看 {call}{}。",
        after.unwrap_or_default(),
        spoken(&region.before[0].name),
        region.target.computing.len(),
        region.golden.computing.len(),
        partner.unwrap_or_default(),
    )
}

fn dtype([target, _]: &[Option<String>; 2]) -> String {
    target.as_ref().map(|dtype| format!("（{dtype}）")).unwrap_or_default()
}

fn different_producer(call: &str, entry: &str, producers: &[Option<Producer>; 2]) -> String {
    let produced = |producer: &Producer| match producer {
        Producer::Call { name, .. } => spoken(name),
        Producer::Named { kind, name } => format!("{} {name}", source_word(kind)),
        Producer::Outside => "外部".to_owned(),
    };
    match producers {
        [
            Some(Producer::Call { name, entry: result }),
            Some(Producer::Call { name: other, entry: other_result }),
        ] if name == other && result != other_result => {
            format!("{call} 的 {entry} 来自 {} 的 {result}；在标杆中来自 {other_result}。", spoken(name))
        }
        [Some(target), Some(golden)] if target != golden => {
            format!("{call} 的 {entry} 来自 {}；在标杆中来自 {}。", produced(target), produced(golden))
        }
        _ => format!("{call} 的 {entry} 与标杆来自不同的调用。"),
    }
}

/// A tensor that no recorded call produced.
fn named(origin: &Origin) -> String {
    let place = match &origin.call {
        Some(call) => format!("{} 的 {}", spoken(call), origin.entry),
        None => origin.entry.clone(),
    };
    match (&origin.source, &origin.call) {
        (OriginSource::Parameter(name), _) => format!("参数 {name}（{place}）"),
        (OriginSource::Buffer(name), _) => format!("缓冲区 {name}（{place}）"),
        (OriginSource::Gradient(name), _) => format!("{name} 的梯度（{place}）"),
        (OriginSource::Argument(name), Some(call)) => {
            format!("{} 的 {name}（{}）", spoken(call), origin.entry)
        }
        (OriginSource::Input, Some(call)) => format!("{} 的输入 {}", spoken(call), origin.entry),
        (OriginSource::Argument(_) | OriginSource::Input, None) => place,
    }
}

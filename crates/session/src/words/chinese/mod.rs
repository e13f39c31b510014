//! Simplified Chinese. Names of calls, commands, dtypes and errors stay as they are.

mod causes;
mod facts;
mod instructions;
mod notes;
mod proofs;
mod regions;
mod shards;

use ulpscope_compare::{Agreement, Answer, Class, EndDifference, FindingKind, Part, Side};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_report::{format_ratio, format_short};

use super::{Label, Parts, SummaryLine, Words, counted, level, percent, shortened};
use crate::statement::{
    Heading, History, Likewise, Measured, Pass, Reached, Reason, Statement, UnpairedCount,
};
use facts::{arguments, fact};

/// The language.
pub(super) struct Chinese;

impl Words for Chinese {
    fn heading(&self, heading: Heading) -> &'static str {
        match heading {
            Heading::WhatBroke => "问题：",
            Heading::Where => "位置：",
            Heading::BetweenInTarget => "其间目标的调用（按执行顺序，* 为首先查看的调用）：",
            Heading::BetweenInGolden => "其间标杆的调用（按执行顺序，* 为首先查看的调用）：",
            Heading::HowLarge => "误差大小：",
            Heading::Downstream => "下游影响：",
            Heading::Confidence => "置信度：",
            Heading::OtherDivergences => "其他分歧：",
            Heading::Compared => "比较范围：",
            Heading::Tolerance => "容差：",
            Heading::Limitations => "局限：",
            Heading::Next => "下一步：",
            Heading::Rule => "说明：",
        }
    }

    fn statement(&self, statement: &Statement) -> String {
        said(statement)
    }

    fn headline(&self, statement: &Statement) -> String {
        match statement {
            Statement::RunsAgree => "两次运行一致。".to_owned(),
            Statement::ForwardPassesAgree => "两次运行在前向传播中一致。".to_owned(),
            statement => said(statement),
        }
    }

    fn verdict(&self, agreement: &Agreement) -> String {
        let answer = match agreement.answer() {
            Answer::Agree => "AGREE（一致）",
            Answer::Differ => "DIFFER（不同）",
            Answer::Inconclusive => "INCONCLUSIVE（无法判定）",
        };
        format!("{answer}：{}", verdict(agreement))
    }

    fn label(&self, label: Label) -> &'static str {
        match label {
            Label::Verdict => "结论",
            Label::Rows => "行",
            Label::Calls => "调用",
            Label::Classes => "分类",
            Label::Time => "耗时",
            Label::Problems => "问题",
            Label::Part(parts) => part(parts),
            Label::Differ => "不同",
            Label::CallsDiffer => "不同的调用",
            Label::NoCounterpart => "无对应项",
            Label::FirstDivergence => "第一个分歧",
            Label::Call => "调用",
            Label::Parts(Parts::Steps) => "步数",
            Label::Parts(Parts::Ranks) => "rank 数",
            Label::Parts(Parts::StepsAndRanks) => "步和 rank 数",
            Label::Which => "哪些",
            Label::OnlyIn => "仅在",
            Label::CallOrEntry => "调用或条目",
            Label::Reason => "原因",
        }
    }

    fn summary(&self, line: &SummaryLine<'_>) -> String {
        match line {
            SummaryLine::Rows(counts) => format!(
                "{}：{} 一致，{} 不同，{} 待查看，{} 未比较",
                counted(counts.rows),
                counted(counts.passed),
                counted(counts.failed),
                counted(counts.warned),
                counted(counts.not_compared)
            ),
            SummaryLine::Calls { paired, by_style, target, golden } => {
                let ways = paired.iter();
                let ways = ways
                    .map(|way| format!("{} 个 {}（{} 行）", counted(way.calls), way.how, counted(way.rows)));
                let ways = ways.collect::<Vec<String>>().join("，");
                let paired = match (ways.is_empty(), by_style) {
                    (false, _) => format!("配对：{ways}"),
                    (true, true) => "按所选风格的规则配对".to_owned(),
                    (true, false) => "没有配对".to_owned(),
                };
                format!("{paired}；仅在目标 {}，仅在标杆 {}", counted(*target), counted(*golden))
            }
            SummaryLine::Problems(count) => format!("{} 个文件或张量无法读取（见错误信息）", counted(*count)),
            SummaryLine::Time { seconds, bytes: 0 } => format!("{seconds:.2} s"),
            SummaryLine::Time { seconds, bytes } => {
                let gigabytes = *bytes as f64 / 1e9;
                let rate = gigabytes / seconds.max(1e-9);
                format!("{seconds:.2} s，张量 {gigabytes:.3} GB，{rate:.2} GB/s")
            }
            SummaryLine::PartsTitle(parts, more) => title(&format!("{}，最差的在前", each(*parts)), *more),
            SummaryLine::CallsByPartTitle(parts, more) => {
                title(&format!("{}中不同的调用", each(*parts)), *more)
            }
            SummaryLine::UnpairedTitle(0) => "无对应项".to_owned(),
            SummaryLine::UnpairedTitle(more) => {
                format!("无对应项（另有 {} 个，见 result.json）", counted(*more))
            }
            SummaryLine::Deviating { shown, more } => {
                let call = |call: &Option<String>| call.clone().unwrap_or_else(|| "无".to_owned());
                let named = shown.iter().map(|one| {
                    format!(
                        "{}（第一个分歧：{}；其他 rank：{}）",
                        one.label,
                        call(&one.first),
                        call(&one.others)
                    )
                });
                let more = (*more > 0).then(|| format!("另有 {more} 个，见 result.json"));
                format!("与其他 rank 不同：{}", named.chain(more).collect::<Vec<String>>().join("，"))
            }
            SummaryLine::Wrote(file) => format!("已写入 {file}"),
        }
    }

    fn class(&self, class: Class) -> &'static str {
        match class {
            Class::Equal => "相等",
            Class::Noise => "噪声",
            Class::Inherited => "继承的误差",
            Class::DivergedHere => "在此分歧",
            Class::OriginDiffers => "来源不同",
            Class::NonFiniteBornHere => "在此产生非有限值",
            Class::DifferentProgram => "程序不同",
            Class::NotComparable => "不可比较",
        }
    }
}

fn part(parts: Parts) -> &'static str {
    match parts {
        Parts::Steps => "步",
        Parts::Ranks => "rank",
        Parts::StepsAndRanks => "步和 rank",
    }
}

fn each(parts: Parts) -> &'static str {
    match parts {
        Parts::Steps => "各步",
        Parts::Ranks => "各 rank ",
        Parts::StepsAndRanks => "各步和各 rank ",
    }
}

fn title(text: &str, more: usize) -> String {
    if more == 0 { text.to_owned() } else { format!("{text}（另有 {} 个）", counted(more)) }
}

pub(super) fn side_word(side: Side) -> &'static str {
    match side {
        Side::Target => "目标",
        Side::Golden => "标杆",
    }
}

fn other_side(side: Side) -> &'static str {
    match side {
        Side::Target => side_word(Side::Golden),
        Side::Golden => side_word(Side::Target),
    }
}

fn kind_words(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::DivergedHere => "在此分歧",
        FindingKind::OriginDiffers => "来源不同",
        FindingKind::NonFiniteBornHere => "在此产生非有限值",
        FindingKind::DifferentProgram => "程序不同",
        FindingKind::FailedRule => "未通过",
    }
}

/// What statistics do not show.
fn not_shown(hidden: Option<f64>) -> String {
    hidden.map_or_else(String::new, |share| {
        let share = percent(share);
        format!("；最终结果只比较了统计值，其中范数的 {share} 以内的误差可能看不到，单个元素的误差可能更大")
    })
}

fn verdict(agreement: &Agreement) -> String {
    match agreement {
        Agreement::Agrees { unpaired: 0, not_compared: 0, warned: 0, hidden, .. } => {
            format!("全部已比较，没有差异{}", not_shown(*hidden))
        }
        Agreement::Agrees { unpaired, not_compared, warned, bounded, forward_only, hidden } => {
            let hidden = not_shown(*hidden);
            let forward = match forward_only {
                Some(Side::Target) => "目标没有反向传播，因此没有比较梯度；前向传播：",
                Some(Side::Golden) => "标杆没有反向传播，因此没有比较梯度；前向传播：",
                None => "",
            };
            let parts = [
                (*warned, format!("待查看的行：{}", counted(*warned))),
                (*unpaired, format!("{} 个调用或张量没有对应项", counted(*unpaired))),
                (*not_compared, format!("{} 行未比较", counted(*not_compared))),
            ];
            let parts = parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text);
            let parts = parts.collect::<Vec<String>>().join("，");
            match warned {
                0 if *bounded => format!("{forward}没有差异（{parts}，最终结果一致）{hidden}"),
                0 => format!("{forward}没有差异（{parts}）{hidden}"),
                _ => format!("{forward}没有调用引入误差（{parts}）{hidden}"),
            }
        }
        Agreement::Passes { rule, passed, rows } => {
            format!("按 {rule} 的规则没有失败的行；{} 行中 {} 行通过", counted(*rows), counted(*passed))
        }
        Agreement::TensorsDiffer { first, .. } if first.is_empty() => "两个张量不同".to_owned(),
        Agreement::TensorsDiffer { first, differ: 1, of } => {
            format!("{} 个张量中只有 {first} 不同", counted(*of))
        }
        Agreement::TensorsDiffer { first, differ, of } => {
            format!("{} 个张量中有 {} 个不同，第一个是 {first}", counted(*of), counted(*differ))
        }
        Agreement::Blamed { first, calls: 1 } => format!("{first} 引入了误差"),
        Agreement::Blamed { first, calls } => {
            format!("{} 个调用引入了误差，第一个是 {first}", counted(*calls))
        }
        Agreement::Parted { first, target, golden } => format!(
            "两个程序的计算结果不同；原因在目标的 {target} 个调用和标杆的 {golden} 个调用之中，首先查看 {first}"
        ),
        Agreement::Fails { rule, failed, rows } => {
            format!("按 {rule} 的规则，{} 行中 {} 行失败", counted(*rows), counted(*failed))
        }
        Agreement::Unexplained { failed, rows } => {
            format!("{} 行中 {} 行不同，没有调用能解释", counted(*rows), counted(*failed))
        }
        Agreement::FinalResult(result) if result.difference == EndDifference::Variable => {
            let place = result.place.as_ref().map_or_else(String::new, |place| format!("在位置 {place} "));
            format!("两个模型{place}返回不同的结果：{}", result.entry)
        }
        Agreement::FinalResult(result) if result.difference == EndDifference::Places => {
            let place = result.place.as_ref().map_or_else(String::new, |place| format!("在位置 {place} "));
            format!("两个模型{place}的结果中元素的位置可能不同，统计量无法显示：{}", result.entry)
        }
        Agreement::FinalResult(result) if result.difference == EndDifference::Padding => format!(
            "{} 相差 {}（累积舍入允许 {}），可能只在填充位置上：没有梯度不同，统计量无法显示位置",
            result.entry,
            percent(result.error),
            percent(result.allowed)
        ),
        Agreement::FinalResult(result) if result.error.is_infinite() => {
            format!("{} 在另一次运行的最终结果中没有对应项", result.entry)
        }
        Agreement::FinalResult(result) => format!(
            "{} 相差 {}（累积舍入允许 {}），没有调用能解释",
            result.entry,
            percent(result.error),
            percent(result.allowed)
        ),
        Agreement::Refuted { first, calls } => {
            format!("重放否定了 {} 个结论（第一个是 {first}），没有可重放的调用能解释差异", counted(*calls))
        }
        Agreement::NothingPaired => "没有任何调用在另一次运行中有对应项，因此没有比较".to_owned(),
        Agreement::Unpaired { target, golden } => {
            let sides = [(target, "目标"), (golden, "标杆")].into_iter().filter(|(count, _)| **count > 0);
            let sides: Vec<String> =
                sides.map(|(count, side)| format!("仅在{side}：{}", counted(*count))).collect();
            format!("已比较的部分一致，但有些调用或张量没有对应项（{}）", sides.join("，"))
        }
        Agreement::UnpairedRanks(count) => {
            format!("已比较的部分一致，但 {} 个步或 rank 没有对应项", counted(*count))
        }
        Agreement::Unread { count, compared: true } => {
            format!("已比较的部分一致，但 {} 个文件或张量无法读取（见错误信息）", counted(*count))
        }
        Agreement::Unread { count, compared: false } => {
            format!("没有比较：{} 个文件或张量无法读取（见错误信息）", counted(*count))
        }
        Agreement::Cut => "已比较的部分一致，但有一次运行在全部录制完之前就结束了".to_owned(),
        Agreement::Nothing => "没有可比较的内容".to_owned(),
        Agreement::Undecided { rows, judged: true } => {
            format!("已比较的部分一致，但 {} 行无法判定", counted(*rows))
        }
        Agreement::Undecided { judged: false, .. } => "没有能判定的行".to_owned(),
    }
}

fn said(statement: &Statement) -> String {
    match statement {
        Statement::ForwardPassesAgree => "前向传播没有问题：两次运行在此一致。".to_owned(),
        Statement::RunsAgree => "没有问题。两次运行一致。".to_owned(),
        Statement::NoErrorOnThisRank => "此 rank 没有调用引入误差。".to_owned(),
        Statement::Inconclusive(agreement) => format!("无法判定：{}。", verdict(agreement)),
        Statement::MostNotJudged { calls, of } => {
            format!(
                "大多数调用（{} 个中的 {} 个）无法判定：没有对应项，或录制的内容太少。",
                counted(*of),
                counted(*calls)
            )
        }
        Statement::LargestStep { call, inputs, output } => format!(
            "通向它的最大未解释误差来自 {call}：输入相差 {}，输出相差 {}。",
            percent(*inputs),
            percent(*output)
        ),
        Statement::TensorsDiffer { most, .. } if most.is_empty() => "两个张量不同。".to_owned(),
        Statement::TensorsDiffer { differ: 1, of, most, .. } => {
            format!("{} 个张量中有 1 个不同：{most}。", counted(*of))
        }
        Statement::TensorsDiffer { differ, of, most, among: None } => {
            format!("{} 个张量中有 {} 个不同。差异最大的是 {most}。", counted(*of), counted(*differ))
        }
        Statement::TensorsDiffer { differ, of, most, among: Some(among) } => {
            format!(
                "{} 个张量中有 {} 个不同。前 {} 个中差异最大的是 {most}。",
                counted(*of),
                counted(*differ),
                counted(*among)
            )
        }
        Statement::Cause(cause) => causes::sentence(cause),
        Statement::ChangedUnrecorded => "中间有未录制的操作修改了它。".to_owned(),
        Statement::GradientLeftOver => {
            "它可能是之前残留的（zero_grad）、被钩子修改，或由未录制的调用计算。".to_owned()
        }
        Statement::ResultsDiffer => "由它计算的结果在两次运行中不同。".to_owned(),
        Statement::LeftDiffering { what } => {
            let (kind, name) = what.split_once(':').unwrap_or(("parameter", what));
            format!("此步之后，{} {name} 在两次运行中不同。", source_word(kind))
        }
        Statement::OriginsCounted { parameters, buffers } => {
            let kinds = [(parameters, "参数"), (buffers, "缓冲区")].into_iter();
            let kinds = kinds.filter(|([differ, _], _)| *differ > 0);
            let kinds: Vec<String> = kinds
                .map(|([differ, of], kind)| {
                    format!("{} 个{kind}中有 {} 个不同", counted(*of), counted(*differ))
                })
                .collect();
            format!("总计：{}。", kinds.join("，"))
        }
        Statement::OriginHistory { history, call } => {
            let why = match history {
                History::Trained => "此步开始时它已经不同：之前的步改变了它。",
                History::Accumulated => "它由多次反向传播累加，之后也可能被修改：不能归咎于单个调用。",
                History::BetweenModules => "L0 级别不录制模块之间的操作，而它在那里产生。",
                History::Unrecorded => "没有已录制的调用产生它，因此不能归咎于任何调用。",
            };
            format!("{why}第一个显示差异的调用是 {}。", spoken(call))
        }
        Statement::JustBefore { call, side } => {
            format!("紧接在它之前，只有{}调用 {}。", side_word(*side), spoken(call))
        }
        Statement::Likewise(likewise) => format!("{}。", also(likewise)),
        Statement::LevelsDiffer { target, golden } => {
            format!(
                "目标以 {target} 级别采集，标杆以 {golden} 级别采集：一侧的大多数调用在另一侧没有对应项。"
            )
        }
        Statement::OnlyIn { side, count, operations, has_more } => {
            let shown = operations.iter().map(|(base, count)| match count {
                1 => base.clone(),
                count => format!("{base} × {}", counted(*count)),
            });
            let more = if *has_more { "，…" } else { "" };
            let shown = shown.collect::<Vec<String>>().join("，");
            format!("未比较（无对应项）：仅在{}：{}（{shown}{more}）。", side_word(*side), unpaired(*count))
        }
        Statement::RanksUnpaired(count) => format!("{} 个步或 rank 没有对应项。", counted(*count)),

        Statement::Call { name, pass } => {
            let pass = match pass {
                Pass::Forward => "前向",
                Pass::Backward => "反向",
                Pass::Optimizer => "优化器更新",
            };
            format!("调用    {name}（{pass}）")
        }
        Statement::Step(step) => format!("步      {step}"),
        Statement::Rank(rank) => format!("rank    {rank}"),
        Statement::GoldenCall(name) => format!("标杆    {name}"),
        Statement::Module(module) => format!("模块    {module}"),
        Statement::Code(code) => format!("代码    {code}"),
        Statement::InnerCode(code) => format!("内层    {code}"),
        Statement::GoldenCode(code) => format!("标杆    {code}"),
        Statement::Entry { name, line, sheet } => {
            format!("条目    {name}{}", in_sheet(*line, sheet.as_deref()))
        }

        Statement::Region(said) => regions::sentence(said),

        Statement::Measured(seen) => format!("{}。", fact(seen)),
        Statement::LooksLike(precision) => format!("这样大小的误差是 {} 的典型误差。", precision.words()),
        Statement::OriginsTypically { floor } => {
            format!("在这两次运行中，参数和输入通常相差 {}。", format_short(*floor))
        }
        Statement::Excess { of, distance, floor } => {
            let beyond = format!("舍入和输入所允许误差的 {} 倍", format_ratio(distance / floor));
            let (distance, floor) = (format_short(*distance), format_short(*floor));
            match of {
                Measured::Elements => format!("这是{beyond}（{floor}）。"),
                Measured::Statistics => format!("相对距离至少为 {distance}：{beyond}（{floor}）。"),
                Measured::Gradients => format!("其后的梯度相对距离为 {distance}：{beyond}（{floor}）。"),
                Measured::Results => format!("由它计算的结果相对距离为 {distance}：{beyond}（{floor}）。"),
            }
        }
        Statement::ShowsMost { part, by_statistics, times: most } => {
            let beyond = format!("舍入和输入所允许误差的 {} 倍", format_ratio(*most));
            match part {
                Part::Whole => format!("所有元素合在一起更明显：{beyond}。"),
                Part::WorstElement => format!("个别元素更明显：最差的元素为{beyond}。"),
                Part::CommonFactor if *by_statistics => format!("范数更明显：{beyond}。"),
                Part::CommonFactor => format!("整体缩放更明显：{beyond}。"),
            }
        }
        Statement::InputsAgree => "它的输入没有差异。".to_owned(),
        Statement::InputsDiffer { largest } => {
            format!("它的输入的相对距离最多为 {}。", format_short(*largest))
        }

        Statement::Proof { call, proof } => proofs::sentence(call.as_deref(), proof),
        Statement::NoReplayableCall(count) => {
            format!("重放否定了 {} 个结论：没有可重放的调用能解释差异。", counted(*count))
        }

        Statement::NotInherited => "没有后续调用继承该误差。".to_owned(),
        Statement::OthersDiffer(count) => {
            format!("另有 {} 个调用不同。数据不能表明是否由该误差引起。", counted(*count))
        }
        Statement::Inherited { calls, by_pass } => {
            let by_pass = by_pass.map(|[forward, backward]| {
                format!("：前向 {} 个，反向 {} 个", counted(forward), counted(backward))
            });
            format!("{calls} 个调用继承了该误差{}。", by_pass.unwrap_or_default())
        }
        Statement::Reaches { what, is_this } => {
            let what = match what {
                Reached::Loss(call) => format!("损失（{call}）"),
                Reached::ParameterGradients(count) => format!(" {} 个模块的参数梯度", counted(*count)),
                Reached::BackwardPass => "反向传播".to_owned(),
            };
            format!("{}到达{what}。", if *is_this { "该误差" } else { "该误差或其他分歧" })
        }

        Statement::Confidence(confidence) => {
            let words = ["很高", "高", "中等", "低"][level(*confidence)];
            format!("{words}（{confidence:.2}）")
        }

        Statement::OtherDivergence { call, kind, reason, likewise } => {
            let likewise = likewise.as_ref().map(|more| format!("。{}", also(more))).unwrap_or_default();
            format!("{call}（{}）：{}{likewise}", kind_words(*kind), brief(reason))
        }
        Statement::OtherTensor { name, reason } => format!("{name}：{}", brief(reason)),
        Statement::MoreDivergences(count) => format!("另有 {} 个，见 result.json", counted(*count)),
        Statement::OtherRanks { ranks, more, call, kind } => {
            let more = if *more == 0 { String::new() } else { format!(" 等另外 {} 个", counted(*more)) };
            format!("{}{more}：第一个分歧是 {call}（{}）", ranks.join("、"), kind_words(*kind))
        }
        Statement::MoreRanks(count) => format!("另有 {} 个步或 rank", counted(*count)),
        Statement::LaterStepsFollow => "后续各步从可能已被第一个误差改变的权重开始。".to_owned(),

        Statement::NotCompared { rank: None, error } => format!("没有比较：{error}"),
        Statement::NotCompared { rank: Some(rank), error } => format!("{rank} 没有比较：{error}"),
        Statement::NoElements => {
            "没有比较元素，只比较了统计值或摘要：看不到元素顺序的改变，以及不影响统计值的误差。".to_owned()
        }
        Statement::Unpaired { results_agree, target, golden, first, side } => {
            let begin = match results_agree {
                true => "无对应项，但由其计算的结果一致",
                false => "未比较（无对应项）",
            };
            let sides = [(Side::Target, target), (Side::Golden, golden)].into_iter();
            let sides = sides.filter(|(_, count)| **count != UnpairedCount::default());
            let sides: Vec<String> =
                sides.map(|(side, count)| format!("仅在{}：{}", side_word(side), unpaired(*count))).collect();
            format!("{begin}：{}。第一个：{first}（{}）。", sides.join("；"), side_word(*side))
        }
        Statement::CallsNotJudged(count) => {
            format!("{} 个调用无法判定：录制的内容太少，或输入形状不同。", counted(*count))
        }
        Statement::RowsNotJudged(count) => {
            format!("{} 行张量无法判定：两侧均为 NaN，或没有可比较的内容。", counted(*count))
        }
        Statement::NotRead { count, first } => {
            let first = first.as_ref().map(|first| format!("第一个：{first}")).unwrap_or_default();
            format!("{} 个文件或张量无法读取。{first}", counted(*count))
        }
        Statement::Note(note) => format!("注：{note}"),
        Statement::NotedFirst(note) => format!("{}。", notes::note(note)),
        Statement::Noted { ranks, has_more, note } => {
            let more = if *has_more { " 等" } else { "" };
            let ranks =
                if ranks.is_empty() { String::new() } else { format!("{}{more}：", ranks.join("、")) };
            format!("注：{ranks}{}", notes::note(note))
        }
        Statement::MoreNotes(count) => format!("另有 {} 条说明，见 result.json", counted(*count)),

        Statement::ComparedCalls { equal: 0, noise: 0 } => "没有调用。".to_owned(),
        Statement::ComparedCalls { equal, noise: 0 } => format!("{} 个调用，没有任何差异。", counted(*equal)),
        Statement::ComparedCalls { equal: 0, noise } => {
            format!("{} 个调用，差异不超过舍入和输入所允许的范围。", counted(*noise))
        }
        Statement::ComparedCalls { equal, noise } => format!(
            "{} 个调用：{} 个没有任何差异，{} 个的差异不超过舍入和输入所允许的范围。",
            counted(equal + noise),
            counted(*equal),
            counted(*noise)
        ),
        Statement::ToleranceRule => {
            "调用的容差取决于数据类型、求和的项数、输入的误差，以及同类其他调用的误差。".to_owned()
        }

        Statement::JudgedByRule { style, failed, rows } => {
            format!("此结果按 {style} 的规则判定：{} 行中 {} 行失败。", counted(*rows), counted(*failed))
        }
        Statement::FirstFailing { entry, line, sheet } => {
            let place = in_sheet(*line, sheet.as_deref());
            format!("第一个失败的行是 {entry}{place}。")
        }
        Statement::RuleJudgesRows => "该规则单独判定每一行，不能判断误差从哪里开始。".to_owned(),
        Statement::Next(step) => instructions::instruction(step),
    }
}

/// A subject and the rest of its sentence: a space separates Latin letters from Chinese ones, and nothing a bracket.
fn spaced(subject: &str, rest: &str) -> String {
    let space = if subject.ends_with('）') { "" } else { " " };
    format!("{subject}{space}{rest}")
}

/// The word for a dump's kind of source.
fn source_word(kind: &str) -> &str {
    match kind {
        "parameter" => "参数",
        "buffer" => "缓冲区",
        "gradient" => "梯度",
        other => other,
    }
}

/// The place of a row, if there is a sheet that has it.
fn in_sheet(line: u64, sheet: Option<&str>) -> String {
    sheet.map(|sheet| format!("（{sheet} 第 {line} 行）")).unwrap_or_default()
}

fn also(likewise: &Likewise) -> String {
    match likewise {
        Likewise::Origins(count) => format!("另有 {} 个调用的参数或输入不同", counted(*count)),
        Likewise::Calls { call, count } => {
            let (base, _, kind) = parse_key(call);
            match kind {
                CallKind::ParametersGrad => format!("另有 {} 个模块的参数梯度同样如此", counted(*count)),
                CallKind::Backward => format!("{base} 的另外 {} 次反向传播同样如此", counted(*count)),
                CallKind::Saved => format!("另有 {} 个保存的张量同样如此", counted(*count)),
                _ => format!("{base} 的另外 {} 次调用同样如此", counted(*count)),
            }
        }
    }
}

fn brief(reason: &Reason) -> String {
    match reason {
        Reason::CalledWith(differences) => shortened(format!("调用参数不同：{}", arguments(differences))),
        Reason::OnlyIn { side, instead: Some(other) } => {
            format!("仅在{}；{}调用 {}", side_word(*side), other_side(*side), spoken(other))
        }
        Reason::OnlyIn { side, instead: None } => format!("仅在{}", side_word(*side)),
        Reason::Seen(seen) => shortened(fact(seen)),
        Reason::Said(statement) => shortened(said(statement).trim_end_matches('。').to_owned()),
    }
}

fn unpaired(count: UnpairedCount) -> String {
    let words = [(count.calls, "个调用"), (count.entries, "个条目")].into_iter();
    let words =
        words.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", counted(count)));
    words.collect::<Vec<String>>().join("和 ")
}

/// A call in a sentence: `Functional.linear.9`, `Functional.linear.9 的反向传播`.
fn spoken(call: &str) -> String {
    let (base, number, kind) = parse_key(call);
    // A module's first use is the module.
    let is_module = base.starts_with("Module.") || base.starts_with("Cell.");
    let named = match number {
        Some(number) if !is_module || number > 0 => format!("{base}.{number}"),
        _ => base.to_owned(),
    };
    match kind {
        CallKind::Forward => named,
        CallKind::Backward => format!("{named} 的反向传播"),
        CallKind::ParametersGrad => format!("{base} 的参数梯度"),
        _ => call.to_owned(),
    }
}

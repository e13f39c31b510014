//! Notes of a comparison, in Chinese. Texts that a dump or a mapping file contains stay as they are.

use ulpscope_compare::{CountDifference, Counted, Note, Side};
use ulpscope_report::{format_number, format_short};

use super::side_word;

pub(super) fn note(note: &Note) -> String {
    match note {
        Note::OnlyStatistics => "没有保存张量，只比较了统计值或摘要：看不到元素顺序的改变".to_owned(),
        Note::NoBackwardPass { side } => {
            let side = if *side == Side::Target { "目标" } else { "标杆" };
            format!("{side}没有反向传播：没有比较梯度以及由梯度得出的内容")
        }
        Note::OneSideHasTensors => "只有一侧有张量：按统计值比较".to_owned(),
        Note::TensorsNotMoved { path, tensors, bytes, limit } => format!(
            "{path}：另一节点上的 {tensors} 个张量（{bytes} 字节）只按记录的统计值比较，因为每个 rank 最多移动 {limit} 字节：\
             增大 --move-limit 可比较其元素"
        ),
        Note::OnlyNames => "structure 数据没有数值：只比较了调用".to_owned(),
        Note::LevelsDiffer { target, golden } => format!(
            "目标以 {target} 级别采集，标杆以 {golden} 级别采集：一个级别不采集的内容没有对应项；请在两侧用同一级别采集"
        ),
        Note::FinalResultsNotJudged { first, more: 0 } => {
            format!("最终结果 {first} 不同，但没有判定：它所依赖的输入不同")
        }
        Note::FinalResultsNotJudged { first, more } => {
            format!("最终结果 {first} 等另外 {more} 个不同，但没有判定：它们所依赖的输入不同")
        }
        Note::InputsCutDifferently { target, golden, sizes, part } => {
            let golden = if golden == target { String::new() } else { format!(" {golden}") };
            let sizes = sizes.iter().map(|(dimension, [target, golden])| {
                format!("第 {dimension} 维为 {target}（标杆 {golden}）")
            });
            let sizes = sizes.collect::<Vec<String>>().join("，");
            if let Some(part) = part {
                let part = match (&part.target, &part.golden) {
                    (None, None) => "两者元素相同，形状不同".to_owned(),
                    (None, Some(part)) => format!("目标的输入是标杆的 {part}"),
                    (Some(part), None) => format!("标杆的输入是目标的 {part}"),
                    (Some(ours), Some(theirs)) => format!("目标的 {ours} 是标杆的 {theirs}"),
                };
                return format!(
                    "输入 {target} 与标杆{golden} 的切分不同：{sizes}。{part}。只比较两侧共有的部分"
                );
            }
            format!(
                "输入 {target} 与标杆{golden} 的大小不同：{sizes}。批大小、序列长度或填充不同，只有两侧共有的部分才能一致。从记录的内容看不出是哪一部分"
            )
        }
        Note::PartsCompared { agree, differ: 0, .. } => {
            format!("在共有的部分中，比较过的 {agree} 个带参数调用的结果全部一致")
        }
        Note::PartsCompared { agree, differ, last_agreeing, first_differing } => format!(
            "在共有的部分中，{} 个带参数调用的结果里有 {differ} 个不同。到 {} 为止一致；第一个不同的是 {} 的结果",
            agree + differ,
            last_agreeing.as_deref().unwrap_or("输入"),
            first_differing.as_deref().unwrap_or_default()
        ),
        Note::NothingInCommon { parameters: [target, golden], same } => format!(
            "两个程序几乎没有可以对应的内容（目标 {target} 个参数、标杆 {golden} 个参数中有 {same} 个内容相同），因此无法比较任何调用：\
             请检查两侧是否为同一模型、同一权重"
        ),
        Note::NonFiniteOnOneSide { side, first } => {
            format!("只有{}中有 NaN 或无穷大；最先出现在 {first}", side_word(*side))
        }
        Note::DifferentPrograms { unpaired, calls, results, more } => {
            let more = if *more > 0 { format!(" 等另外 {more} 个") } else { String::new() };
            format!(
                "两个程序的调用不同（目标 {} 个调用中的 {} 个和标杆 {} 个中的 {} 个没有对应项），但最终结果一致：{}{more}",
                calls[0],
                unpaired[0],
                calls[1],
                unpaired[1],
                results.join("、")
            )
        }
        Note::PaddingDiffers => "最终结果只在输入的掩码标为填充的位置上不同，其余位置一致".to_owned(),
        Note::OtherWeights { target, golden, first, side } => {
            let side = if *side == Side::Target { "目标" } else { "标杆" };
            format!(
                "目标的 {target} 个参数和标杆的 {golden} 个参数没有内容相同的对应项（第一个是{side}的 {first}），但最终结果一致：权重不同，函数相同"
            )
        }
        Note::DifferentWays { begin, end } => {
            format!("从 {begin} 起两次运行以不同的方式计算相同的内容，到 {end} 再次一致：其间没有判定")
        }
        Note::MoreDifferentWays(more) => format!("另有 {more} 处两次运行以不同的方式计算相同的内容"),
        Note::SideBranches { side, calls, first } => {
            let side = if *side == Side::Target { "目标" } else { "标杆" };
            format!("只有{side}有 {calls} 个调用，其结果没有被其他计算使用；第一个是 {first}")
        }
        Note::ArgumentsWithoutEffect { calls, first } => {
            format!(
                "{calls} 个调用的标量参数不同，但结果的差异不超过舍入和输入所允许的范围；第一个是 {first}"
            )
        }
        Note::DtypesDiffer { calls, example, target, golden } => format!(
            "{calls} 个调用的结果数据类型与标杆不同，例如 {example}（{target}，标杆 {golden}）；误差按较粗的数据类型的舍入判定"
        ),
        Note::RoundingAmplified { origin, error, call, result } => format!(
            "{} 在一侧的数据类型较粗，相差 {}；{call} 把它放大为 {}，这类函数都会如此。请保持 float32",
            origin.replacen(':', " ", 1),
            format_short(*error),
            format_short(*result)
        ),
        Note::Killed { path } => format!("{path}：运行在该步结束之前被终止，或仍在进行：这是已录制的部分"),
        Note::EndedEarly { path, why } => format!("{path}：采集提前结束，缺少之后的调用：{why}"),
        Note::CallsNotRecorded { path, calls, which } => format!("{path}：{calls} 个调用无法录制：{which}"),
        Note::TensorsNotRead { path, tensors, why } => format!("{path}：{tensors} 个张量无法读取：{why}"),
        Note::CountsDiffer { paths: [target, golden], counts, more } => {
            let counts = counts.iter().map(difference);
            let more = (*more > 0).then(|| format!("另有 {more} 项"));
            format!(
                "{target} 与 {golden}：两次运行的调用不同：{}。请查看没有对应项的内容，或两侧的采集选择是否相同",
                counts.chain(more).collect::<Vec<String>>().join("；")
            )
        }
        Note::CaptureNotes { path, notes } => format!("{path}：其采集记录了以下内容，另一侧没有：{notes}"),
        Note::NoiseFloor { path, measured, calls, median, largest, at } => {
            let at = at.as_ref().map(|call| format!("（{call}）")).unwrap_or_default();
            format!(
                "由 --noise {path} 测得的噪声：标杆的 {calls} 个调用中的 {measured} 个，相对误差的中位数 {}，最大 {}{at}；允许其两倍",
                format_number(*median),
                format_number(*largest)
            )
        }
        Note::NoiseLacksCalls { lacking, calls } => format!(
            "--noise：标杆的 {calls} 个调用中有 {lacking} 个不在噪声数据中，或在其中没有数值，判定时不考虑噪声：\
             它是同一程序、同一级别的运行吗？"
        ),
        Note::NoiseIsZero => {
            "--noise：噪声数据与标杆逐位相同，没有显示噪声：请用不同的算子实现或线程数，或用 jitter 录制"
                .to_owned()
        }
        Note::NoiseIsLarge { calls, is_most } => {
            let doubt = if *is_most { "：它是以相同的权重和数据录制的吗？" } else { "" };
            format!(
                "--noise：噪声数据中有 {calls} 个调用的差异超过其大小的一半，其中较小的错误无法与噪声区分{doubt}"
            )
        }
        Note::NoiseByStatistics { tensors, of } => {
            format!("--noise：{of} 个张量中有 {tensors} 个只按统计值测量，显示的噪声小于实际")
        }
        Note::NoiseNonFinite(tensors) => {
            format!("--noise：{tensors} 个张量只在噪声数据或只在标杆中为 NaN 或无穷大，不能显示噪声")
        }
        Note::Text(text) => text.clone(),
    }
}

fn difference(one: &CountDifference) -> String {
    let CountDifference { counted, target, golden } = one;
    match counted {
        Counted::Seen => format!("看到的调用 {target}（标杆 {golden}）"),
        Counted::Recorded => format!("录制的调用 {target}（标杆 {golden}）"),
        Counted::Skipped(reason) => format!("跳过的调用（{reason}） {target}（标杆 {golden}）"),
    }
}

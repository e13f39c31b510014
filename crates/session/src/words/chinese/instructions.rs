//! What to do next, in Chinese.

use ulpscope_compare::{Precision, Side};

use super::side_word;
use crate::instruction::{Hazard, Instruction};

/// A step, or a line of code that belongs to it.
pub(super) fn instruction(step: &Instruction) -> String {
    const IF_MEANT: &str = "如果有意使用该精度，请与同样使用该精度的标杆进行比较。";
    match step {
        Instruction::Run(command) => command.clone(),
        Instruction::CodeOf(Side::Target, code) => format!("目标  {code}"),
        Instruction::CodeOf(Side::Golden, code) => format!("标杆  {code}"),
        Instruction::CompareNatively => "用 native 风格重新比较，它能追溯到引入误差的调用：".to_owned(),
        Instruction::RecordBetweenModules => "在两侧录制模块之间的调用，然后比较新的数据：".to_owned(),
        Instruction::MeasureNoise => {
            "测量舍入噪声：以不应影响结果的改动（线程数、算子实现）再运行一次标杆，并把该次运行作为噪声：".to_owned()
        }
        Instruction::MeasureHealthyRuns => {
            "如果这两个程序的正常运行也有这么大的差异，请用第二次标杆运行（不同的线程数或算子实现）测量：".to_owned()
        }
        Instruction::SeeElements => "查看哪些元素不同，以及相差多少：".to_owned(),
        Instruction::LookForGradientChanges => {
            "检查反向传播之外修改该梯度的代码：未清零的梯度、钩子、只有一侧共享的权重。".to_owned()
        }
        Instruction::MakeReadable(error) => format!("使数据可读，然后重新比较：{error}"),
        Instruction::CaptureAtOneLevel => "两侧用同一级别采集，然后重新比较：".to_owned(),
        Instruction::CheckUnpaired => "检查没有对应项的调用是否重要，从第一个开始：".to_owned(),
        Instruction::DumpTensorsIfNeeded => {
            "如果两次运行的最终结果仍然不同，请在两侧保存张量，然后重新比较：".to_owned()
        }
        Instruction::CheckCallInBoth => {
            "在两个程序中检查该调用：缩放、掩码、常量和运算顺序是否相同？".to_owned()
        }
        Instruction::RecordEarlierSteps => "在两侧录制此步之前的各步，然后比较新的数据：".to_owned(),
        Instruction::LookAtWriters(name) => {
            format!("如果它们一致，请检查写入 {name} 的代码：优化器、学习率调度、加载的检查点。")
        }
        Instruction::CheckCheckpoint { is_buffer: false } => {
            "检查两次运行是否加载同一个检查点。在第一步之前分别打印该参数：".to_owned()
        }
        Instruction::CheckCheckpoint { is_buffer: true } => {
            "检查两次运行是否加载同一个检查点，并处于同一模式（train 或 eval）。在第一步之前分别打印该缓冲区：".to_owned()
        }
        Instruction::CompareEarlierCheckpoints => {
            "如果它们是两次训练的检查点，请比较更早的检查点，直到最后一对一致的检查点。然后在两侧录制其后的各步，并比较新的数据："
                .to_owned()
        }
        Instruction::CheckGradientHandling => {
            "检查两次运行对梯度的清零、累加、缩放和裁剪是否相同。在优化器更新之前分别打印该梯度：".to_owned()
        }
        Instruction::CheckBatchAndSeed => {
            "检查两次运行是否使用相同的批数据和随机数。在两个程序的最前面加入：".to_owned()
        }
        Instruction::LookFor(hazard) => look_for(hazard),
        Instruction::SeeInputs => "查看它的输入：".to_owned(),
        Instruction::CompareCalls => "两个程序在此处的调用不同。检查它们的计算是否等价，从这两个调用开始：".to_owned(),
        Instruction::OpenRegion => {
            "列出其间的每个调用及其模块、数据类型、形状和代码行（RESULT 为 compare -o 的文件夹）：".to_owned()
        }
        Instruction::CheckCallOf(side) => {
            format!("检查该调用在{}中的作用，以及它是否应当存在：", side_word(*side))
        }
        Instruction::CompareCode => "比较这两行代码：".to_owned(),
        Instruction::LookAtCode(code) => format!("检查两次运行在这一行为何表现不同：{code}"),
        Instruction::CompareRecords => "比较两侧的记录：".to_owned(),
        Instruction::MadeAs(source) => format!("该张量由 {source} 产生。"),
        Instruction::RecordEveryOperator => "在两侧录制该步的每个算子，然后比较新的数据：".to_owned(),
        Instruction::LookForKernels => "这样仍看不到绕过 torch 写入张量的内核，请在此处查找：".to_owned(),
        Instruction::LookForPrecision(Precision::Seven) => format!(
            "查找以 bfloat16 计算它的代码：autocast 区域、类型转换、以 bfloat16 累加的内核。{IF_MEANT}"
        ),
        Instruction::LookForPrecision(Precision::Ten) => {
            "查找以低于其数据类型的精度计算它的代码：autocast 区域、类型转换或 TF32。关闭 TF32 的方法是设置".to_owned()
        }
        Instruction::InThatRun => format!("（在使用它的那次运行中）。{IF_MEANT}"),
        Instruction::DumpTensorsHere => "在两侧只保存此处的张量，然后比较两份新数据：".to_owned(),
        Instruction::OrInYourLoop => "或在自己的训练循环中：".to_owned(),
    }
}

fn look_for(hazard: &Hazard) -> String {
    match hazard {
        Hazard::GradientDivides(operation) => format!(
            "{operation} 的梯度要除以它的参数或结果：查找其中的零和接近零的值。无穷大的梯度乘以 0 得到 NaN。"
        ),
        Hazard::Logarithm => {
            "对数在 0 以下为 NaN，在 0 处为负无穷：查找小于或等于 0 的参数。可以截断参数，或加上一个小数来避免。".to_owned()
        }
        Hazard::Log1p => "log1p 在 -1 以下为 NaN，在 -1 处为负无穷：查找这样的参数。".to_owned(),
        Hazard::Root => "平方根在 0 以下为 NaN：查找负的参数，例如因舍入变为负数的方差。".to_owned(),
        Hazard::ReciprocalRoot => {
            "rsqrt 在 0 处为无穷大，在 0 以下为 NaN：查找小于或等于 0 的参数，以及缺少的 eps。".to_owned()
        }
        Hazard::Division => {
            "查找为 0 的除数：0 / 0 为 NaN，其他数 / 0 为无穷大。可以给除数加上一个小数，或使用掩码来避免。".to_owned()
        }
        Hazard::Exponential { operation, limit } => {
            let limit = limit.as_ref().map(|limit| format!("（{limit}）")).unwrap_or_default();
            format!("{operation} 在参数较大时溢出{limit}：查找更大的参数。可以像 softmax 那样先减去最大值来避免。")
        }
        Hazard::Power => {
            "负数的分数次幂为 NaN，0 的负数次幂为无穷大：查找小于或等于 0 的参数，或其幂溢出的参数。".to_owned()
        }
        Hazard::OutsideUnit(operation) => {
            format!("{operation} 在 -1 到 1 之外为 NaN：查找因舍入超出该范围的参数。")
        }
        Hazard::MaskedRow => "查找被完全掩盖的行：如果所有值都是 -inf，其 softmax 为 NaN。".to_owned(),
        Hazard::TooFewElements(operation) => {
            format!("检查 {operation} 是否在没有元素或只有一个元素的情况下计算。")
        }
        Hazard::ZeroVariance { largest } => {
            let largest = largest.as_ref().map(|largest| format!("（最大值：{largest}）"));
            format!(
                "查找为 0 的方差或范数（eps 为 0，或对该数据类型过小），以及平方会溢出的输入{}。",
                largest.unwrap_or_default()
            )
        }
        Hazard::ZeroProbability => {
            "查找对数中为 0 的概率，以及标签全部被忽略的批数据：其平均值为 0 / 0。".to_owned()
        }
        Hazard::LargeValues { dtype, largest, in_backward } => {
            let largest = match largest {
                Some(largest) => format!(" {dtype} 的最大值（{largest}）"),
                None => "该数据类型的最大值".to_owned(),
            };
            let remedy = match (dtype.as_str(), in_backward) {
                ("float16", true) => "如果接近，请减小损失缩放系数，或用 float32 运行该调用。",
                ("float16", false) => "如果接近，请用 float32 或 bfloat16 运行该调用，或缩小其输入。",
                _ => "如果都不是，请检查调用内部是否除以零，或对非正数求根或取对数。",
            };
            format!("检查其输入是否有无穷大（0 × 无穷大、无穷大 - 无穷大为 NaN），或是否接近{largest}。{remedy}")
        }
    }
}

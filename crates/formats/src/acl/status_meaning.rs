//! What a status of overflow detection means, in words.

use std::fmt;

use super::op_debug::Unit;

/// The meaning of a bit or code of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusMeaning(Meaning);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A row of [`KNOWN`].
    Known(usize),
    /// The unit has no codes; its status.
    Uncoded(u64),
    /// Bits without a known meaning.
    UnknownBits(u64),
    /// A status without a known meaning.
    UnknownStatus(u64),
}

/// English and Chinese. First the bits of an AI Core, then the codes of atomic additions.
const KNOWN: [(&str, &str); 11] = [
    ("an integer overflowed: the smallest one was negated", "有符号整数最小值取负溢出"),
    (
        "an integer overflowed in an addition, subtraction, multiplication or multiply-add",
        "整数加、减、乘或乘加计算有溢出",
    ),
    ("a floating-point computation overflowed", "浮点计算有溢出"),
    ("a negative float was converted to an unsigned integer", "浮点数转无符号数的输入是负数"),
    ("a conversion of float32 or int32 to float16 overflowed", "FP32转FP16或32符号整数转FP16中出现溢出"),
    ("an accumulation of the cube unit overflowed", "CUBE累加出现溢出"),
    ("an atomic addition overflowed", "向上溢出"),
    ("an atomic addition underflowed", "向下溢出"),
    ("the source of an atomic addition is NaN", "源操作数为NaN"),
    ("the destination of an atomic addition is NaN", "目的操作数为NaN"),
    ("source and destination of an atomic addition are NaN", "源操作数和目的操作数均为NaN"),
];

/// The bits of an AI Core's status, in the order of [`KNOWN`].
const CORE_BITS: [u64; 6] = [0x8, 0x10, 0x20, 0x80, 0x100, 0x400];

impl StatusMeaning {
    /// The meanings of a word of a unit's status; none if nothing was detected.
    pub(super) fn of(unit: Unit, status: u64) -> Vec<StatusMeaning> {
        let meanings = match unit {
            _ if status == 0 => Vec::new(),
            Unit::AiCore | Unit::Aic | Unit::Aiv => core_bits(status),
            Unit::L2 => vec![coded(status, 16, 0b111, 0b001)],
            Unit::Dha => vec![coded(status, 8, 0xff, 0x9)],
            Unit::AiCpu | Unit::Sdma => vec![Meaning::Uncoded(status)],
        };
        meanings.into_iter().map(StatusMeaning).collect()
    }

    /// In Chinese, as precision_tool says it.
    pub fn chinese(&self) -> String {
        match &self.0 {
            Meaning::Known(number) => KNOWN[*number].1.to_owned(),
            Meaning::Uncoded(status) => format!("该单元上报溢出（状态0x{status:x}），没有更多状态码"),
            Meaning::UnknownBits(bits) => format!("状态位0x{bits:x}含义未知"),
            Meaning::UnknownStatus(status) => format!("状态0x{status:x}含义未知"),
        }
    }
}

/// In English.
impl fmt::Display for StatusMeaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Meaning::Known(number) => f.write_str(KNOWN[*number].0),
            Meaning::Uncoded(status) => {
                write!(f, "the unit reports an overflow (status 0x{status:x}); it has no further codes")
            }
            Meaning::UnknownBits(bits) => write!(f, "bits 0x{bits:x} are set, which have no known meaning"),
            Meaning::UnknownStatus(status) => write!(f, "status 0x{status:x} has no known meaning"),
        }
    }
}

fn core_bits(status: u64) -> Vec<Meaning> {
    let is_set = |(_, bit): &(usize, &u64)| status & **bit != 0;
    let known = CORE_BITS.iter().enumerate().filter(is_set).map(|(number, _)| Meaning::Known(number));
    let mut meanings: Vec<Meaning> = known.collect();
    let unknown = status & !CORE_BITS.iter().fold(0, |all, bit| all | bit);
    meanings.extend((unknown != 0).then_some(Meaning::UnknownBits(unknown)));
    meanings
}

/// The code of an atomic addition, which counts from `first`.
fn coded(status: u64, shift: u32, mask: u64, first: u64) -> Meaning {
    let code = ((status >> shift) & mask).checked_sub(first).and_then(|code| usize::try_from(code).ok());
    let number = code.map(|code| CORE_BITS.len() + code).filter(|number| *number < KNOWN.len());
    number.map_or(Meaning::UnknownStatus(status), Meaning::Known)
}

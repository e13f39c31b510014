//! What the device wrote when it detected an overflow: the first output of a file `Opdebug.Node_OpDebug.…`.
//!
//! ```text
//! older, 2048 bytes     DHA at 0, L2 at 128, AI Core at 256: model, stream, task, kind, code, parameters (u64 each)
//!                       status of DHA at 512, of L2 at 768; AI Core at 1024: kernel, block, status
//! newer                 0x5a5a5a5a, version, valid, unit, reserved, length (u32 each), then fields of the unit (u64)
//! ```
//!
//! Both are kept as fields with the names that the older tools use in their JSON.

use super::status_meaning::StatusMeaning;
use crate::error::{Error, Fault, Place};
use crate::json::Json;

/// Bytes of the older form.
const OLD_SIZE: usize = 2048;
/// The first word of the newer form.
const MAGIC: u32 = 0x5a5a_5a5a;
/// Bytes before the fields of the newer form.
const NEW_HEADER: usize = 24;
/// Words of a status from version 1 on.
const STATUS_WORDS: usize = 4;

/// The part of the device that found an overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The atomic addition of the DHA.
    Dha,
    /// The atomic addition of the L2 cache.
    L2,
    /// An AI Core: in the older form, where cube and vector are not told apart.
    AiCore,
    /// The cube core.
    Aic,
    /// The vector core.
    Aiv,
    /// The AI CPU.
    AiCpu,
    /// The engine that copies memory.
    Sdma,
}

/// One record of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// Who wrote it.
    pub unit: Unit,
    /// Every field but the status, by name, in order.
    fields: Vec<(&'static str, u64)>,
    /// The status: one word, or four from version 1 of the newer form on.
    pub status: Vec<u64>,
}

/// The content of an op-debug file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpDebug {
    /// The records: three in the older form, one in the newer.
    pub units: Vec<UnitState>,
    newer: Option<NewHeader>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NewHeader {
    version: u32,
    valid: u32,
    reserved: u32,
    data_len: u32,
}

/// What every unit of the older form has.
const TASK: [&str; 6] = ["model_id", "stream_id", "task_id", "task_type", "pc_start", "para_base"];
/// The fields of the newer form, by unit.
const CORE_FIELDS: [&str; 10] = [
    "model_id",
    "stream_id",
    "task_id",
    "task_type",
    "context_id",
    "thread_id",
    "pc_start",
    "para_base",
    "core_id",
    "block_id",
];
const AI_CPU_FIELDS: [&str; 7] =
    ["model_id", "stream_id", "task_id", "task_type", "context_id", "cpu_id", "thread_id"];
const SDMA_FIELDS: [&str; 9] = [
    "model_id",
    "stream_id",
    "task_id",
    "task_type",
    "context_id",
    "thread_id",
    "src_addr",
    "dst_addr",
    "channel_id",
];
/// Fields that the older tools print in hexadecimal digits.
const ADDRESSES: [&str; 5] = ["pc_start", "para_base", "kernel_code", "src_addr", "dst_addr"];

/// Reads the bytes of the output of an op-debug file.
pub fn read_op_debug(data: &[u8]) -> Result<OpDebug, Error> {
    match data.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
        Some(MAGIC) => read_new(data),
        _ if data.len() == OLD_SIZE => Ok(read_old(data)),
        _ => {
            let expected = format!("{OLD_SIZE} bytes, or the number 0x{MAGIC:x} at the start");
            let found = format!("{} bytes", data.len());
            Err(Error::whole(Fault::malformed(expected, found)))
        }
    }
}

/// The caller has checked the size.
fn read_old(data: &[u8]) -> OpDebug {
    let word = |at: usize| {
        let bytes = data.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        u64::from_le_bytes(bytes)
    };
    let task = |at: usize| -> Vec<(&'static str, u64)> {
        TASK.into_iter().enumerate().map(|(index, name)| (name, word(at + 8 * index))).collect()
    };
    let mut ai_core = task(256);
    ai_core.extend([("kernel_code", word(1024)), ("block_idx", word(1032))]);
    let units = vec![
        UnitState { unit: Unit::Dha, fields: task(0), status: vec![word(512)] },
        UnitState { unit: Unit::L2, fields: task(128), status: vec![word(768)] },
        UnitState { unit: Unit::AiCore, fields: ai_core, status: vec![word(1040)] },
    ];
    OpDebug { units, newer: None }
}

fn read_new(data: &[u8]) -> Result<OpDebug, Error> {
    let Some((header, rest)) = data.split_first_chunk::<NEW_HEADER>() else {
        let fault =
            Fault::truncated(format!("{NEW_HEADER} bytes of an op-debug header"), data.len().to_string());
        return Err(Error::at(Place::Byte(0), fault));
    };
    let half = |index: usize| {
        let bytes = header[4 * index..].first_chunk().copied().unwrap_or_default();
        u32::from_le_bytes(bytes)
    };
    let (version, valid, kind, reserved, data_len) = (half(1), half(2), half(3), half(4), half(5));
    let (unit, names): (Unit, &[&'static str]) = match kind {
        0 => (Unit::Aic, &CORE_FIELDS),
        1 => (Unit::Aiv, &CORE_FIELDS),
        2 => (Unit::AiCpu, &AI_CPU_FIELDS),
        3 => (Unit::Sdma, &SDMA_FIELDS),
        other => {
            let fault = Fault::malformed("a unit from 0 (AIC) to 3 (SDMA)", other.to_string());
            return Err(Error::at(Place::Byte(12), fault));
        }
    };
    let is_core = matches!(unit, Unit::Aic | Unit::Aiv);
    let status_words = if version >= 1 && is_core { STATUS_WORDS } else { 1 };
    let needed = 8 * (names.len() + status_words);
    if rest.len() < needed {
        let fault = Fault::truncated(format!("{needed} bytes of fields"), rest.len().to_string());
        return Err(Error::at(Place::Byte(NEW_HEADER as u64), fault));
    }
    let words = rest.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let words: Vec<u64> = words.take(names.len() + status_words).collect();
    let (fields, status) = words.split_at(names.len());
    let fields = names.iter().copied().zip(fields.iter().copied()).collect();
    let units = vec![UnitState { unit, fields, status: status.to_vec() }];
    Ok(OpDebug { units, newer: Some(NewHeader { version, valid, reserved, data_len }) })
}

impl Unit {
    /// Its name in the older tools.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Dha => "DHA Atomic Add",
            Unit::L2 => "L2 Atomic Add",
            Unit::AiCore => "AI Core",
            Unit::Aic => "AIC",
            Unit::Aiv => "AIV",
            Unit::AiCpu => "AICPU",
            Unit::Sdma => "SDMA",
        }
    }
}

impl UnitState {
    /// A field by name.
    pub fn field(&self, name: &str) -> Option<u64> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value)
    }

    /// Whether it detected anything.
    pub fn has_overflow(&self) -> bool {
        self.status.iter().any(|&word| word != 0)
    }

    /// The meaning of the status, one for each set bit or code.
    pub fn meanings(&self) -> Vec<StatusMeaning> {
        self.status.iter().flat_map(|&word| StatusMeaning::of(self.unit, word)).collect()
    }

    fn to_json(&self) -> Json {
        let mut pairs: Vec<(String, Json)> = Vec::new();
        for &(name, value) in &self.fields {
            let value = if ADDRESSES.contains(&name) {
                Json::Str(format!("0x{value:x}"))
            } else {
                Json::Int(value.into())
            };
            pairs.push((name.to_owned(), value));
        }
        let status = match self.status.as_slice() {
            [one] => Json::Int((*one).into()),
            words => Json::List(words.iter().map(|&word| Json::Int(word.into())).collect()),
        };
        pairs.push(("status".to_owned(), status));
        Json::Object(pairs)
    }
}

impl OpDebug {
    /// The document that the older tools make of the file.
    pub fn to_json(&self) -> Json {
        let pair = |key: &str, value: Json| (key.to_owned(), value);
        let number = |value: u32| Json::Int(value.into());
        match (&self.newer, self.units.as_slice()) {
            (Some(header), [state]) => {
                let list = Json::Object(vec![
                    pair("valid", number(header.valid)),
                    pair("acc_type", Json::Str(state.unit.name().to_owned())),
                    pair("rsv", number(header.reserved)),
                    pair("data_len", number(header.data_len)),
                    pair("data", state.to_json()),
                ]);
                Json::Object(vec![
                    pair("magic", Json::Str(format!("0x{MAGIC:x}"))),
                    pair("version", number(header.version)),
                    pair("acc_list", list),
                ])
            }
            _ => Json::Object(
                self.units.iter().map(|state| (state.unit.name().to_owned(), state.to_json())).collect(),
            ),
        }
    }
}

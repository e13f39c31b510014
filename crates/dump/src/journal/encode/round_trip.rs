//! Every written line is read back unchanged, by the full reader and, for lines of calls, by the quick one.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use ulpscope_formats::json::{self, Json};
use ulpscope_kernels::{RECORDED, Threads, stats};
use ulpscope_tensor::{DType, Scalar, View};

use super::super::line::{self, Line, Span};
use super::super::quick;
use super::super::scan::Trust;
use super::*;
use crate::ledger::{Ledger, ModelResults};
use crate::writer::{SavedPart, SavedTensor};

/// The offset of the lines in their file.
const START: u64 = 7;

/// Texts that need escapes, and those that do not.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9_.@-]{0,20}", "[a-z\\\\\"{}\\[\\],:\n\t\u{0}\u{7f}\u{e9}\u{1f600}]{0,12}"]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..100u64, any::<u64>().prop_map(|number| number >> 1)]
}

/// A value in a line, as text.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((text(), plain()), 0..4).prop_map(|pairs| {
        let mut out = Vec::new();
        let mut object = ObjectText::open(&mut out);
        for (number, (key, value)) in pairs.into_iter().enumerate() {
            object.key(&format!("{number}{key}"), &mut out);
            value.plain().encode(&mut out);
        }
        object.close(&mut out);
        out
    })
}

#[derive(Clone, Debug)]
enum Owned {
    Bool(bool),
    Int(i128),
    LongInt(String),
    Float(f64),
    Str(String),
    Size(Vec<i128>),
}

impl Owned {
    fn plain(&self) -> Plain<'_> {
        match self {
            Owned::Bool(value) => Plain::Bool(*value),
            Owned::Int(value) => Plain::Int(*value),
            Owned::LongInt(value) => Plain::LongInt(value),
            Owned::Float(value) => Plain::Float(*value),
            Owned::Str(value) => Plain::Str(value),
            Owned::Size(value) => Plain::Size(value),
        }
    }

    fn json(&self) -> (&'static str, Json) {
        match self {
            Owned::Bool(value) => ("bool", Json::Bool(*value)),
            Owned::Int(value) => ("int", Json::Int(*value)),
            Owned::LongInt(value) => ("int", Json::Str(value.clone())),
            Owned::Float(value) => ("float", Json::Float(*value)),
            Owned::Str(value) => ("str", Json::Str(value.clone())),
            Owned::Size(value) => ("torch.Size", Json::List(value.iter().copied().map(Json::Int).collect())),
        }
    }
}

fn plain() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<bool>().prop_map(Owned::Bool),
        any::<i64>().prop_map(|value| Owned::Int(value.into())),
        any::<u64>().prop_map(|value| Owned::Int(i128::from(value) << 40)),
        "-?[1-9][0-9]{40,60}".prop_map(Owned::LongInt),
        any::<f64>().prop_map(Owned::Float),
        text().prop_map(Owned::Str),
        prop::collection::vec(any::<u32>().prop_map(i128::from), 0..4).prop_map(Owned::Size),
    ]
}

/// Equal, with NaN equal to itself.
fn same(one: &Json, other: &Json) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

/// The line without its newline.
fn one_line(out: &[u8]) -> &[u8] {
    let (&last, line) = out.split_last().unwrap();
    assert_eq!(last, b'\n');
    assert!(!line.contains(&b'\n'), "{}", line.escape_ascii());
    line
}

/// Reads a line with the full reader. The quick reader must return the same or nothing.
fn read(line: &[u8]) -> Line<'_> {
    let careful = line::read(line, 1, START).unwrap();
    for trust in [Trust::Foreign, Trust::Own] {
        if let Some(quick) = quick::read(line, START, trust) {
            assert_eq!(format!("{quick:?}"), format!("{careful:?}"));
        }
    }
    careful
}

fn text_of(span: Option<Span>, line: &[u8]) -> Option<&[u8]> {
    span.map(|span| &line[(span.start - START) as usize..][..span.length as usize])
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    json::push_text(text, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_beginning_of_a_call(
        name in text(), id in prop::option::of(number()), stack in prop::option::of(number()),
        parent in prop::option::of(text()), data in prop::option::of(value()),
    ) {
        let said = CallLine::Begin { name: &name, id, stack, parent: parent.as_deref() };
        let out = encoded(&said, data.as_deref());
        let line = one_line(&out);
        let Line::Call(found) = read(line) else { panic!("no call") };
        prop_assert_eq!(found.name.as_ref(), name.as_str());
        prop_assert_eq!((found.id, found.stack), (id, stack));
        let quoted = parent.as_deref().map(quoted);
        prop_assert_eq!(text_of(found.parent, line), quoted.as_deref());
        prop_assert_eq!(text_of(found.data, line), data.as_deref());
        let is_short = |number: Option<u64>| number.is_none_or(|number| number < 10u64.pow(18));
        let is_usual = is_short(id) && is_short(stack) && !name.contains(is_escaped)
            && !parent.as_deref().is_some_and(|parent| parent.contains(is_escaped));
        prop_assert!(!is_usual || quick::read(line, START, Trust::Own).is_some());
    }

    #[test]
    fn what_follows_in_a_call(id in number(), last in any::<bool>(), data in prop::option::of(value())) {
        let out = encoded(&CallLine::More { id }, data.as_deref());
        let line = one_line(&out);
        let Line::More { id: found, data: text } = read(line) else { panic!("not more") };
        prop_assert_eq!((found, text_of(text, line)), (id, data.as_deref()));

        let out = encoded(&CallLine::End { id, last }, data.as_deref());
        let line = one_line(&out);
        let Line::End { id: found, last: is_last, data: text } = read(line) else { panic!("no end") };
        prop_assert_eq!((found, is_last, text_of(text, line)), (id, last, data.as_deref()));
        prop_assert!(id >= 10u64.pow(18) || quick::read(line, START, Trust::Own).is_some());

        let mut out = Vec::new();
        RaisedLine { id, last }.encode(&mut out);
        let Line::Raised { id: found, last: is_last } = read(one_line(&out)) else { panic!("not raised") };
        prop_assert_eq!((found, is_last), (id, last));
    }

    #[test]
    fn a_stack(id in number(), frames in prop::collection::vec(text(), 0..4)) {
        let mut list = Vec::new();
        let mut open = ListText::open(&mut list);
        for frame in &frames {
            open.element(&mut list);
            json::push_text(frame, &mut list);
        }
        open.close(&mut list);
        let mut out = Vec::new();
        StackLine { id, frames: std::str::from_utf8(&list).unwrap() }.encode(&mut out);
        let line = one_line(&out);
        let Line::Stack { id: found, frames: text } = read(line) else { panic!("no stack") };
        prop_assert_eq!((found, text_of(Some(text), line)), (id, Some(list.as_slice())));
        let frames: Vec<Json> = frames.into_iter().map(Json::Str).collect();
        prop_assert_eq!(json::read(&list).unwrap(), Json::List(frames));
    }

    #[test]
    fn a_header(task in text(), level in text(), folder in prop::option::of(text())) {
        let mut out = Vec::new();
        let stack_form = StackForm::default();
        Header { task: &task, level: &level, framework: "pytorch", dump_data_dir: folder.as_deref(), stack_form }
            .encode(&mut out);
        prop_assert!(out.starts_with(super::super::MARK));
        let header = json::read(one_line(&out)).unwrap();
        prop_assert_eq!(header.get("task").unwrap(), &Json::Str(task));
        prop_assert_eq!(header.get("level").unwrap(), &Json::Str(level));
        prop_assert_eq!(header.get("dump_data_dir").unwrap(), &folder.map_or(Json::Null, Json::Str));
    }

    #[test]
    fn a_ledger(
        (seen, recorded) in (number(), number()),
        counts in prop::collection::vec(prop::collection::btree_map(text(), number(), 0..3), 4),
        returned in prop::collection::vec((number(), prop::collection::vec((text(), prop::option::of(text())), 0..3)), 0..3),
        notes in prop::collection::vec(text(), 0..3),
        ended in prop::option::of(text()), limited in any::<bool>(), over in any::<bool>(),
    ) {
        let mut counts = counts.into_iter().map(|counts| counts.into_iter().collect::<Vec<_>>());
        let mut next = || counts.next().unwrap();
        let returned = returned.into_iter().map(|(calls, results)| ModelResults { calls, results }).collect();
        let said = Ledger {
            seen, recorded, raised: next(), skipped: next(), failed: next(), unread: next(), returned, notes, ended,
            limited,
        };
        let mut out = Vec::new();
        said.encode(over, &mut out);
        let line = one_line(&out);
        let Line::Ledger { ledger, over: is_over } = read(line) else { panic!("no ledger") };
        let found = Ledger::from_json(&json::read(text_of(Some(ledger), line).unwrap()).unwrap()).unwrap();
        prop_assert_eq!((found, is_over), (said, over));
    }

    #[test]
    fn plain_values(said in plain()) {
        let mut out = Vec::new();
        said.plain().encode(&mut out);
        let (kind, value) = said.json();
        let found = json::read(&out).unwrap();
        prop_assert_eq!(found.get("type").unwrap(), &Json::Str(kind.to_owned()));
        prop_assert!(same(found.get("value").unwrap(), &value), "{}", out.escape_ascii());
    }

    #[test]
    fn tensors(
        (elements, is_scalar) in (prop::collection::vec(any::<f32>(), 0..6), any::<bool>()),
        (digest, file, source) in (prop::option::of(text()), prop::option::of(text()), prop::option::of(text())),
        (requires_grad, is_blank, is_changed, is_recompute, is_read) in any::<(bool, bool, bool, bool, bool)>(),
        shared_with in prop::collection::vec(0..9usize, 0..3),
        part in prop::option::of(saved_part()),
    ) {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
        let measured = stats(&View::contiguous(DType::F32, vec![elements.len()], &bytes).unwrap(), Threads::One);
        let stats = is_read.then_some(&measured);
        let mut out = Vec::new();
        TensorHead { class: "torch.Tensor", dtype: "torch.float32", shape: &[elements.len()] }.open(&mut out);
        let extra = ",\"placements\":[1]";
        let saved = file.as_ref().map(|file| SavedTensor { file: file.clone(), part: part.clone() });
        TensorRest {
            stats, ticket: None, has_late_digest: false, has_late_file: false, is_scalar, requires_grad, digest: digest.as_deref(),
            saved: saved.as_ref(), is_blank, is_changed,
            extra, is_recompute, source: source.as_deref(), elements: is_read.then_some(Elements::All(&elements)),
        }.close(&mut out);
        add_shared_with(&shared_with, &mut out);
        let found = json::read(&out).unwrap();
        prop_assert_eq!(found.get("shape").unwrap(), &Json::List(vec![Json::Int(elements.len() as i128)]));
        prop_assert_eq!(found.get("requires_grad").unwrap(), &Json::Bool(requires_grad));
        let part = part.filter(|_| file.is_some());
        let numbers = |numbers: Vec<u64>| Json::List(numbers.into_iter().map(|number| Json::Int(number.into())).collect());
        let at = part.as_ref().map(|part| numbers(vec![part.offset, part.length]));
        prop_assert_eq!(found.get("data_at"), at.as_ref());
        let dims = part.as_ref().and_then(|part| part.shape.clone());
        let dims = dims.map(|dims| numbers(dims.into_iter().map(|dim| dim as u64).collect()));
        prop_assert_eq!(found.get("data_shape"), dims.as_ref());
        let dtype = part.as_ref().and_then(|part| part.dtype).map(|dtype| dtype.name().to_owned());
        let key = part.and_then(|part| part.name);
        for (key, text) in [
            ("md5", digest), ("data_name", file), ("source", source), ("data_key", key), ("data_dtype", dtype),
        ] {
            let text = text.map(Json::Str);
            prop_assert_eq!(found.get(key), text.as_ref());
        }
        let values = is_read.then(|| Json::List(elements.iter().map(|&value| Json::Float(value.into())).collect()));
        prop_assert_eq!(format!("{:?}", found.get("values")), format!("{:?}", values.as_ref()));
        for (key, flag) in [("blank", is_blank), ("changed", is_changed), ("is_recompute", is_recompute)] {
            prop_assert_eq!(found.get(key), flag.then_some(&Json::Bool(true)));
        }
        prop_assert_eq!(found.get("placements").unwrap(), &Json::List(vec![Json::Int(1)]));
        let shared = shared_with.iter().map(|&argument| Json::Int(argument as i128)).collect();
        prop_assert_eq!(found.get("shared_with").unwrap(), &Json::List(shared));
        for statistic in &RECORDED {
            let is_there = statistic.is_summary() || stats.is_some_and(|stats| statistic.is_recorded_of(stats));
            let value = stats.and_then(|stats| statistic.of(stats, is_scalar));
            let expected = is_there.then(|| value.map_or(Json::Null, json_of));
            let expected = expected.as_ref();
            prop_assert!(
                found.get(statistic.key).zip(expected).map_or(expected.is_none(), |(one, other)| same(one, other)),
                "{}: {}", statistic.key, out.escape_ascii()
            );
        }
    }
}

prop_compose! {
    fn saved_part()(
        (offset, length) in any::<(u64, u64)>(),
        name in prop::option::of(text()),
        dtype in prop::option::of(prop::sample::select(DType::ALL.to_vec())),
        shape in prop::option::of(prop::collection::vec(0..9usize, 0..3)),
    ) -> SavedPart {
        SavedPart { offset, length, name, dtype, shape }
    }
}

/// Characters in a name that the quick reader leaves to the full one.
fn is_escaped(character: char) -> bool {
    !(' '..='~').contains(&character) || character == '"' || character == '\\'
}

fn json_of(value: Scalar) -> Json {
    match value {
        Scalar::Int(value) => Json::Int(value),
        Scalar::Bool(value) => Json::Bool(value),
        other => Json::Float(other.to_f64()),
    }
}

/// The line, with or without a value, appended to a buffer that is not empty.
fn encoded(line: &CallLine<'_>, data: Option<&[u8]>) -> Vec<u8> {
    let mut out = b"before".to_vec();
    match data {
        Some(data) => {
            let failed = line.encode_with(&mut out, |out| {
                out.extend_from_slice(b"half");
                Err(())
            });
            assert_eq!(
                (failed, out.as_slice()),
                (Err(()), b"before".as_slice()),
                "nothing is left of a failure"
            );
            let written: Result<(), ()> = line.encode_with(&mut out, |out| {
                out.extend_from_slice(data);
                Ok(())
            });
            assert_eq!(written, Ok(()));
        }
        None => line.encode(&mut out),
    }
    out.split_off(b"before".len())
}

//! Converts NumPy's dtype codes, such as `<f4`, to and from [`DType`].

use ulpscope_tensor::DType;

use super::literal::Literal;
use crate::error::{Fault, shortened};

/// The element type as the file describes it.
#[derive(Debug)]
pub(super) struct Element {
    pub dtype: DType,
    pub big_endian: bool,
}

/// The element type of a `descr`: a code, or a single field whose name is the type.
pub(super) fn element(descr: &Literal) -> Result<Element, Fault> {
    let code = match descr {
        Literal::Str(code) => return plain(code),
        Literal::List(fields) => match fields.as_slice() {
            [Literal::Tuple(field)] => match field.as_slice() {
                [Literal::Str(name), Literal::Str(code)] => Some((name, code)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let Some((name, code)) = code else {
        if !matches!(descr, Literal::List(_) | Literal::Tuple(_)) {
            return Err(Fault::malformed("a dtype such as '<f4' for descr", descr.to_string()));
        }
        if holds_objects(descr) {
            return Err(object_array());
        }
        return Err(Fault::Unsupported(format!(
            "a structured array, descr {}; expected one number per element: save its fields one by one",
            shortened(&descr.to_string())
        )));
    };
    // `dtype.descr` of a plain type is one field without a name. Some writers store that.
    if name.is_empty() {
        return plain(code);
    }
    if is_object(code) {
        return Err(object_array());
    }
    named_field(name, code).ok_or_else(|| {
        Fault::Unsupported(format!(
            "a structured array with the field {:?} of type {:?}; expected one number per element: \
             save the field on its own",
            shortened(name),
            shortened(code)
        ))
    })
}

/// A field named after an element type without a NumPy code, over as many opaque or unsigned bytes.
fn named_field(name: &str, code: &str) -> Option<Element> {
    let dtype = DType::ALL.into_iter().find(|dtype| dtype.name() == name && dtype.numpy_code().is_none())?;
    let (order, kind, size) = split(code)?;
    let matches = matches!(kind, 'u' | 'i' | 'V') && size == dtype.size();
    // NumPy never swaps opaque bytes, whatever byte order their code has.
    matches.then_some(Element { dtype, big_endian: order == '>' && kind != 'V' && size > 1 })
}

fn object_array() -> Fault {
    Fault::Unsupported(
        "an object array: its elements are a Python pickle, which is never unpickled here; \
         save it again as an array of numbers"
            .into(),
    )
}

fn is_object(code: &str) -> bool {
    matches!(code, "|O" | "O" | "|O8" | "|O4")
}

/// Whether some field is an object; NumPy then pickles the whole array. (The parser bounds the depth.)
fn holds_objects(descr: &Literal) -> bool {
    match descr {
        Literal::Str(code) => is_object(code),
        Literal::List(items) | Literal::Tuple(items) => items.iter().any(holds_objects),
        _ => false,
    }
}

/// `<f4`, `|u1`, `?`, or the full name of a dtype.
fn plain(code: &str) -> Result<Element, Fault> {
    if let Some(dtype) = DType::ALL.into_iter().find(|dtype| dtype.name() == code) {
        return Ok(Element { dtype, big_endian: false });
    }
    if let "?" | "|?" = code {
        return Ok(Element { dtype: DType::Bool, big_endian: false });
    }
    if is_object(code) {
        return Err(object_array());
    }
    let refuse = |what: &str| Err(Fault::Unsupported(format!("{what}, descr '{code}'; expected numbers")));
    let kind = code.trim_start_matches(['<', '>', '=', '|']).chars().next();
    match kind {
        Some('S' | 'a') => return refuse("an array of byte strings"),
        Some('U') => return refuse("an array of text"),
        Some('T') => return refuse("an array of variable-width text"),
        Some('M') => return refuse("an array of dates"),
        Some('m') => return refuse("an array of time spans"),
        _ => {}
    }
    let Some((order, kind, size)) = split(code) else {
        return Err(Fault::malformed("a dtype such as '<f4'", format!("'{code}'")));
    };
    let dtype = match (kind, size) {
        ('f', 1) => DType::F8E5M2,
        ('V', 2) => return Ok(Element { dtype: DType::BF16, big_endian: false }),
        ('f', 10 | 12 | 16) | ('c', 20 | 24 | 32) => {
            return Err(Fault::Unsupported(format!(
                "extended precision, descr '{code}', differs from machine to machine; save it as float64 or complex128"
            )));
        }
        ('V', 1) => {
            return Err(Fault::Unsupported(format!(
                "one opaque byte per element, descr '{code}': NumPy writes every 8-bit float and 4-bit integer of \
                 ml_dtypes so, and the file does not say which it is; save the tensor as .safetensors or .pt"
            )));
        }
        ('V', _) => return refuse("an array of opaque bytes"),
        _ => match DType::from_numpy(&format!("{kind}{size}")) {
            Some(dtype) => dtype,
            None => return Err(Fault::malformed("a dtype such as '<f4'", format!("'{code}'"))),
        },
    };
    Ok(Element { dtype, big_endian: order == '>' && size > 1 })
}

/// Byte order, kind and size of a code. `=`, `|` and no mark mean little-endian, as on all supported machines.
fn split(code: &str) -> Option<(char, char, usize)> {
    let mut chars = code.chars();
    let mut order = chars.next()?;
    let mut kind = order;
    if matches!(order, '<' | '>' | '=' | '|') {
        kind = chars.next()?;
    } else {
        order = '=';
    }
    let digits = chars.as_str();
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().map(|size| (order, kind, size))
}

/// The `descr` of a dtype, as a Python literal.
pub(super) fn of(dtype: DType) -> String {
    if dtype == DType::BF16 {
        // As NumPy writes the bfloat16 of ml_dtypes.
        return "'<V2'".into();
    }
    match (dtype.numpy_code(), dtype.bits_dtype().and_then(DType::numpy_code)) {
        (Some(code), _) => format!("'{code}'"),
        (None, Some(bits)) => format!("[('{dtype}', '{bits}')]"),
        (None, None) => format!("[('{dtype}', '|V{}')]", dtype.size()),
    }
}

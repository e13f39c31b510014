//! Reads and writes the header of a `.npy` file: dtype, order, shape and where the elements begin.

use ulpscope_tensor::DType;

use super::descr::{self, Element};
use super::literal::{self, Item, Literal};
use crate::error::{Error, Fault, Place, beginning, shortened};
use crate::tensor::MAX_RANK;

pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The longest possible header of version 1.0. Versions 2.0 and 3.0 exceed it only for structured arrays
/// with hundreds of fields, which are not tensors.
pub const MAX_HEADER_SIZE: usize = u16::MAX as usize;

/// NumPy leaves space in the header so that the growing dimension can have this many digits.
const GROWTH_DIGITS: usize = 21;

/// NumPy starts the elements at a multiple of this.
const ALIGNMENT: usize = 64;

/// Everything the header says.
pub(super) struct Header {
    pub element: Element,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
    /// Byte position of the first element.
    pub data_at: usize,
}

/// Reads the header at the start of a file.
pub(super) fn read(bytes: &[u8]) -> Result<Header, Error> {
    let (text, text_at) = text_of(bytes)?;
    let pairs = literal::parse_dict(text, text_at)?;

    let (mut descr, mut order, mut shape) = (None, None, None);
    for (key, item) in pairs {
        let place = || Place::Byte(item.at);
        let slot = match key.as_str() {
            "descr" => &mut descr,
            "fortran_order" => &mut order,
            "shape" => &mut shape,
            _ => {
                let found = format!("key {:?}", shortened(&key));
                return Err(Error::at(
                    place(),
                    Fault::malformed("only the keys descr, fortran_order and shape", found),
                ));
            }
        };
        if slot.is_some() {
            let found = format!("a second {key:?}");
            return Err(Error::at(place(), Fault::malformed("each header key once", found)));
        }
        *slot = Some(item);
    }
    let need = |slot: Option<Item>, key: &str| {
        slot.ok_or_else(|| {
            let fault = Fault::malformed(format!("a header with the key {key}"), "none");
            Error::at(Place::Byte(text_at), fault)
        })
    };
    let (descr, order, shape) = (need(descr, "descr")?, need(order, "fortran_order")?, need(shape, "shape")?);

    let element = descr::element(&descr.literal)
        .map_err(|fault| Error::at(Place::Part("header key descr".into()), fault))?;
    let Literal::Bool(fortran_order) = order.literal else {
        let fault = Fault::malformed("True or False for fortran_order", order.literal.to_string());
        return Err(Error::at(Place::Byte(order.at), fault));
    };
    let shape = dims(&shape.literal).map_err(|fault| Error::at(Place::Byte(shape.at), fault))?;
    Ok(Header { element, fortran_order, shape, data_at: text_at as usize + text.len() })
}

/// The dict literal and its byte position.
fn text_of(bytes: &[u8]) -> Result<(&[u8], u64), Error> {
    if !bytes.starts_with(MAGIC) {
        return Err(Error::whole(Fault::Magic {
            expected: "a .npy file (\\x93NUMPY)",
            found: beginning(bytes),
        }));
    }
    let (width, text_at) = match bytes.get(6..8) {
        Some([1, 0]) => (2, 10),
        Some([2 | 3, 0]) => (4, 12),
        Some(&[major, minor]) => {
            let message = format!("npy version {major}.{minor}; expected 1.0, 2.0 or 3.0");
            return Err(Error::at(Place::Byte(6), Fault::Unsupported(message)));
        }
        _ => return Err(cut(6, "2 bytes of version", bytes)),
    };
    let Some(length) = bytes.get(8..8 + width) else {
        return Err(cut(8, &format!("{width} bytes of header length"), bytes));
    };
    let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | byte as usize);
    if length > MAX_HEADER_SIZE {
        return Err(Error::at(
            Place::Byte(8),
            Fault::TooLarge { what: "header length", limit: MAX_HEADER_SIZE as u64, found: length as u64 },
        ));
    }
    match bytes.get(text_at..text_at + length) {
        Some(text) => Ok((text, text_at as u64)),
        None => Err(cut(text_at, &format!("{length} bytes of header"), bytes)),
    }
}

fn cut(at: usize, expected: &str, bytes: &[u8]) -> Error {
    Error::at(Place::Byte(at as u64), Fault::truncated(expected, (bytes.len() - at).to_string()))
}

fn dims(literal: &Literal) -> Result<Vec<usize>, Fault> {
    let Literal::Tuple(items) = literal else {
        return Err(Fault::malformed("a tuple of dimensions for shape", literal.to_string()));
    };
    if items.len() > MAX_RANK {
        let (limit, found) = (MAX_RANK as u64, items.len() as u64);
        return Err(Fault::TooLarge { what: "number of dimensions", limit, found });
    }
    let dim = |item: &Literal| match item {
        Literal::Int(dim) => usize::try_from(*dim).ok(),
        _ => None,
    };
    items
        .iter()
        .map(|item| {
            dim(item).ok_or_else(|| Fault::malformed("dimensions from 0 to 2^64-1", item.to_string()))
        })
        .collect()
}

/// The whole header, magic to newline, as `numpy.save` writes it.
pub(super) fn compose(dtype: DType, fortran_order: bool, shape: &[usize]) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    let descr = descr::of(dtype);
    let dims = match shape {
        [only] => format!("({only},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {dims}, }}");
    let growing = if fortran_order { shape.last() } else { shape.first() };
    if let Some(dim) = growing {
        text.push_str(&" ".repeat(GROWTH_DIGITS.saturating_sub(dim.to_string().len())));
    }
    let prefix = MAGIC.len() + 4;
    // NumPy adds a whole block of padding if the header would fit exactly.
    let padding = ALIGNMENT - (prefix + text.len() + 1) % ALIGNMENT;
    text.push_str(&" ".repeat(padding));
    text.push('\n');

    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    // With at most `MAX_RANK` dimensions of twenty digits the length stays far below 2^16.
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.into_bytes());
    header
}

//! NumPy's `.npy`: one array after a header that is a Python dict literal.
//!
//! ```text
//! "\x93NUMPY" major minor | length (u16, from 2.0 on u32) | {'descr': …, 'fortran_order': …, 'shape': …} | elements
//! ```
//!
//! Reading maps the elements in place. A column-major file becomes byte strides; only a big-endian one is copied,
//! to swap its bytes. Bytes after the last element are ignored, as in NumPy. A second array there, from a file that
//! was saved to twice, is refused, because it would go unnoticed. An object array is a pickle and is refused:
//! nothing in a file is ever unpickled here.
//!
//! # Element types that NumPy has no code for
//!
//! What NumPy writes for the types of `ml_dtypes` depends on the type and is mostly ambiguous:
//!
//! | element type                      | NumPy + ml_dtypes | read here as     | written here as               |
//! |-----------------------------------|-------------------|------------------|-------------------------------|
//! | `bfloat16`                        | `<V2` (or `\|V2`) | `bfloat16`       | `<V2`                         |
//! | `float8_e5m2`                     | `<f1` (or `V1`)   | `float8_e5m2`    | `[('float8_e5m2', '\|u1')]`   |
//! | the other 8-bit floats            | `<V1`             | refused: which?  | `[('float8_e4m3fn', '\|u1')]` |
//!
//! Two opaque bytes are `bfloat16` in every dump seen in this field. One opaque byte may be any of a dozen types,
//! so a guess would put wrong numbers into a report. Our own files therefore name the type in the single field of
//! a structured array. `numpy.load` opens them without pickle, `.view(ml_dtypes.float8_e4m3fn)` returns the
//! numbers, and this reader restores exactly what was written. (`<f1` is read but not written: NumPy itself
//! cannot open it again.)

mod descr;
mod header;
mod literal;

use std::io::Write;

use ulpscope_tensor::{View, ViewError, contiguous_strides, element_count};

use crate::budget::Budget;
use crate::byte_order::{number_size, swapped};
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place};
use crate::packed::write_packed;
use crate::tensor::{MAX_RANK, Tensor, column_major_strides};
use header::Header;

/// Reads one array. Elements are not copied unless they are big-endian.
pub fn read(bytes: &Bytes) -> Result<Tensor, Error> {
    read_within(bytes, &Budget::of_file(bytes.len()))
}

/// Reads one array. Elements that must be copied are charged to `budget`.
pub(crate) fn read_within(bytes: &Bytes, budget: &Budget) -> Result<Tensor, Error> {
    let Header { element, fortran_order, shape, data_at } = header::read(bytes)?;
    let size = element.dtype.size();
    let strides = if fortran_order { column_major_strides } else { contiguous_strides };
    let strides = strides(&shape, size);

    let in_shape = |fault: ViewError| Error::at(Place::Part("header key shape".into()), fault);
    let Some(count) = element_count(&shape) else {
        return Err(in_shape(ViewError::Overflow { shape, strides }));
    };
    let needed = count as u128 * size as u128;
    let found = bytes.len() - data_at;
    if needed > found as u128 {
        return Err(Error::at(
            Place::Byte(data_at as u64),
            Fault::truncated(
                format!("{needed} bytes of {} elements of shape {shape:?}", element.dtype),
                format!("{found}"),
            ),
        ));
    }
    let end = data_at + needed as usize;
    if bytes[end..].starts_with(header::MAGIC) {
        let fault = Fault::malformed("one array", "a second one: save several as .npz");
        return Err(Error::at(Place::Byte(end as u64), fault));
    }
    let data = bytes.slice(data_at..end);
    let data = if element.big_endian {
        budget.charge("elements in the order of this machine", needed as usize).map_err(Error::whole)?;
        swapped(&data, number_size(element.dtype)).into()
    } else {
        data
    };
    Tensor::strided(element.dtype, shape, strides, data, 0).map_err(in_shape)
}

/// Writes one array as version 1.0. Row-major and column-major views keep their order, and a little-endian file
/// equals `numpy.save`'s byte for byte. Any other view is written in row-major order, block by block.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let rank = view.shape().len();
    if rank > MAX_RANK {
        return Err(Error::whole(Fault::Unsupported(format!(
            "a tensor of {rank} dimensions does not fit .npy, which has at most {MAX_RANK}; reshape it first"
        ))));
    }
    let transposed = view.transposed();
    let fortran_order = view.as_packed().is_none() && transposed.as_packed().is_some();
    let header = header::compose(view.dtype(), fortran_order, view.shape());
    out.write_all(&header).map_err(Error::whole)?;
    write_packed(if fortran_order { &transposed } else { view }, out).map_err(Error::whole)
}

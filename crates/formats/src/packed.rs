//! Writes the elements of any view in row-major order, without copying all of them.

use std::io::{self, Write};

use ulpscope_tensor::View;

/// Bytes gathered at a time from a view that is not contiguous; a multiple of every element size.
const BLOCK: usize = 1 << 20;

/// Writes the elements of a view in row-major order. A contiguous view is written directly.
pub fn write_packed(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    if let Some(packed) = view.as_packed() {
        return out.write_all(packed);
    }
    let size = view.dtype().size();
    let mut block = vec![0; view.packed_size().min(BLOCK)];
    let mut start = 0;
    while start < view.len() {
        let count = (view.len() - start).min(block.len() / size);
        let part = &mut block[..count * size];
        view.gather(start, part);
        out.write_all(part)?;
        start += count;
    }
    Ok(())
}

//! Text files with the suffix `.pkl`: one JSON list per line. They are not pickles.
//!
//! Two families of tools wrote them. torch_npu.hooks stores values in the line (`[name, values, dtype, shape]`,
//! either all of them or up to ten followed by max, min and mean). ptdbg_ascend stores statistics there
//! (`[name, step, [], dtype, shape, [max, min, mean]]`) and the data, if any, in `.npy` files beside it. Both
//! add lines that say where a call was made. Files are appended to while a program runs, so a truncated last line
//! is common: it is one error, and the lines before it are still read.
//!
//! ```text
//! Bytes ──► Lines ──► (line number, Line) or the Error of that line, and on to the next
//!   └─────► to_value ──► name → Tensor        (torch_npu.hooks, all values recorded)
//!   └─────► Outlines ──► names and places      (millions of lines)
//! Line  ──► CallLines, CallNumbers             (which lines are one call, and which call)
//! Line  ──► LineWriter ──► the line as json.dumps wrote it
//! ```

mod call_lines;
mod kind;
mod line;
mod lines;
mod outline;
mod tensor;
mod writer;

pub use call_lines::{CallLines, CallNumbers, Part, line_name};
pub use kind::{Kind, kind};
pub use line::{Frame, Line, Payload, Shape, Values, dtype_named};
pub use lines::{Lines, MAX_LINE_BYTES};
pub use outline::{Outline, Outlines};
pub use tensor::{tensor_of, to_value};
pub use writer::LineWriter;

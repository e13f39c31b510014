//! The frames of the running thread, innermost first: the code and the instruction of each.
//!
//! They are read for every call. Of each frame that would be three attributes by their names, so that functions of Python
//! are called instead. Two of these are not part of the stable interface: they are looked up at run time, and the
//! attributes are read where a release or a system does not have them.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use crate::capture::torch_api::Torch;

/// Visits the code and the instruction of each frame of this thread.
pub(super) fn each_frame<'py>(
    py: Python<'py>,
    torch: &Torch,
    mut visit: impl FnMut(Bound<'py, PyAny>, i64) -> PyResult<()>,
) -> PyResult<()> {
    let functions = Functions::of_process();
    let mut next = Some(torch.frame(py)?);
    while let Some(frame) = next {
        let (code, instruction, outer) = match functions {
            Some(functions) => functions.read(&frame)?,
            None => read_attributes(&frame)?,
        };
        visit(code, instruction)?;
        next = outer;
    }
    Ok(())
}

/// The code of a frame, its instruction, and the frame around it.
type Read<'py> = (Bound<'py, PyAny>, i64, Option<Bound<'py, PyAny>>);

fn read_attributes<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let py = frame.py();
    let code = frame.getattr(intern!(py, "f_code"))?;
    let instruction = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
    let outer = frame.getattr(intern!(py, "f_back"))?;
    Ok((code, instruction, Some(outer).filter(|outer| !outer.is_none())))
}

/// Python's functions for frames.
#[derive(Clone, Copy)]
struct Functions {
    /// `PyFrame_GetBack`: a new reference, or null for the outermost frame.
    back: unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject,
    /// `PyFrame_GetLasti`, of Python 3.11 and later.
    instruction: unsafe extern "C" fn(*mut ffi::PyFrameObject) -> std::ffi::c_int,
}

impl Functions {
    fn read<'py>(self, frame: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
        let py = frame.py();
        let pointer = frame.as_ptr().cast();
        // SAFETY: what `sys._getframe` and `PyFrame_GetBack` return are frames, alive while they are borrowed, and the
        // GIL is held. Both references are new; that to the outer frame may be null, without an error.
        #[expect(unsafe_code)]
        unsafe {
            let code = Bound::from_owned_ptr_or_err(py, ffi::PyFrame_GetCode(pointer).cast())?;
            let outer = Bound::from_owned_ptr_or_opt(py, (self.back)(pointer).cast());
            Ok((code, i64::from((self.instruction)(pointer)), outer))
        }
    }

    /// Those of the running Python, if it has them.
    #[cfg(unix)]
    fn of_process() -> Option<Functions> {
        use std::sync::OnceLock;
        static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            // SAFETY: the names end with zero, and whatever program or library has functions of these names, it is the
            // running Python: they have had these types since the releases that brought them.
            #[expect(unsafe_code)]
            unsafe {
                let find = |name: &std::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
                let (back, instruction) = (find(c"PyFrame_GetBack"), find(c"PyFrame_GetLasti"));
                let are_there = !back.is_null() && !instruction.is_null();
                are_there.then(|| Functions {
                    back: std::mem::transmute::<
                        *mut libc::c_void,
                        unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject,
                    >(back),
                    instruction: std::mem::transmute::<
                        *mut libc::c_void,
                        unsafe extern "C" fn(*mut ffi::PyFrameObject) -> std::ffi::c_int,
                    >(instruction),
                })
            }
        })
    }

    #[cfg(not(unix))]
    fn of_process() -> Option<Functions> {
        None
    }
}

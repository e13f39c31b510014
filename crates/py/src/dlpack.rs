//! The part of the DLPack interface that is needed: the address of a tensor, without a Python call.
//!
//! `type(tensor).__dlpack_c_exchange_api__` (torch 2.10 and later) is a capsule with a table of C functions. One
//! of them fills in a [`DLTensor`] that borrows from the tensor, in a fraction of a microsecond.

use std::ffi::{c_int, c_void};

/// The supported version of the layout of these structures.
pub(crate) const MAJOR_VERSION: u32 = 1;

/// Name of the capsule that holds an [`ExchangeApi`].
pub(crate) const EXCHANGE_CAPSULE: &std::ffi::CStr = c"dlpack_exchange_api";

/// Name of the capsule that holds a [`ManagedTensor`] without a consumer yet.
pub(crate) const TENSOR_CAPSULE: &std::ffi::CStr = c"dltensor";

/// Device type of ordinary memory.
pub(crate) const CPU: i32 = 1;

/// Device type of memory of an NVIDIA GPU.
pub(crate) const CUDA: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataType {
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
}

#[repr(C)]
pub(crate) struct DLTensor {
    pub(crate) data: *mut c_void,
    pub(crate) device: Device,
    pub(crate) ndim: i32,
    pub(crate) dtype: DataType,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

/// An exported tensor, with the function that frees it.
#[repr(C)]
pub(crate) struct ManagedTensor {
    pub(crate) tensor: DLTensor,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

#[repr(C)]
pub(crate) struct ExchangeHeader {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    /// An older table, or null.
    pub(crate) previous: *const ExchangeHeader,
}

/// Only the fourth and the fifth function are called; the others are placeholders.
#[repr(C)]
pub(crate) struct ExchangeApi {
    pub(crate) header: ExchangeHeader,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    /// Fills a borrowed tensor; non-zero, with a Python error set, if it cannot.
    pub(crate) borrow_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int>,
    /// The stream that is current on a device: its kind and its number. Non-zero, with a Python error set, if it cannot.
    pub(crate) current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

//! Everything between a tensor and its numbers, with a driver that runs the kernel on the host (`standin/driver.cpp`):
//! order, slots, the cache, graphs, and every function failing in turn.
#![allow(clippy::unwrap_used, missing_docs)]

mod standin;

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libloading::{Library, Symbol};
use tempfile::TempDir;
use ulpscope_gpu::{Cache, Driver, Error, Gpu, GpuTensor, Measurement, Stream};
use ulpscope_kernels::{Digest, DigestKind, Stats, Threads, digest, stats};
use ulpscope_tensor::{DType, View};

/// A machine with a GPU: the driver, and a torch with NVRTC.
struct Machine {
    driver: Arc<Driver>,
    controls: Library,
    folder: TempDir,
}

impl Machine {
    /// `None` without g++.
    fn new() -> Option<Machine> {
        let library = standin::library()?;
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("site/nvidia/cu13/lib");
        fs::create_dir_all(&packages).unwrap();
        fs::create_dir_all(folder.path().join("site/torch")).unwrap();
        // The same library for both, so that there is one state.
        std::os::unix::fs::symlink(&library, packages.join("libnvrtc.so.13")).unwrap();
        let driver = Arc::new(Driver::open_file(&library).unwrap());
        // SAFETY: the library was just made from our own source.
        #[expect(unsafe_code)]
        let controls = unsafe { Library::new(&library) }.unwrap();
        Some(Machine { driver, controls, folder })
    }

    fn torch(&self) -> PathBuf {
        self.folder.path().join("site/torch")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache/kernels")
    }

    fn open(&self) -> Result<Arc<Gpu>, Error> {
        Gpu::open(&self.driver, 0, &self.torch(), &Cache::at(&self.cache()))
    }

    fn control<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers give the types of driver.cpp.
        #[expect(unsafe_code)]
        let function: Symbol<'_, F> = unsafe { self.controls.get(name.as_bytes()) }.unwrap();
        *function
    }

    /// From its nth call on, a function returns an error.
    fn fail(&self, name: &str, after: i32) {
        let name = CString::new(name).unwrap();
        self.control::<extern "C" fn(*const i8, i32, i32)>("standin_fail")(name.as_ptr().cast(), after, 999);
    }

    fn count(&self, what: &str) -> i32 {
        let what = CString::new(what).unwrap();
        self.control::<extern "C" fn(*const i8) -> i32>("standin_count")(what.as_ptr().cast())
    }

    fn set(&self, what: &str, value: i32) {
        self.control::<extern "C" fn(i32)>(&format!("standin_{what}"))(value);
    }

    /// How often a function was called.
    fn calls(&self, name: &str) -> i32 {
        let name = CString::new(name).unwrap();
        self.control::<extern "C" fn(*const i8) -> i32>("standin_calls")(name.as_ptr().cast())
    }

    fn pause_stream(&self, stream: Stream, value: i32) {
        self.control::<extern "C" fn(usize, i32)>("standin_pause_stream")(stream.0, value);
    }

    /// What is allocated: everything but the numbers of calls.
    fn held(&self) -> Vec<i32> {
        ["device", "host", "contexts", "modules", "streams"].map(|what| self.count(what)).to_vec()
    }
}

const STREAM: Stream = Stream(0);

/// Measures all of these tensors.
fn measured(gpu: &Arc<Gpu>, stream: Stream, tensors: &[GpuTensor], has_digest: bool) -> Measurement {
    let (measurement, error) = gpu.measure(stream, tensors, has_digest);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(measurement.len(), tensors.len());
    measurement
}

/// Why a tensor was not measured.
fn refused(gpu: &Arc<Gpu>, stream: Stream, tensor: &GpuTensor) -> Error {
    let (measurement, error) = gpu.measure(stream, std::slice::from_ref(tensor), false);
    assert!(measurement.is_empty());
    error.unwrap()
}

fn packed(values: &[f32]) -> GpuTensor {
    GpuTensor {
        dtype: DType::F32,
        address: values.as_ptr() as u64,
        shape: vec![values.len()],
        strides: vec![4],
    }
}

fn arrived(measurement: &Measurement) -> Vec<(Stats, Option<Digest>)> {
    let begun = Instant::now();
    while !measurement.has_arrived() {
        measurement.check().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_micros(100));
    }
    measurement.numbers().map(Option::unwrap).collect()
}

#[test]
fn numbers_are_those_of_the_host_and_everything_is_given_back() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let many: Vec<Vec<f32>> = (0..40).map(|n| (0..=n * 97).map(|x| (x as f32).sin()).collect()).collect();
    let tensors: Vec<GpuTensor> = many.iter().map(|values| packed(values)).collect();
    let before = machine.count("launches");
    let measurement = measured(&gpu, STREAM, &tensors, true);
    assert_eq!(machine.count("launches") - before, 3);
    for (values, (found, found_digest)) in many.iter().zip(arrived(&measurement)) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = View::contiguous(DType::F32, vec![values.len()], &bytes).unwrap();
        let expected = stats(&view, Threads::One);
        assert_eq!((found.count, found.max, found.min), (expected.count, expected.max, expected.min));
        assert!((found.norm - expected.norm).abs() <= 1e-12 * expected.norm);
        assert_eq!(found_digest, Some(digest(&view, DigestKind::Mix64)));
    }
    drop(measurement);
    drop(gpu);
    assert_eq!(machine.held(), [0; 5]);
    // Less than what is allowed, with one stream in use beside that of the self-check.
    assert!(machine.count("device bytes") < 8 << 20, "{}", machine.count("device bytes"));
}

#[test]
fn a_launch_returns_before_its_kernel_has_run_and_slots_are_used_again() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let host = machine.count("host");
    let mut values = vec![1.0f32; 1000];
    machine.set("pause", 1);
    let waiting: Vec<Measurement> =
        (0..100).map(|_| measured(&gpu, STREAM, &[packed(&values)], false)).collect();
    assert!(waiting.iter().all(|measurement| !measurement.has_arrived()));
    assert!(waiting[0].numbers().all(|numbers| numbers.is_none()));
    // What is measured is what is there when the stream comes to it.
    values[7] = 5.0;
    machine.set("pause", 0);
    for measurement in &waiting {
        let (found, found_digest) = arrived(measurement).remove(0);
        assert_eq!(found.max.map(|max| max.to_f64()), Some(5.0));
        assert_eq!(found_digest, None);
    }
    drop(waiting);
    for _ in 0..10_000 {
        drop(arrived(&measured(&gpu, STREAM, &[packed(&values)], false)));
    }
    assert_eq!(machine.count("host"), host);
}

#[test]
fn expanded_tensors_are_read_once_and_counted_as_often_as_they_occur() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let values = [1.0f32, f32::NAN, -3.0, 0.0];
    let endless = GpuTensor { shape: vec![4, 1 << 40], strides: vec![4, 0], ..packed(&values) };
    assert!(endless.is_measurable() && endless.is_endless());
    let (found, found_digest) =
        arrived(&measured(&gpu, STREAM, std::slice::from_ref(&endless), true)).remove(0);
    assert_eq!((found.count, found.nan, found.zeros), (4 << 40, 1 << 40, 1 << 40));
    assert_eq!(found.finite_min.map(|min| min.to_f64()), Some(-3.0));
    assert_eq!(found_digest, None);
    let some = GpuTensor { shape: vec![4, 1 << 23], strides: vec![4, 0], ..packed(&values[..1]) };
    assert!(!some.is_endless());
    assert!(!GpuTensor { shape: vec![0, 3], ..some.clone() }.is_measurable());
    let deep = GpuTensor { shape: vec![2; 9], strides: (0..9).map(|dim| 8 << (2 * dim)).collect(), ..some };
    assert!(!deep.is_measurable());
}

#[test]
fn every_function_may_fail_at_every_call() {
    let Some(machine) = Machine::new() else { return };
    let names = [
        "cuDeviceGet",
        "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuMemAlloc_v2",
        "cuMemsetD8Async",
        "cuMemHostAlloc",
        "cuMemHostGetDevicePointer_v2",
        "cuStreamCreate",
        "cuStreamQuery",
        "cuThreadExchangeStreamCaptureMode",
        "cuLaunchKernel",
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuStreamDestroy_v2",
        "nvrtcCreateProgram",
        "nvrtcCompileProgram",
        "nvrtcVersion",
        "nvrtcGetNumSupportedArchs",
        "nvrtcGetSupportedArchs",
        "nvrtcGetCUBINSize",
        "nvrtcGetCUBIN",
        "nvrtcDestroyProgram",
    ];
    for name in names {
        for after in [0, 1, 2, 7, 30] {
            let _ = fs::remove_dir_all(machine.cache());
            machine.fail(name, after);
            let opened = machine.open();
            let has_failed = machine.count("failed") > 0;
            machine.fail("", 0);
            match opened {
                // Whether the device is asked depends on how soon the kernel is done.
                Ok(_) => assert!(!has_failed || name == "cuStreamQuery", "{name} {after}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        has_failed && (text.contains(name) || text.contains("does not compile")),
                        "{text}"
                    );
                }
            }
        }
    }
    // Nothing of that lasts.
    machine.open().unwrap();
    // A driver that cannot be initialised.
    machine.fail("cuInit", 0);
    let refused = Driver::open_file(standin::library().unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "cuInit of the CUDA driver failed with code 999");
}

#[test]
fn what_fails_while_the_program_runs_is_an_error_of_that_tensor_alone() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let values = [1.0f32, 2.0];
    for name in ["cuLaunchKernel", "cuMemAlloc_v2", "cuMemsetD8Async", "cuCtxPushCurrent_v2"] {
        let held = machine.held();
        machine.fail(name, 0);
        let stream = Stream(4096 + name.len());
        assert!(refused(&gpu, stream, &packed(&values)).to_string().contains(name));
        machine.fail("", 0);
        if name != "cuLaunchKernel" {
            assert_eq!(machine.held(), held, "{name}");
        }
    }
    assert_eq!(arrived(&measured(&gpu, STREAM, &[packed(&values)], false))[0].0.count, 2);
    machine.fail("cuStreamQuery", 0);
    assert!(gpu.check().is_err());
}

#[test]
fn tensors_that_were_launched_are_measured_though_later_ones_fail() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let many: Vec<Vec<f32>> = (0..40).map(|number| vec![number as f32; 3]).collect();
    let tensors: Vec<GpuTensor> = many.iter().map(|values| packed(values)).collect();
    // The third of three launches.
    machine.fail("cuLaunchKernel", 2);
    let (measurement, error) = gpu.measure(STREAM, &tensors, false);
    machine.fail("", 0);
    assert!(error.unwrap().to_string().contains("cuLaunchKernel"));
    assert_eq!(measurement.len(), 32);
    let largest: Vec<f64> =
        arrived(&measurement).iter().map(|(found, _)| found.max.unwrap().to_f64()).collect();
    assert_eq!(largest, (0..32).map(f64::from).collect::<Vec<_>>());
    drop(measurement);
    drop(gpu);
    assert_eq!(machine.held(), [0; 5]);
}

#[test]
fn abandoned_slots_are_used_again_when_their_kernel_is_done() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let host = machine.count("host");
    let values = [1.0f32, 2.0];
    for _ in 0..5 {
        machine.set("pause", 1);
        let waiting: Vec<Measurement> =
            (0..2000).map(|_| measured(&gpu, STREAM, &[packed(&values)], false)).collect();
        assert!(!waiting.iter().any(Measurement::has_arrived));
        drop(waiting);
        machine.set("pause", 0);
        // Everything before it on the stream is done.
        arrived(&measured(&gpu, STREAM, &[packed(&values)], false));
    }
    assert_eq!(machine.count("host"), host);
    // A kernel may still write to memory that nobody waits for: it is not freed.
    machine.set("pause", 1);
    drop(measured(&gpu, STREAM, &[packed(&values)], false));
    drop(gpu);
    assert_eq!(machine.count("host"), host);
    machine.set("pause", 0);
}

#[test]
fn preparing_a_gpu_frees_nothing_because_that_waits_for_its_work() {
    let Some(machine) = Machine::new() else { return };
    let freeing = || machine.calls("cuMemFree_v2") + machine.calls("cuMemFreeHost");
    let before = freeing();
    let gpu = machine.open().unwrap();
    assert_eq!(freeing(), before);
    drop(gpu);
    assert!(freeing() > before);
    assert_eq!(machine.held(), [0; 5]);
}

#[test]
fn streams_have_orders_of_their_own() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let (one, other) = (Stream(64), Stream(128));
    let mut values = vec![1.0f32; 100_000];
    machine.pause_stream(one, 1);
    let late = measured(&gpu, one, &[packed(&values)], true);
    // Several blocks each, with scratch memory that no other stream uses.
    let sums: Vec<(Stats, Option<Digest>)> =
        (0..20).map(|_| arrived(&measured(&gpu, other, &[packed(&values)], true)).remove(0)).collect();
    assert!(
        sums.iter().all(|(found, found_digest)| { found.mean == Some(1.0) && *found_digest == sums[0].1 })
    );
    assert!(!late.has_arrived());
    values[5] = 7.0;
    machine.pause_stream(one, 0);
    let (found, found_digest) = arrived(&late).remove(0);
    assert_eq!(found.max.map(|max| max.to_f64()), Some(7.0));
    assert_ne!(found_digest, sums[0].1);
}

#[test]
fn a_gpu_that_is_newer_than_the_compiler_gets_text_for_its_driver() {
    let Some(machine) = Machine::new() else { return };
    machine.set("architecture", 80);
    let gpu = machine.open().unwrap();
    let files: Vec<String> = fs::read_dir(machine.cache())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(files.len() == 1 && files[0].ends_with("-compute_80-nvrtc13.0.ptx"), "{files:?}");
    assert!(machine.calls("nvrtcGetPTX") == 1 && machine.calls("nvrtcGetCUBIN") == 0);
    let values = [3.0f32];
    assert_eq!(arrived(&measured(&gpu, STREAM, &[packed(&values)], false))[0].0.count, 1);
    // One that is older than all that the compiler knows: the compiler says so.
    machine.set("architecture", 100);
    machine.fail("nvrtcCompileProgram", 0);
    let refused = machine.open().unwrap_err().to_string();
    assert!(refused.starts_with("the kernel does not compile for sm_90"), "{refused}");
}

#[test]
fn a_kernel_whose_numbers_are_wrong_is_not_used() {
    let Some(machine) = Machine::new() else { return };
    machine.set("spoil", 1);
    let refused = machine.open().unwrap_err();
    assert!(matches!(refused, Error::SelfCheck { .. }), "{refused}");
    assert_eq!(machine.held(), [0; 5]);
}

#[test]
fn a_graph_that_is_being_captured_is_left_alone() {
    let Some(machine) = Machine::new() else { return };
    machine.set("capture", 1);
    // Preparing and asking are allowed: the calls say that they have nothing to do with the graph.
    let gpu = machine.open().unwrap();
    assert!(gpu.is_capturing(STREAM));
    gpu.check().unwrap();
    assert_eq!(machine.count("unsafe"), 0);
    machine.set("capture", 0);
    assert!(!gpu.is_capturing(STREAM));
    machine.fail("cuStreamIsCapturing", 0);
    assert!(gpu.is_capturing(STREAM));
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let Some(machine) = Machine::new() else { return };
    let gpu = machine.open().unwrap();
    let values = [1.0f32];
    // One is that of the self-check. Torch has 32 streams of a priority, and the default stream.
    for number in 0..95 {
        arrived(&measured(&gpu, Stream(8 * number), &[packed(&values)], false));
    }
    let refused = refused(&gpu, Stream(8 * 95), &packed(&values));
    assert_eq!(refused.to_string(), "the program uses more than 96 streams");
    assert!(machine.count("device bytes") <= 256 << 20, "{}", machine.count("device bytes"));
}

#[test]
fn a_kernel_is_compiled_once_and_a_damaged_file_again() {
    let Some(machine) = Machine::new() else { return };
    machine.open().unwrap();
    machine.open().unwrap();
    assert_eq!(machine.count("compiled"), 1);
    let files = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let (cache, file) = (machine.cache(), files(&machine.cache()).remove(0));
    assert_eq!(files(&cache).len(), 1);
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("statistics-") && name.ends_with("-sm_90-nvrtc13.0.cubin"), "{name}");
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let damaged: [&[u8]; 5] = [b"", &whole[..10], &whole[..whole.len() - 1], &flipped, &whole[..48]];
    for (number, content) in damaged.iter().enumerate() {
        fs::write(&file, content).unwrap();
        machine.open().unwrap();
        assert_eq!(machine.count("compiled"), 2 + number as i32);
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
    // Files that others can write to are not read.
    let compiled = machine.count("compiled");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    machine.open().unwrap();
    assert_eq!(machine.count("compiled"), compiled + 1);
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    machine.open().unwrap();
    assert_eq!(machine.count("compiled"), compiled + 1);
    // A cache that cannot be made costs time only.
    let blocked = machine.folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    Gpu::open(&machine.driver, 0, &machine.torch(), &Cache::at(&blocked.join("kernels"))).unwrap();
    assert_eq!(machine.count("compiled"), compiled + 2);
}

#[test]
fn what_is_missing_is_named() {
    let Some(machine) = Machine::new() else { return };
    let refused = Gpu::open(&machine.driver, 7, &machine.torch(), &Cache::at(&machine.cache())).unwrap_err();
    assert_eq!(refused.to_string(), "cuDeviceGet of the CUDA driver failed with code 101");
    machine.fail("nvrtcCompileProgram", 0);
    let refused = machine.open().unwrap_err();
    assert_eq!(refused.to_string(), "the kernel does not compile for sm_90 (code 999): as asked");
    let refused = Driver::open_file("libno-such-driver.so").unwrap_err();
    assert!(refused.to_string().starts_with("the CUDA driver cannot be used: "), "{refused}");
    // A library that is not the driver.
    let refused = Driver::open_file("libc.so.6").unwrap_err();
    assert!(refused.to_string().contains("cuInit"), "{refused}");
}

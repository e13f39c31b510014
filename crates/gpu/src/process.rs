//! The GPUs of this process. The driver is opened once, and each GPU prepared once, whoever records: preparing compiles,
//! allocates and checks, and freeing would wait for all work of the device.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::driver::{Device, Driver, Stream};
use crate::error::Error;
use crate::gpu::Gpu;

/// What a process has opened. A forked child begins anew: it cannot use what its parent opened.
struct Opened<T> {
    process: u32,
    what: T,
}

/// The driver, and the contexts of devices, which are never given back.
type OpenedDriver = Opened<(Arc<Driver>, HashMap<i32, Device>)>;
static DRIVER: Mutex<Option<OpenedDriver>> = Mutex::new(None);

/// Those that have passed their self-check. Held while one is prepared.
type OpenedGpus = Opened<HashMap<i32, Arc<Gpu>>>;
static READY: Mutex<Option<OpenedGpus>> = Mutex::new(None);

/// The GPU that torch gives this number, prepared if it is the first time. A GPU that cannot be used is tried again the
/// next time: there may be memory by then.
pub fn prepared(number: i32, torch: &Path, cache: &Cache) -> Result<Arc<Gpu>, Error> {
    let mut ready = lock(&READY);
    let ready = own(&mut ready, || Ok(HashMap::new()))?;
    if let Some(gpu) = ready.get(&number) {
        return Ok(Arc::clone(gpu));
    }
    let (driver, _) = driver_with(number)?;
    let gpu = Gpu::open(&driver, number, torch, cache)?;
    ready.insert(number, Arc::clone(&gpu));
    Ok(gpu)
}

/// Whether work on a stream of a GPU goes into a graph instead of being run. If no one can tell, it does not.
pub fn is_capturing(number: i32, stream: Stream) -> bool {
    let asked = driver_with(number)
        .and_then(|(driver, device)| driver.within(device, || driver.is_capturing(stream)));
    asked.unwrap_or(false)
}

/// Runs something that asks torch about work on a GPU, in the driver's relaxed mode: questions that have nothing to do
/// with a graph would otherwise end its capture by another thread.
pub fn beside_graphs<T>(number: i32, ask: impl FnOnce() -> T) -> T {
    let Ok((driver, device)) = driver_with(number) else { return ask() };
    let mode = driver.within(device, || driver.relax()).ok();
    let answer = ask();
    if let Some(mode) = mode {
        // Nothing depends on it: the thread would go on in the relaxed mode, in which more is allowed.
        let _ = driver.within(device, || driver.restore(mode));
    }
    answer
}

fn driver_with(number: i32) -> Result<(Arc<Driver>, Device), Error> {
    let mut opened = lock(&DRIVER);
    let (driver, devices) = own(&mut opened, || Ok((Arc::new(Driver::open()?), HashMap::new())))?;
    let device = match devices.get(&number) {
        Some(device) => *device,
        None => *devices.entry(number).or_insert(driver.device(number)?),
    };
    Ok((Arc::clone(driver), device))
}

/// What this process has opened, or opens now.
fn own<T>(opened: &mut Option<Opened<T>>, open: impl FnOnce() -> Result<T, Error>) -> Result<&mut T, Error> {
    let process = std::process::id();
    if let Some(of_parent) = opened.take_if(|opened| opened.process != process) {
        // The driver of the parent must not be called, not even to close it.
        std::mem::forget(of_parent);
    }
    let what = match opened.take() {
        Some(opened) => opened.what,
        None => open()?,
    };
    Ok(&mut opened.insert(Opened { process, what }).what)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

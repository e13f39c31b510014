//! `train`: asks for one step of a training from its checkpoint, on the CPU, on the NPU, or on both.

use crate::options::Options;
use crate::reply::{Reply, TrainingDevice, TrainingRequest};
use crate::session::Session;

/// What a session of `precision_tool.tf_session` leaves.
const CHECKPOINT: &str = "tf/checkpoints/checkpoint";

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    let devices: &[TrainingDevice] = match options.text("-d").unwrap_or("all") {
        "all" => &[TrainingDevice::Cpu, TrainingDevice::Npu],
        "cpu" => &[TrainingDevice::Cpu],
        "npu" => &[TrainingDevice::Npu],
        other => {
            return Reply::failed(format!("train: argument -d: expected all, cpu or npu, found {other:?}"));
        }
    };
    let detects_overflow = match options.text("-a").unwrap_or("dump") {
        "dump" => false,
        "overflow" => true,
        other => {
            return Reply::failed(format!("train: argument -a: expected dump or overflow, found {other:?}"));
        }
    };
    let checkpoint = session.folders.root().join(CHECKPOINT);
    if !checkpoint.is_file() {
        return Reply::failed(format!(
            "train: no checkpoint: looked for {}; a script writes one with PrecisionTfSession of \
             precision_tool.tf_session instead of tf.Session",
            checkpoint.display()
        ));
    }
    // Overflows are detected by a device alone.
    let wanted = |device: &&TrainingDevice| !(detects_overflow && **device == TrainingDevice::Cpu);
    let trainings = devices.iter().filter(wanted).map(|&device| TrainingRequest { device, detects_overflow });
    let mut reply = Reply { trainings: trainings.collect(), ..Reply::default() };
    if reply.trainings.is_empty() {
        reply.error("train: overflows are detected on an NPU: -d npu");
    }
    reply
}

//! Dumps for the benchmark of the verdict: a deep residual network with modules, gradients and one mask that is an
//! input of every layer, and an optimizer that updates all parameters in one call.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Calls of a layer: forward, backward, and gradients of parameters.
pub const CALLS_PER_LAYER: usize = 23;

/// Elements of a tensor.
const ELEMENTS: usize = 1 << 14;

/// Relative errors: of rounding in every tensor, and of a fault in everything after it.
const ROUNDING: f64 = 1e-7;
const FAULT: f64 = 1e-2;

/// A run to be recorded.
#[derive(Clone, Copy)]
pub struct Run {
    /// Layers of a network, or tensors that an optimizer updates at once.
    pub size: usize,
    pub has_elements: bool,
    pub names_makers: bool,
    pub is_golden: bool,
    /// The layer whose first product is wrong.
    pub fault: Option<usize>,
    /// Whether the golden computes `gelu` by other calls, so that the two are different programs.
    pub is_port: bool,
}

/// The documents of a dump while they are written.
struct Recorder {
    run: Run,
    folder: PathBuf,
    dump: BufWriter<File>,
    construct: String,
    calls: usize,
}

/// A tensor: its name, whether it is downstream of the fault, and its producer.
#[derive(Clone)]
struct Tensor {
    name: String,
    is_faulty: bool,
    maker: String,
}

impl Tensor {
    fn parameter(name: String) -> Tensor {
        Tensor { maker: format!("parameter:{name}"), name, is_faulty: false }
    }
}

/// A number from 0 to 1 that depends on the name.
fn drawn(name: &str, of: &str) -> f64 {
    let hash = name
        .bytes()
        .chain(of.bytes())
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64
}

impl Recorder {
    fn new(run: Run, folder: &Path) -> Recorder {
        fs::create_dir_all(folder.join("dump_tensor_data")).expect("the folder can be made");
        let dump = File::create(folder.join("dump.json")).expect("a file can be made");
        let mut dump = BufWriter::new(dump);
        let task = if run.has_elements { "tensor" } else { "statistics" };
        write!(dump, r#"{{"task":"{task}","level":"mix","framework":"pytorch","data":{{"#).expect("written");
        Recorder { run, folder: folder.to_owned(), dump, construct: "{".to_owned(), calls: 0 }
    }

    /// The description of a tensor, with its source if it is an argument.
    fn entry(&self, tensor: &Tensor, is_argument: bool) -> String {
        let name = &tensor.name;
        let scale = 0.5 + drawn(name, "scale");
        let is_exact = self.run.is_golden || tensor.maker.starts_with("parameter");
        let error = match (is_exact, tensor.is_faulty && self.run.fault.is_some()) {
            (true, _) => 0.0,
            (false, false) => ROUNDING,
            (false, true) => FAULT,
        };
        let off = 1.0 + error * (0.5 + drawn(name, "error"));
        let numbers = [3.25, -3.5, 0.0125, (ELEMENTS as f64).sqrt()].map(|number| number * scale * off);
        let [max, min, mean, norm] = numbers;
        let mut text = format!(
            r#"{{"type":"torch.Tensor","dtype":"torch.float32","shape":[128,{}],"Max":{max},"Min":{min},"Mean":{mean},"Norm":{norm},"requires_grad":true"#,
            ELEMENTS / 128
        );
        if self.run.has_elements {
            self.write_elements(name, scale, error);
            let _ = write!(text, r#","data_name":"{name}.npy""#);
        }
        if is_argument && self.run.names_makers {
            let _ = write!(text, r#","source":"{}""#, tensor.maker);
        }
        text + "}"
    }

    fn write_elements(&self, name: &str, scale: f64, error: f64) {
        let path = self.folder.join("dump_tensor_data").join(format!("{name}.npy"));
        if path.exists() {
            return;
        }
        let header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (128, {}), }}", ELEMENTS / 128);
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{header:<117}\n").as_bytes());
        let mut state = (drawn(name, "elements") * 1e18) as u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        for _ in 0..ELEMENTS {
            let (value, share) = (random(), random());
            bytes.extend(((value * scale * (1.0 + error * share)) as f32).to_le_bytes());
        }
        fs::write(path, bytes).expect("a tensor can be written");
    }

    /// Writes the next call. Each part is a list, or an object of lists.
    fn call(&mut self, name: &str, parent: Option<&str>, parts: &[(&str, String)]) {
        let comma = if self.calls == 0 { "" } else { ",\n" };
        let parts: Vec<String> = parts.iter().map(|(word, part)| format!(r#""{word}":{part}"#)).collect();
        write!(self.dump, r#"{comma}"{name}":{{{}}}"#, parts.join(",")).expect("written");
        let parent = parent.map_or("null".to_owned(), |parent| format!(r#""{parent}""#));
        let _ = write!(self.construct, r#"{comma}"{name}":{parent}"#);
        self.calls += 1;
    }

    /// Writes a forward call and returns its result.
    fn forward(
        &mut self,
        name: &str,
        parent: Option<&str>,
        arguments: &[&Tensor],
        is_faulty: bool,
    ) -> Tensor {
        self.forward_to(&format!("{name}.output.0"), name, parent, arguments, is_faulty)
    }

    /// The same with the value of a tensor of a name.
    fn forward_to(
        &mut self,
        value: &str,
        name: &str,
        parent: Option<&str>,
        arguments: &[&Tensor],
        is_faulty: bool,
    ) -> Tensor {
        let is_faulty = is_faulty || arguments.iter().any(|argument| argument.is_faulty);
        let given = Tensor { name: value.to_owned(), is_faulty, maker: format!("{name}.output.0") };
        let taken = self.list(arguments, true);
        let output = self.list(&[&given], false);
        let plain = r#"{"value":{"type":"float","value":1.5},"inplace":{"type":"bool","value":false}}"#;
        let parts = [("input_args", taken), ("input_kwargs", plain.to_owned()), ("output", output)];
        self.call(name, parent, &parts);
        given
    }

    /// A module: its input, its parameters, and the output of the call inside.
    fn module(
        &mut self,
        name: &str,
        parent: Option<&str>,
        taken: &Tensor,
        parameters: &[&Tensor],
        given: &Tensor,
    ) {
        let words = ["weight", "bias"];
        let parameters = parameters.iter().zip(words);
        let parameters: Vec<String> = parameters
            .map(|(parameter, word)| format!(r#""{word}":{}"#, self.entry(parameter, true)))
            .collect();
        let parts = [
            ("input_args", self.list(&[taken], true)),
            ("input_kwargs", "{}".to_owned()),
            ("parameters", format!("{{{}}}", parameters.join(","))),
            ("output", self.list(&[given], false)),
        ];
        self.call(name, parent, &parts);
    }

    /// A backward call: one gradient in, one or more out.
    fn backward(&mut self, name: &str, parent: Option<&str>, taken: &Tensor, given: &[&Tensor]) {
        let parts = [("input", self.list(&[taken], false)), ("output", self.list(given, false))];
        self.call(name, parent, &parts);
    }

    fn list(&self, tensors: &[&Tensor], are_arguments: bool) -> String {
        let entries: Vec<String> = tensors.iter().map(|tensor| self.entry(tensor, are_arguments)).collect();
        format!("[{}]", entries.join(","))
    }

    fn finish(mut self) -> usize {
        self.dump.write_all(b"}}").and_then(|()| self.dump.flush()).expect("written");
        self.construct.push('}');
        fs::write(self.folder.join("construct.json"), &self.construct).expect("written");
        fs::write(self.folder.join("stack.json"), "{}").expect("written");
        self.calls
    }
}

/// Calls of an optimizer.
const STEPS: usize = 20;

/// Records `x + down(gelu(masked_fill(up(norm(x)))))`, layer on layer, and its gradients.
pub fn record_network(run: Run, folder: &Path) -> usize {
    let mut recorder = Recorder::new(run, folder);
    let input = Tensor { name: "input".to_owned(), is_faulty: false, maker: "parameter:input".to_owned() };
    let mask = recorder.forward("Tensor.triu.0.forward", None, &[&input], false);
    let mut trunk = input;
    let layers = 0..run.size;
    for layer in layers.clone() {
        let block = format!("Module.layers.{layer}.Block.forward.0");
        let before = trunk.clone();
        let mut inner = trunk.clone();
        for (module, api, is_faulty) in [
            ("norm.LayerNorm", format!("Functional.layer_norm.{layer}"), false),
            ("up.Linear", format!("Functional.linear.{}", 2 * layer), run.fault == Some(layer)),
            ("", format!("Tensor.masked_fill.{layer}"), false),
            ("", format!("Functional.gelu.{layer}"), false),
            ("down.Linear", format!("Functional.linear.{}", 2 * layer + 1), false),
        ] {
            let name = format!("{api}.forward");
            if api.contains("gelu") && run.is_port && run.is_golden {
                let scaled = format!("Tensor.__mul__.{layer}.forward");
                let error =
                    recorder.forward(&format!("Torch.erf.{layer}.forward"), Some(&block), &[&inner], false);
                let value = format!("{name}.output.0");
                inner = recorder.forward_to(&value, &scaled, Some(&block), &[&inner, &error], false);
                continue;
            }
            if module.is_empty() {
                let masked = [&inner, &mask];
                let taken = if api.contains("masked") { &masked[..] } else { &masked[..1] };
                inner = recorder.forward(&name, Some(&block), taken, false);
                continue;
            }
            let [weight, bias] =
                ["weight", "bias"].map(|word| Tensor::parameter(format!("layers.{layer}.{module}.{word}")));
            let module = format!("Module.layers.{layer}.{module}.forward.0");
            let given = recorder.forward(&name, Some(&module), &[&inner, &weight, &bias], is_faulty);
            recorder.module(&module, Some(&block), &inner, &[&weight, &bias], &given);
            inner = given;
        }
        trunk = recorder.forward(
            &format!("Tensor.__add__.{layer}.forward"),
            Some(&block),
            &[&before, &inner],
            false,
        );
        recorder.module(&block, None, &before, &[], &trunk);
    }
    // All gradients are computed from the last result.
    let gradient = |name: String| Tensor { is_faulty: run.fault.is_some(), maker: String::new(), name };
    let mut arriving = gradient("loss.gradient".to_owned());
    for layer in layers.rev() {
        let block = format!("Module.layers.{layer}.Block.backward.0");
        let (outer, mut inner) = (arriving.clone(), arriving.clone());
        let add = format!("Tensor.__add__.{layer}.backward");
        recorder.backward(&add, Some(&block), &arriving, &[&arriving, &arriving]);
        for (module, api) in [
            ("down.Linear", format!("Functional.linear.{}", 2 * layer + 1)),
            ("", format!("Functional.gelu.{layer}")),
            ("", format!("Tensor.masked_fill.{layer}")),
            ("up.Linear", format!("Functional.linear.{}", 2 * layer)),
            ("norm.LayerNorm", format!("Functional.layer_norm.{layer}")),
        ] {
            let name = format!("{api}.backward");
            let given = gradient(format!("{name}.output.0"));
            if api.contains("gelu") && run.is_port && run.is_golden {
                let [scaled, error] =
                    [format!("Tensor.__mul__.{layer}.backward"), format!("Torch.erf.{layer}.backward")];
                let halves = [0, 1].map(|number| gradient(format!("{scaled}.output.{number}")));
                recorder.backward(&scaled, Some(&block), &inner, &[&halves[0], &halves[1]]);
                recorder.backward(&error, Some(&block), &halves[1], &[&given]);
                inner = given;
                continue;
            }
            if module.is_empty() {
                recorder.backward(&name, Some(&block), &inner, &[&given]);
                inner = given;
                continue;
            }
            let [weight, bias] = [1, 2].map(|number| gradient(format!("{name}.output.{number}")));
            let whole = format!("Module.layers.{layer}.{module}.backward.0");
            recorder.backward(&name, Some(&whole), &inner, &[&given, &weight, &bias]);
            recorder.backward(&whole, Some(&block), &inner, &[&given]);
            let parts =
                [("weight", recorder.list(&[&weight], false)), ("bias", recorder.list(&[&bias], false))];
            recorder.call(&format!("Module.layers.{layer}.{module}.parameters_grad.0"), None, &parts);
            inner = given;
        }
        arriving = gradient(format!("layers.{layer}.gradient"));
        recorder.backward(&block, None, &outer, &[&arriving]);
    }
    recorder.finish()
}

/// Records an optimizer that updates all parameters in one call, again and again.
pub fn record_optimizer(run: Run, folder: &Path) -> usize {
    let mut recorder = Recorder::new(run, folder);
    let named = |step: usize, word: &str, number: usize| Tensor {
        name: format!("{word}.{step}.{number}"),
        is_faulty: false,
        maker: format!("Torch._foreach_add_.{}.forward.output.0.{number}", step.wrapping_sub(1)),
    };
    let mut before: Vec<Tensor> =
        (0..run.size).map(|number| Tensor::parameter(format!("weight.{number}"))).collect();
    for step in 0..STEPS {
        let gradients: Vec<Tensor> =
            (0..run.size).map(|number| Tensor::parameter(format!("gradient.{step}.{number}"))).collect();
        let after: Vec<Tensor> = (0..run.size).map(|number| named(step + 1, "weight", number)).collect();
        let [weights, added, given] = [(&before, true), (&gradients, true), (&after, false)]
            .map(|(all, are_arguments)| recorder.list(&all.iter().collect::<Vec<_>>(), are_arguments));
        let parts = [
            ("input_args", format!("[{weights},{added}]")),
            ("input_kwargs", "{}".to_owned()),
            ("output", format!("[{given}]")),
        ];
        recorder.call(&format!("Torch._foreach_add_.{step}.forward"), None, &parts);
        before = after;
    }
    recorder.finish()
}

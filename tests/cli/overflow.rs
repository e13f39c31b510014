//! `ulpscope overflow`.

use serde_json::{Value, json};

use crate::workspace::Workspace;

/// A tensor whose extremes are these.
fn tensor(max: &str, min: &str) -> String {
    format!(
        r#"{{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": {max}, "Min": {min}, "Mean": 0.5, "Norm": 1.0}}"#
    )
}

fn finite() -> String {
    tensor("1.0", "0.0")
}

fn nan() -> String {
    tensor("NaN", "NaN")
}

fn infinite() -> String {
    tensor("Infinity", "0.0")
}

fn call(inputs: &[&str], keywords: &str, outputs: &[&str]) -> String {
    format!(
        r#"{{"input_args": [{}], "input_kwargs": {{{keywords}}}, "output": [{}]}}"#,
        inputs.join(", "),
        outputs.join(", ")
    )
}

fn put(place: &Workspace, rank: &str, calls: &[(&str, String)]) {
    let calls: Vec<String> = calls.iter().map(|(name, body)| format!(r#""{name}": {body}"#)).collect();
    let dump = format!(
        r#"{{"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null, "data": {{{}}}}}"#,
        calls.join(", ")
    );
    place.put_text(&format!("d/{rank}/dump.json"), &dump);
}

/// The origins that `--json` names: the key of the rank, the call and the kind.
fn origins(document: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ranks = document.as_object().expect("an object");
    ranks
        .iter()
        .flat_map(|(rank, calls)| {
            let calls = calls.as_array().expect("a list");
            calls.iter().map(|call| (rank.clone(), text(&call["op_name"]), text(&call["kind"])))
        })
        .collect()
}

fn named(rank: &str, call: &str, kind: &str) -> (String, String, String) {
    (rank.to_owned(), call.to_owned(), kind.to_owned())
}

#[test]
fn the_call_that_made_it_is_named_and_not_those_after_it() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.relu.0.forward", call(&[&finite], "", &[&finite])),
            ("Torch.div.0.forward", call(&[&finite, &finite], "", &[&nan])),
            ("Torch.relu.1.forward", call(&[&nan], "", &[&nan])),
        ],
    );
    place.put_text("d/step0/rank0/construct.json", r#"{"Torch.div.0.forward": "Module.a.A.forward.0"}"#);
    place.put_text(
        "d/step0/rank0/stack.json",
        r#"{"0": [["Torch.div.0.forward"], ["File model.py, line 3, in forward, \n x / y"]]}"#,
    );
    let ran = place.run(&["overflow", "d", "-o", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "step 0, rank0: Torch.div.0.forward returns NaN from finite inputs",
            "  in Module.a.A.forward.0",
            "  at File model.py, line 3, in forward,   x / y",
        ]
    );
    let path = lines[3].strip_prefix("written: ").expect("a path");
    assert!(path.starts_with("out/anomaly_analyze_") && path.ends_with(".json"), "{path}");
    let document = place.run(&["overflow", "d", "--json"]).json();
    let node = &document["rank_0"][0];
    assert_eq!(node["op_name"], "Torch.div.0.forward");
    assert_eq!(node["construct_info"], json!(["Module.a.A.forward.0", "Torch.div.0.forward"]));
    assert_eq!(node["stack_info"], json!(["File model.py, line 3, in forward, \n x / y"]));
    assert_eq!(node["data_info"]["Torch.div.0.forward.output.0"]["not_finite"], "NaN");
}

#[test]
fn nothing_is_found_where_all_is_finite_or_on_purpose() {
    let place = Workspace::new();
    let (finite, infinite) = (finite(), infinite());
    let minus = r#"{"type": "float", "value": -Infinity}"#;
    put(
        &place,
        "step0/rank0",
        &[
            ("Tensor.masked_fill.0.forward", call(&[&finite, minus], "", &[&infinite])),
            ("Torch.empty.0.forward", call(&[], "", &[&nan()])),
            ("Functional.softmax.0.forward", call(&[&infinite], "", &[&finite])),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "no call produced NaN or infinity\n", ""));
}

#[test]
fn lists_and_keywords_are_looked_into() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let list = format!("[{finite}, {nan}]");
    let keyword = format!(r#""weight": {nan}"#);
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.log.0.forward", call(&[&finite], "", &[&nan])),
            ("Torch.cat.0.forward", call(&[&list], "", &[&nan])),
            ("Functional.rms_norm.0.forward", call(&[&finite], &keyword, &[&nan])),
        ],
    );
    let document = place.run(&["overflow", "d", "--json"]).json();
    assert_eq!(origins(&document), [named("rank_0", "Torch.log.0.forward", "made here")]);
}

#[test]
fn nan_of_infinities_is_a_second_origin() {
    let place = Workspace::new();
    let (finite, infinite, nan) = (finite(), infinite(), nan());
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.exp.0.forward", call(&[&finite], "", &[&infinite])),
            ("Torch.sub.0.forward", call(&[&infinite, &infinite], "", &[&nan])),
        ],
    );
    let document = place.run(&["overflow", "d", "--json"]).json();
    assert_eq!(
        origins(&document),
        [
            named("rank_0", "Torch.exp.0.forward", "made here"),
            named("rank_0", "Torch.sub.0.forward", "NaN of infinities"),
        ]
    );
}

#[test]
fn a_backward_call_works_on_what_its_forward_call_did() {
    let place = Workspace::new();
    let (finite, infinite, nan) = (finite(), infinite(), nan());
    let backward = |given: &str, made: &str| format!(r#"{{"input": [{given}], "output": [{made}]}}"#);
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.sqrt.0.forward", call(&[&finite], "", &[&finite])),
            ("Torch.relu.0.forward", call(&[&nan], "", &[&nan])),
            ("Torch.relu.0.backward", backward(&finite, &nan)),
            ("Torch.sqrt.0.backward", backward(&finite, &infinite)),
        ],
    );
    let document = place.run(&["overflow", "d", "--json"]).json();
    assert_eq!(
        origins(&document),
        [
            named("rank_0", "Torch.relu.0.forward", "made by no recorded call"),
            named("rank_0", "Torch.sqrt.0.backward", "made here"),
        ]
    );
}

#[test]
fn parameters_and_inputs_are_origins_by_name() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let from = |source: &str| nan.replace("}", &format!(r#", "source": "{source}"}}"#));
    put(
        &place,
        "step0/rank0",
        &[
            ("Functional.linear.0.forward", call(&[&finite, &from("parameter:fc.weight")], "", &[&nan])),
            ("Functional.linear.1.forward", call(&[&finite, &from("parameter:fc.weight")], "", &[&nan])),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        ran.out,
        "step 0, rank0: Functional.linear.0.forward gets NaN from outside: parameter:fc.weight\n"
    );
}

#[test]
fn what_a_collective_brings_is_traced_to_the_rank_that_sent_it() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let reduce = |given: &str| call(&[given], "", &[&nan]);
    put(&place, "step0/rank0", &[("Distributed.all_reduce.0.forward", reduce(&finite))]);
    put(
        &place,
        "step0/rank1",
        &[
            ("Torch.div.0.forward", call(&[&finite], "", &[&nan])),
            ("Distributed.all_reduce.0.forward", reduce(&nan)),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        ran.out,
        "\
step 0, rank1: Torch.div.0.forward returns NaN from finite inputs
  received by rank0: Distributed.all_reduce.0.forward
"
    );
    // If no rank sent it, the collective made it: a sum may overflow.
    put(&place, "step0/rank1", &[("Distributed.all_reduce.0.forward", reduce(&finite))]);
    let document = place.run(&["overflow", "d", "--json"]).json();
    assert_eq!(
        origins(&document),
        [
            named("rank_0", "Distributed.all_reduce.0.forward", "made here"),
            named("rank_1", "Distributed.all_reduce.0.forward", "made here"),
        ]
    );
}

#[test]
fn a_message_is_traced_to_its_sender() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let number = |value: u32| format!(r#"{{"type": "int", "value": {value}}}"#);
    let to = |rank: u32, what: &str| call(&[what, &number(rank)], "", &["null"]);
    put(
        &place,
        "step0/rank0",
        &[
            ("Distributed.send.0.forward", to(1, &finite)),
            ("Torch.log.0.forward", call(&[&finite], "", &[&nan])),
            ("Distributed.send.1.forward", to(1, &nan)),
        ],
    );
    let receive = |made: &str| call(&["null"], &format!(r#""src": {}"#, number(0)), &[made]);
    put(
        &place,
        "step0/rank1",
        &[
            ("Distributed.recv.0.forward", receive(&finite)),
            ("Distributed.recv.1.forward", receive(&nan)),
            ("Torch.relu.0.forward", call(&[&nan], "", &[&nan])),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        ran.out,
        "\
step 0, rank0: Torch.log.0.forward returns NaN from finite inputs
  received by rank1: Distributed.recv.1.forward
"
    );
}

/// A tensor with NaN that a call made.
fn nan_from(source: &str) -> String {
    nan().replace('}', &format!(r#", "source": "{source}"}}"#))
}

#[test]
fn a_message_belongs_to_the_origin_that_it_came_from() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let to = |rank: u64, sent: &str| {
        call(&[sent], &format!(r#""dst": {{"type": "int", "value": {rank}}}"#), &[sent])
    };
    let from = |rank: u64| call(&["null"], &format!(r#""src": {{"type": "int", "value": {rank}}}"#), &[&nan]);
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.sqrt.0.forward", call(&[&finite], "", &[&nan])),
            ("Torch.log.0.forward", call(&[&finite], "", &[&nan])),
            ("Torch.acos.0.forward", call(&[&finite], "", &[&nan])),
            ("Torch.neg.0.forward", call(&[&nan_from("Torch.log.0.forward.output.0")], "", &[&nan])),
            ("Distributed.send.0.forward", to(1, &nan_from("Torch.neg.0.forward.output.0"))),
            ("Torch.asin.0.forward", call(&[&finite], "", &[&nan])),
        ],
    );
    // The second rank passes it on to the third.
    put(
        &place,
        "step0/rank1",
        &[
            ("Distributed.recv.0.forward", from(0)),
            ("Distributed.send.0.forward", to(2, &nan_from("Distributed.recv.0.forward.output.0"))),
        ],
    );
    put(&place, "step0/rank2", &[("Distributed.recv.0.forward", from(1))]);
    let document = place.run(&["overflow", "d", "--json"]).json();
    let received: Vec<(&str, &Value)> = document["rank_0"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|origin| (origin["op_name"].as_str().unwrap_or_default(), &origin["received_by"]))
        .collect();
    let both = json!(["rank1: Distributed.recv.0.forward", "rank2: Distributed.recv.0.forward"]);
    let none = json!([]);
    assert_eq!(
        received,
        [
            ("Torch.sqrt.0.forward", &none),
            ("Torch.log.0.forward", &both),
            ("Torch.acos.0.forward", &none),
            ("Torch.asin.0.forward", &none),
        ]
    );
}

#[test]
fn several_steps_have_their_own_keys_and_a_bad_file_is_reported() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    for step in ["step0", "step3"] {
        put(&place, &format!("{step}/rank0"), &[("Torch.log.0.forward", call(&[&finite], "", &[&nan]))]);
    }
    let document = place.run(&["overflow", "d", "--json"]).json();
    assert_eq!(
        document.as_object().expect("an object").keys().collect::<Vec<_>>(),
        ["step_0_rank_0", "step_3_rank_0"]
    );
    place.put_text("d/step0/rank0/dump.json", "{\"data\": {\"Torch.log.0.forward\": [");
    let ran = place.run(&["overflow", "d", "--step", "0"]);
    assert_eq!(ran.code, 2, "{} {}", ran.out, ran.err);
}

#[test]
fn a_dump_that_was_read_in_part_is_not_called_finite() {
    let place = Workspace::new();
    let finite = finite();
    put(&place, "step0/rank0", &[("Torch.relu.0.forward", call(&[&finite], "", &[&finite]))]);
    let whole = place.run(&["overflow", "d"]);
    assert_eq!((whole.code, whole.out.as_str()), (0, "no call produced NaN or infinity\n"));
    let call = call(&[&finite], "", &[&finite]);
    let torn = format!(
        r#"{{"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null, "data": {{"Torch.relu.0.forward": {call}, "Torch.relu.1.forw"#
    );
    place.put_text("d/step0/rank0/dump.json", &torn);
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (2, "no call that was recorded and read produced NaN or infinity\n")
    );
    assert!(ran.err.contains("dump.json"), "{}", ran.err);
}

#[test]
fn what_fed_a_message_comes_before_what_received_it() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let reduce = call(&[&finite], "", &[&finite]);
    let made = call(&[&finite], "", &[&nan]);
    let calm = call(&[&finite], "", &[&finite]);
    // Rank 0 makes few calls before the collective, rank 1 many: the numbers of the calls say nothing.
    put(
        &place,
        "step0/rank0",
        &[("Distributed.all_reduce.0.forward", reduce.clone()), ("Torch.log.0.forward", made.clone())],
    );
    put(
        &place,
        "step0/rank1",
        &[
            ("Torch.relu.0.forward", calm.clone()),
            ("Torch.relu.1.forward", calm.clone()),
            ("Torch.div.0.forward", made.clone()),
            ("Distributed.all_reduce.0.forward", reduce.clone()),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        ran.out,
        "\
step 0, rank1: Torch.div.0.forward returns NaN from finite inputs
step 0, rank0: Torch.log.0.forward returns NaN from finite inputs
"
    );
    // Collectives in a different order on each rank, as no run has them: nothing waits for ever.
    let (one, other) = ("Distributed.all_reduce.0.forward", "Distributed.broadcast.0.forward");
    put(
        &place,
        "step0/rank0",
        &[(one, reduce.clone()), (other, reduce.clone()), ("Torch.log.0.forward", made)],
    );
    put(&place, "step0/rank1", &[(other, reduce.clone()), (one, reduce)]);
    assert_eq!(place.run(&["overflow", "d"]).code, 1);
}

#[test]
fn a_member_of_a_group_is_a_rank() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let group = r#""group": {"type": "torch.ProcessGroup", "group_ranks": [1, 3], "group_id": "7"}"#;
    let member = |key: &str, value: u32| {
        format!(
            r#""{key}": {{"type": "int", "value": {value}}}, "dst": {{"type": "NoneType", "value": null}}, {group}"#
        )
    };
    for (rank, calls) in [
        ("rank0", vec![("Torch.relu.0.forward", call(&[&finite], "", &[&finite]))]),
        (
            "rank1",
            vec![
                ("Torch.log.0.forward", call(&[&finite], "", &[&nan])),
                ("Distributed.send.0.forward", call(&[&nan], &member("group_dst", 1), &["null"])),
            ],
        ),
        ("rank3", vec![("Distributed.recv.0.forward", call(&["null"], &member("group_src", 0), &[&nan]))]),
    ] {
        put(&place, &format!("step0/{rank}"), &calls);
    }
    assert_eq!(
        place.run(&["overflow", "d"]).out,
        "\
step 0, rank1: Torch.log.0.forward returns NaN from finite inputs
  received by rank3: Distributed.recv.0.forward
"
    );
}

#[test]
fn dumps_of_ptdbg_and_torch_npu_hooks_are_read() {
    let place = Workspace::new();
    place.put_text(
        "d/rank0/dump.pkl",
        r#"["Functional_linear_0_forward_stack_info", [["/case/net.py", "12", "forward", "return F.linear(x, w)"]]]
["Functional_linear_0_forward_input.0", 1, [], "torch.float32", [3, 4], [1.0, -1.0, 0.0]]
["Functional_linear_0_forward_output", 1, [], "torch.float32", [3, 4], [1.8, -1.8, 0.0]]
["Torch_exp_0_forward_stack_info", [["/case/net.py", "13", "forward", "return torch.exp(x)"]]]
["Torch_exp_0_forward_input.0", 1, [], "torch.float32", [3, 4], [1.8, -1.8, 0.0]]
["Torch_exp_0_forward_output", 1, [], "torch.float32", [3, 4], [Infinity, 0.5, Infinity]]
["Torch_relu_0_forward_input.0", 1, [], "torch.float32", [3, 4], [Infinity, 0.5, Infinity]]
["Torch_relu_0_forward_output", 1, [], "torch.float32", [3, 4], [Infinity, 0.5, Infinity]]
"#,
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("Torch.exp.0.forward returns infinity from finite inputs"), "{}", ran.out);
    assert!(ran.out.contains("/case/net.py, line 13, in forward"), "{}", ran.out);
    assert!(!ran.out.contains("relu"), "{}", ran.out);

    place.put_text(
        "hooks.pkl",
        r#"["0_Functional_linear_forward_input.0", [-1.0, 1.0], "torch.float32", [2]]
["1_Functional_linear_forward_output", [-2.0, 2.0], "torch.float32", [2]]
["2_Torch_log_forward_input.0", [-2.0, 2.0], "torch.float32", [2]]
["3_Torch_log_forward_output", [NaN, 0.5], "torch.float32", [2]]
"#,
    );
    let ran = place.run(&["overflow", "hooks.pkl"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("Torch.log.0.forward returns NaN from finite inputs"), "{}", ran.out);
    assert_eq!(ran.out.lines().filter(|line| line.contains("returns")).count(), 1, "{}", ran.out);
}

#[test]
fn an_argument_recorded_after_its_call_says_nothing_of_its_inputs() {
    let place = Workspace::new();
    let infinite = infinite();
    let changed = infinite.replace('}', r#", "changed": true}"#);
    put(&place, "step0/rank0", &[("Tensor.mul_.0.forward", call(&[&changed], "", &[&infinite]))]);
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            1,
            "step 0, rank0: Tensor.mul_.0.forward returns infinity; the input that it changes in place was recorded \
             after the call\n"
        )
    );
}

#[test]
fn a_scalar_with_nan_is_an_origin_if_it_is_used() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let scalar = r#"{"type": "float", "value": NaN}"#;
    put(
        &place,
        "step0/rank0",
        &[
            ("Tensor.masked_fill.0.forward", call(&[&finite, scalar], "", &[&finite])),
            ("Tensor.mul.0.forward", call(&[&finite, scalar], "", &[&nan])),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (1, "step 0, rank0: Tensor.mul.0.forward gets NaN from outside: Tensor.mul.0.forward.input.1\n")
    );
}

#[test]
fn memory_that_something_unrecorded_changed_is_an_origin() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let later = nan_from("Torch.relu.0.forward.output.0");
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.relu.0.forward", call(&[&finite], "", &[&finite])),
            ("Torch.exp.0.forward", call(&[&later], "", &[&nan])),
            ("Torch.neg.0.forward", call(&[&later], "", &[&nan])),
            ("Torch.abs.0.forward", call(&[&nan_from("Torch.exp.0.forward.output.0")], "", &[&nan])),
        ],
    );
    let ran = place.run(&["overflow", "d"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            1,
            "step 0, rank0: Torch.exp.0.forward gets NaN in Torch.relu.0.forward.output.0: its memory was changed by \
             something that was not recorded\n"
        )
    );
}

#[test]
fn a_dump_without_numbers_or_calls_is_refused() {
    let place = Workspace::new();
    let bare = r#"{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3]}"#;
    put(&place, "step0/rank0", &[("Torch.relu.0.forward", call(&[bare], "", &[bare]))]);
    let ran = place.run(&["overflow", "d"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("have no numbers"), "{}", ran.err);
    put(&place, "step0/rank0", &[]);
    let ran = place.run(&["overflow", "d"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("no calls"), "{}", ran.err);
}

#[test]
fn what_an_optimizer_does_with_bad_gradients_is_no_origin() {
    let place = Workspace::new();
    let (finite, nan) = (finite(), nan());
    let update = call(&[&finite, &nan_from("gradient:weight")], "", &[&nan]);
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.sqrt.0.forward", call(&[&finite], "", &[&finite])),
            ("Torch.sqrt.0.backward", format!(r#"{{"input": [{finite}], "output": [{nan}]}}"#)),
            ("Tensor.add_.0.forward", update.clone()),
        ],
    );
    let next = call(&[&finite, &nan_from("parameter:weight")], "", &[&nan]);
    put(&place, "step1/rank0", &[("Functional.linear.0.forward", next)]);
    let found = origins(&place.run(&["overflow", "d", "--json"]).json());
    let calls: Vec<&str> = found.iter().map(|(_, call, _)| call.as_str()).collect();
    assert_eq!(calls, ["Torch.sqrt.0.backward"]);
    // What the optimizer keeps for itself, and buffers, are as the step before left them.
    let own = call(&[&nan_from("outside")], "", &[&nan]);
    put(&place, "step1/rank0", &[("Tensor.mul_.0.forward", own)]);
    let origins_of = |place: &Workspace| -> Vec<String> {
        let found = origins(&place.run(&["overflow", "d", "--json"]).json());
        found.into_iter().map(|(_, call, _)| call).collect()
    };
    assert_eq!(origins_of(&place), ["Torch.sqrt.0.backward", "Tensor.mul_.0.forward"]);
    place.put_text("d/step1/rank0/construct.json", r#"{"Tensor.mul_.0.forward": "optimizer"}"#);
    assert_eq!(origins_of(&place), ["Torch.sqrt.0.backward"]);
    let normalized = call(&[&finite, &nan_from("buffer:running_mean")], "", &[&nan]);
    put(&place, "step1/rank0", &[("Functional.batch_norm.0.forward", normalized)]);
    assert_eq!(origins_of(&place), ["Torch.sqrt.0.backward"]);
    // Without a backward call that made it, the gradient is where it was first seen.
    put(&place, "step0/rank0", &[("Tensor.add_.0.forward", update)]);
    assert!(place.run(&["overflow", "d"]).out.contains("from outside: gradient:weight"));
}

#[test]
fn a_collective_with_infinity_of_its_own_receives_nan() {
    let place = Workspace::new();
    let (finite, infinite, nan) = (finite(), infinite(), nan());
    let reduce = |given: &str| call(&[given], "", &[&nan]);
    put(
        &place,
        "step0/rank0",
        &[
            ("Torch.exp.0.forward", call(&[&finite], "", &[&infinite])),
            ("Distributed.all_reduce.0.forward", reduce(&infinite)),
        ],
    );
    put(
        &place,
        "step0/rank1",
        &[
            ("Torch.log.0.forward", call(&[&finite], "", &[&nan])),
            ("Distributed.all_reduce.0.forward", reduce(&nan)),
        ],
    );
    let found = origins(&place.run(&["overflow", "d", "--json"]).json());
    let calls: Vec<&str> = found.iter().map(|(_, call, _)| call.as_str()).collect();
    assert_eq!(calls, ["Torch.exp.0.forward", "Torch.log.0.forward"]);
}

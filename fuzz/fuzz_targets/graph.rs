//! Any bytes are graphs that can be shown and drawn, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::Bytes;

fuzz_target!(|data: &[u8]| {
    if let Ok(graphs) = ulpscope_graph::read_graphs(&Bytes::from(data.to_vec())) {
        for graph in &graphs {
            ulpscope_graph::casts(graph);
            ulpscope_graph::diff(graph, graph);
            if let Some(op) = graph.ops.first() {
                ulpscope_graph::info(graph, op);
                assert!(ulpscope_graph::draw(graph, op, 2).ends_with("</svg>\n"));
            }
        }
    }
});

//! Which calls of different ranks belong together: the parts of one collective, a message and its receipt.
//!
//! The parts of a collective are the calls of the same name and group, in the order of each rank. A receipt belongs to the
//! message that the other rank sent to this one, in the same order.

use std::collections::HashMap;

use ulpscope_dump::{Content, Entry, Problems};
use ulpscope_formats::json::Json;

use super::scan::RankScan;

/// A call of a rank: the number of the rank among those of the step, and of the call.
pub(super) type Place = (usize, usize);

/// The calls that sent what a call received.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    senders: HashMap<Place, Vec<Place>>,
}

/// What a call has to do with other ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// A collective: its name and group.
    Collective(String, String),
    /// To a rank.
    Sent(u64),
    /// From a rank.
    Received(u64),
}

impl Traffic {
    pub(super) fn of(scans: &[RankScan], problems: &mut Problems) -> Traffic {
        let mut calls: HashMap<(usize, Part, u32), usize> = HashMap::new();
        let mut parts: Vec<(Place, Part, u32)> = Vec::new();
        for (rank, scan) in scans.iter().enumerate() {
            let mut counts: HashMap<Part, u32> = HashMap::new();
            for state in &scan.states {
                let base = scan.rank.base(scan.rank.calls()[state.call].base);
                if !base.starts_with("Distributed.") {
                    continue;
                }
                let entries = match scan.rank.entries(state.call) {
                    Ok(entries) => entries,
                    Err(error) => {
                        problems.add(&error);
                        continue;
                    }
                };
                for part in parts_of(base, &entries) {
                    let count = counts.entry(part.clone()).or_default();
                    calls.insert((rank, part.clone(), *count), state.call);
                    parts.push(((rank, state.call), part, *count));
                    *count += 1;
                }
            }
        }
        let by_number: HashMap<u64, usize> =
            scans.iter().enumerate().filter_map(|(at, scan)| Some((scan.number?, at))).collect();
        let mut senders: HashMap<Place, Vec<Place>> = HashMap::new();
        for (place, part, count) in parts {
            let others: Vec<Place> = match &part {
                Part::Collective(..) => (0..scans.len())
                    .filter(|&rank| rank != place.0)
                    .filter_map(|rank| Some((rank, *calls.get(&(rank, part.clone(), count))?)))
                    .collect(),
                Part::Received(from) => {
                    let own = scans[place.0].number;
                    let sender = by_number.get(from).zip(own);
                    let sent = sender
                        .and_then(|(&rank, own)| Some((rank, *calls.get(&(rank, Part::Sent(own), count))?)));
                    sent.into_iter().collect()
                }
                Part::Sent(_) => continue,
            };
            senders.entry(place).or_default().extend(others);
        }
        Traffic { senders }
    }

    /// The calls of other ranks that may have sent what a call returned.
    pub(super) fn senders(&self, rank: usize, call: usize) -> impl Iterator<Item = Place> {
        self.senders.get(&(rank, call)).into_iter().flatten().copied()
    }
}

fn parts_of(base: &str, entries: &[Entry]) -> Vec<Part> {
    let name = base.rsplit('.').next().unwrap_or(base);
    let number = |key: &str| {
        entries.iter().filter(|entry| entry.path == key).find_map(|entry| match &entry.content {
            Content::Scalar { value: Json::Int(number), .. } => u64::try_from(*number).ok(),
            _ => None,
        })
    };
    let peer = |key: &str, in_group: &str| {
        let named = number("1").or_else(|| number(key));
        named.or_else(|| number(in_group).and_then(|member| global_rank(entries, member)))
    };
    match name {
        "send" | "isend" => peer("dst", "group_dst").map(Part::Sent).into_iter().collect(),
        "recv" | "irecv" => peer("src", "group_src").map(Part::Received).into_iter().collect(),
        "batch_isend_irecv" => messages(entries),
        _ => vec![Part::Collective(name.to_owned(), group(entries))],
    }
}

/// The messages of a batch: `{"class_type": "torch.distributed.P2POp", "op": "isend", "peer": 1, …}`, whole or by field.
fn messages(entries: &[Entry]) -> Vec<Part> {
    let mut found = Vec::new();
    let text = |entry: &Entry| match &entry.content {
        Content::Scalar { value: Json::Str(text), .. } | Content::Other(Json::Str(text)) => {
            Some(text.clone())
        }
        _ => None,
    };
    for entry in entries {
        match &entry.content {
            Content::Other(json @ Json::Object(_)) => {
                let op = json.get("op").and_then(Json::as_str);
                let peer = json.get("peer").and_then(|peer| match peer {
                    Json::Int(number) => u64::try_from(*number).ok(),
                    _ => None,
                });
                found.extend(op.zip(peer).and_then(|(op, peer)| message(op, peer)));
            }
            _ if entry.path.ends_with(".op") => {
                let front = entry.path.trim_end_matches(".op");
                let peer = entries.iter().find(|other| other.path == format!("{front}.peer"));
                let peer = peer.and_then(|peer| match &peer.content {
                    Content::Scalar { value: Json::Int(number), .. } | Content::Other(Json::Int(number)) => {
                        u64::try_from(*number).ok()
                    }
                    _ => None,
                });
                found.extend(text(entry).zip(peer).and_then(|(op, peer)| message(&op, peer)));
            }
            _ => {}
        }
    }
    found
}

fn message(op: &str, peer: u64) -> Option<Part> {
    match op {
        "isend" | "send" => Some(Part::Sent(peer)),
        "irecv" | "recv" => Some(Part::Received(peer)),
        _ => None,
    }
}

/// The rank of a member of the group that a call names; without one the group is that of all ranks.
fn global_rank(entries: &[Entry], member: u64) -> Option<u64> {
    let ranks = entries.iter().find_map(|entry| match &entry.content {
        Content::Other(json) => json.get("group_ranks"),
        _ => None,
    });
    match ranks {
        None => Some(member),
        Some(Json::List(ranks)) => match ranks.get(usize::try_from(member).ok()?)? {
            Json::Int(rank) => u64::try_from(*rank).ok(),
            _ => None,
        },
        Some(_) => None,
    }
}

/// The group of a collective; empty for the group of all ranks.
fn group(entries: &[Entry]) -> String {
    let id = entries.iter().find_map(|entry| match &entry.content {
        Content::Other(json) => json.get("group_id").and_then(Json::as_str).map(str::to_owned),
        _ => None,
    });
    id.unwrap_or_default()
}

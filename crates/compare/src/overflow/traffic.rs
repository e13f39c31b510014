//! Which calls of different ranks belong together: the parts of one collective, a message and its receipt.
//!
//! The parts of a collective are the calls of the same name and group, in the order of each rank. A receipt belongs to the
//! message that the other rank sent to this one, in the same order.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Content, Entry};
use ulpscope_formats::json::Json;

use super::scan::RankScan;

/// A call: the number of the rank among those of the step, and the place of the call in its scan.
pub(super) type Place = (usize, usize);

/// What a call has to do with other ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Part {
    /// A collective: its name and group.
    Collective(String, String),
    /// To a rank.
    Sent(u64),
    /// From a rank.
    Received(u64),
}

/// The calls that sent what a call received.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// The parts of each collective, by rank.
    pub(super) collectives: Vec<Vec<Place>>,
    links: HashMap<Place, Vec<Link>>,
}

/// Where a call received something from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    /// The other parts of a collective, by its number.
    Collective(usize),
    /// A message.
    Message(Place),
}

impl Traffic {
    pub(super) fn of(scans: &[RankScan]) -> Traffic {
        let mut traffic = Traffic::default();
        let mut sent: HashMap<(usize, u64, u32), Place> = HashMap::new();
        let mut received: Vec<(Place, u64, u32)> = Vec::new();
        let mut known: HashMap<(&Part, u32), usize> = HashMap::new();
        for (rank, scan) in scans.iter().enumerate() {
            let mut counts: HashMap<&Part, u32> = HashMap::new();
            for (at, state) in scan.states.iter().enumerate() {
                for part in &state.parts {
                    let count = counts.entry(part).or_default();
                    let (place, number) = ((rank, at), *count);
                    *count += 1;
                    match part {
                        Part::Collective(..) => {
                            let collective = *known.entry((part, number)).or_insert_with(|| {
                                traffic.collectives.push(Vec::new());
                                traffic.collectives.len() - 1
                            });
                            traffic.collectives[collective].push(place);
                            traffic.links.entry(place).or_default().push(Link::Collective(collective));
                        }
                        Part::Sent(to) => drop(sent.insert((rank, *to, number), place)),
                        Part::Received(from) => received.push((place, *from, number)),
                    }
                }
            }
        }
        let by_number: HashMap<u64, usize> =
            scans.iter().enumerate().filter_map(|(at, scan)| Some((scan.number?, at))).collect();
        for (place, from, number) in received {
            let message = || sent.get(&(*by_number.get(&from)?, scans[place.0].number?, number));
            if let Some(&message) = message() {
                traffic.links.entry(place).or_default().push(Link::Message(message));
            }
        }
        traffic
    }

    /// Where a call may have received something from.
    pub(super) fn links(&self, place: Place) -> &[Link] {
        self.links.get(&place).map_or(&[], Vec::as_slice)
    }

    /// The calls of other ranks that may have sent what a call returned.
    pub(super) fn senders(&self, place: Place) -> impl Iterator<Item = Place> {
        self.links(place).iter().flat_map(move |link| {
            let places = match link {
                Link::Collective(number) => self.collectives[*number].as_slice(),
                Link::Message(place) => std::slice::from_ref(place),
            };
            let is_message = matches!(link, Link::Message(_));
            places.iter().copied().filter(move |(rank, _)| is_message || *rank != place.0)
        })
    }
}

pub(super) fn parts_of(base: &str, entries: &[Entry]) -> Vec<Part> {
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

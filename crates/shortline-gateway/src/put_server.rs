//! One server more, or one less: a fleet made from the running one.
//!
//! What is put has the members of a `[[server]]` of the fleet file, as JSON:
//!
//! ```json
//! {"type": "A10", "address": "10.0.0.9:8000", "serves": ["M0001"], "buffer": 8}
//! ```
//!
//! `type` and `serves` name what the fleet has; `["*"]` is every job type that it has at this moment. Without `buffer`
//! it is unbounded. O(servers + job types + edges).

use shortline_core::Fleet;
use shortline_core::fleet::settings::Address;
use shortline_core::fleet::{FleetParts, Names, ServerParts};
use shortline_core::graph::Edges;

use crate::reload::ReloadError;

/// A server to be put into the fleet.
#[derive(Clone, PartialEq, Debug)]
pub struct PutServer {
    /// Its name.
    pub name: String,
    /// The name of its type.
    pub server_type: String,
    /// Where it is.
    pub address: Address,
    /// The job types it holds, by name; `*` alone: all.
    pub serves: Vec<String>,
    /// Most jobs at it, those in service included; `None`: unbounded.
    pub buffer: Option<u32>,
}

/// The JSON form.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(rename = "type")]
    server_type: String,
    address: String,
    serves: Vec<String>,
    #[serde(default)]
    buffer: Buffer,
}

#[derive(serde::Deserialize, Default)]
#[serde(untagged, expecting = "`buffer` is a whole number or \"unbounded\"")]
enum Buffer {
    #[default]
    None,
    Places(u32),
    Word(Unbounded),
}

#[derive(serde::Deserialize)]
enum Unbounded {
    #[serde(rename = "unbounded")]
    Unbounded,
}

impl PutServer {
    /// A server called `name`, as a JSON body describes it.
    ///
    /// # Errors
    /// [`ReloadError::Server`] if that is not what the body is.
    pub(crate) fn from_json(name: &str, body: &[u8]) -> Result<Self, ReloadError> {
        let refused = |why: String| ReloadError::Server { name: name.to_owned(), why };
        let body: Body = serde_json::from_slice(body).map_err(|error| {
            refused(format!("is not described: {error}; the body is a JSON object with `type`, `address`, `serves` and, if wanted, `buffer`"))
        })?;
        let address = body.address.parse().map_err(|why| refused(format!("cannot be reached: {why}")))?;
        let buffer = match body.buffer {
            Buffer::Places(places) => Some(places),
            Buffer::None | Buffer::Word(Unbounded::Unbounded) => None,
        };
        Ok(Self { name: name.to_owned(), server_type: body.server_type, address, serves: body.serves, buffer })
    }
}

/// `fleet` with `server`, in place of one of the same name.
pub(crate) fn with_server(fleet: &Fleet, server: &PutServer) -> Result<Fleet, ReloadError> {
    let refused = |why: String| ReloadError::Server { name: server.name.clone(), why };
    let mut parts = fleet.to_parts();
    let rows = rows_without(&mut parts, fleet, &server.name);
    let server_type = parts.server_types.iter().position(|known| known.name == server.server_type);
    let server_type = server_type.ok_or_else(|| {
        let known: Vec<&str> = parts.server_types.iter().map(|known| known.name.as_str()).collect();
        refused(format!(
            "has type `{}`, which the fleet does not have; its types are {}",
            server.server_type,
            known.join(", ")
        ))
    })?;
    let new = u32::try_from(parts.servers.len()).expect("a fleet has fewer than 2^32 servers");
    let mut held = vec![false; rows.len()];
    for name in &server.serves {
        match (name.as_str(), fleet.find_job_type(name)) {
            ("*", _) if server.serves.len() == 1 => held.fill(true),
            ("*", _) => return Err(refused("serves `*` and something beside it; `*` alone is all job types".into())),
            (_, Some(job_type)) => held[job_type.index()] = true,
            (_, None) => return Err(refused(format!("serves `{name}`, which is no job type of the fleet"))),
        }
    }
    parts.servers.push(ServerParts {
        names: Names { base: server.name.clone(), count: None },
        server_type,
        buffer: server.buffer,
        addresses: vec![server.address.clone()],
    });
    parts.edges = Edges::from_rows(rows.into_iter().zip(held).map(|(mut row, held)| {
        row.extend(held.then_some(new));
        row
    }));
    Fleet::new(parts).map_err(|error| refused(format!("does not fit the fleet: {error}")))
}

/// `fleet` without a server.
pub(crate) fn without_server(fleet: &Fleet, name: &str) -> Result<Fleet, ReloadError> {
    if fleet.find_server(name).is_none() {
        return Err(ReloadError::NoSuchServer(name.to_owned()));
    }
    let mut parts = fleet.to_parts();
    let rows = rows_without(&mut parts, fleet, name);
    parts.edges = Edges::from_rows(rows);
    let refused = |why: String| ReloadError::Server { name: name.to_owned(), why };
    Fleet::new(parts).map_err(|error| refused(format!("cannot be taken out: {error}")))
}

/// An entry of equal servers as one entry each.
fn one_by_one(entry: ServerParts) -> Vec<ServerParts> {
    let one = |i: usize| ServerParts {
        names: Names { base: entry.names.get(i), count: None },
        addresses: entry.addresses.get(i).cloned().into_iter().collect(),
        ..entry.clone()
    };
    (0..entry.names.len()).map(one).collect()
}

/// Names each server on its own, takes the one called `name` out if it is there, and gives the rows of the others.
fn rows_without(parts: &mut FleetParts, fleet: &Fleet, name: &str) -> Vec<Vec<u32>> {
    let servers: Vec<ServerParts> = parts.servers.drain(..).flat_map(one_by_one).collect();
    let gone = servers.iter().position(|server| server.names.base == name);
    parts.servers = servers;
    if let Some(gone) = gone {
        parts.servers.remove(gone);
        // The simulator's, by the number of the server in the file; a gateway has real ones.
        parts.settings.failures = None;
    }
    let number = |server: usize| match gone {
        Some(gone) if server == gone => None,
        Some(gone) if server > gone => Some(server - 1),
        _ => Some(server),
    };
    let as_index = |server: usize| u32::try_from(server).expect("a fleet has fewer than 2^32 servers");
    let row = |job_type: shortline_core::JobTypeId| {
        let mut row = Vec::new();
        fleet.graph().for_each(job_type.index(), |server| {
            row.extend(number(fleet.file_index(server)).map(as_index));
        });
        row
    };
    fleet.job_types().map(row).collect()
}

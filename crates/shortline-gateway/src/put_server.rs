//! One server more, or one less: a fleet made from the running one.
//!
//! What is put has the members of a `[[server]]` of the fleet file, as JSON, without `name` and `count`:
//!
//! ```json
//! {"type": "A10", "address": "10.0.0.9:8000", "serves": ["M0001"], "buffer": 8, "protocol": "h2"}
//! ```
//!
//! It is read by the reader of the fleet file, as the one server of a file with the fleet's types and job types, so that
//! members, defaults and errors are the same. `["*"]` is every job type that the fleet has at this moment. O(servers + job
//! types + edges).

use serde_json::{Map, Value, json};
use shortline_core::Fleet;
use shortline_core::fleet::settings::Address;
use shortline_core::fleet::{FleetParts, Names, ServerParts, ServerTypeParts, Source, read_parts};
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

impl PutServer {
    /// A server called `name` for this fleet, as a JSON body describes it.
    ///
    /// # Errors
    /// [`ReloadError::Server`] if that is not what the body is.
    pub(crate) fn from_json(fleet: &Fleet, name: &str, body: &[u8]) -> Result<Self, ReloadError> {
        let refused = |why: String| ReloadError::Server { name: name.to_owned(), why };
        let mut described: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
            refused(format!(
                "is not described: {error}; the body is a JSON object with `type`, `address`, `serves` and whatever \
                 else a [[server]] of the fleet file may have"
            ))
        })?;
        if let Some(member) = ["name", "count"].into_iter().find(|&member| described.contains_key(member)) {
            return Err(refused(format!("has `{member}`; leave it out: it is one server, and the path names it")));
        }
        described.insert("name".into(), name.into());
        let needed = [
            ("address", "where it is, as host:port"),
            ("serves", "the job types it holds, [\"*\"] for all, [] for none"),
        ];
        let missing = needed.into_iter().find(|(member, _)| !described.contains_key(*member));
        // Else the reader would speak of [graph], too.
        described.entry("serves").or_insert_with(|| json!([]));
        let serves = described.get("serves").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = file_of_one(fleet, described).to_string();
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let parts = read_parts(&Source { name: "fleet.json", text: &text }, &no_file).map_err(|faults| {
            let said = faults.faults().iter().map(|fault| match fault.remedy() {
                Some(remedy) => format!("{fault}; {remedy}"),
                None => fault.to_string(),
            });
            refused(format!("does not fit the fleet: {}", said.collect::<Vec<_>>().join(". ")))
        })?;
        // What the reader does not ask for comes last: it may be there under a name that the reader knows to be misspelt.
        if let Some((member, what)) = missing {
            return Err(refused(format!("has no `{member}`; add {what}")));
        }
        let [server] = <[ServerParts; 1]>::try_from(parts.fleet.servers).expect("one was written");
        let [address] = <[Address; 1]>::try_from(server.addresses).expect("one server has one address");
        Ok(Self {
            name: name.to_owned(),
            server_type: parts.fleet.server_types[server.server_type].name.clone(),
            address,
            serves: serves.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            buffer: server.buffer,
        })
    }
}

/// A fleet file with this server, and what it may name.
fn file_of_one(fleet: &Fleet, server: Map<String, Value>) -> Value {
    let FleetParts { server_types, settings, .. } = fleet.to_parts();
    let server_type = |known: &ServerTypeParts| json!({ "name": known.name, "rate": 1, "slots": known.slots });
    let job_type = |id| json!({ "name": fleet.job_type_name(id), "rate": 1 });
    json!({
        "fleet": { "buffer": settings.buffer.map_or("unbounded".into(), Value::from) },
        "server_type": server_types.iter().map(server_type).collect::<Vec<_>>(),
        "server": [server],
        "job_type": fleet.job_types().map(job_type).collect::<Vec<_>>(),
    })
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
    let place = server.address.place();
    let is_there = |other: &String| {
        let address = fleet.find_server(other).and_then(|other| fleet.address(other));
        *other != server.name && address.is_some_and(|address| address.place() == place)
    };
    let names = || fleet.servers_in_file_order().map(|other| fleet.server_name(other));
    if let Some(other) = names().find(is_there) {
        return Err(refused(format!(
            "does not fit the fleet: two servers have the address `{}`, it and `{other}`; each server needs an address of \
             its own",
            server.address
        )));
    }
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

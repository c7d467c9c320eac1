//! Reading a fleet file: text in, fleet out, or everything that is wrong with the text.
//!
//! The text is parsed into one tree that knows its places (`document.rs`); then each section has its
//! reader here, which takes the keys it knows from the tree. Readers do not stop at a fault: they report it and go
//! on, so that one run finds all. What a fault only causes is not reported again: an unreadable server type makes no
//! server's `type` wrong.
//!
//! The core does no I/O: the caller hands over the text, and a function that opens the file that
//! `[graph] kind = "file"` names.

mod addresses;
mod collect;
mod defaults;
mod edge_file;
mod gateway;
mod graph;
mod health;
mod job_types;
mod laws;
mod names;
mod operation;
mod rates;
mod section;
mod server_types;
mod servers;
mod serves;
mod words;

use std::io;

use super::document::{self, Document};
use super::fault::{Fault, FleetFaults};
use super::settings::Settings;
use super::{Fleet, FleetParts};
use crate::graph::generate::GraphReport;
use crate::graph::{Edges, GraphSpec};
use collect::{Collected, Faults, Read};
use defaults::Defaults;
use job_types::JobTypes;
use section::{At, Section};
use server_types::ServerTypes;
use servers::Servers;

/// The text of a fleet file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name, for messages. A name that ends in `.json` makes it JSON, as does a leading `{`.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// A fleet as read from a file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The fleet.
    pub fleet: Fleet,
    /// The `[graph]` section, if the file has one.
    pub graph: Option<GraphSpec>,
    /// What is known of the graph, if it was generated.
    pub graph_report: Option<GraphReport>,
    /// What is probably not meant.
    pub warnings: Vec<Fault>,
}

/// A fleet's parts as read from a file, to be altered before they become a fleet by [`Fleet::new`].
#[derive(Clone, Debug)]
pub struct Parts {
    /// The parts, edges included.
    pub fleet: FleetParts,
    /// The `[graph]` section, if the file has one: [`FleetParts::generate`] makes another graph of it.
    pub graph: Option<GraphSpec>,
    /// What is known of the graph, if it was generated.
    pub graph_report: Option<GraphReport>,
    /// What is probably not meant.
    pub warnings: Vec<Fault>,
}

/// Reads a fleet file. `read_file` gives the text of the edge file that `[graph] kind = "file"` names.
///
/// ```
/// use shortline_core::fleet::{Source, read};
///
/// let text = r#"
///     server_type = [{ name = "A10", rate = 2.0 }]
///     server = [{ name = "gpu", count = 4, type = "A10", serves = ["*"] }]
///     job_type = [{ name = "M1", rate = 3.2 }]
/// "#;
/// let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
/// let fleet = read(&Source { name: "fleet.toml", text }, &no_file)?.fleet;
/// assert_eq!(fleet.server_count(), 4);
///
/// let slip = text.replace("rate = 2.0", "rat = 2.0");
/// let faults = read(&Source { name: "fleet.toml", text: &slip }, &no_file).unwrap_err();
/// assert!(faults.plain().to_string().contains("did you mean `rate`?"));
/// # Ok::<(), shortline_core::fleet::FleetFaults>(())
/// ```
///
/// # Errors
/// [`FleetFaults`] with every fault of the file.
pub fn read(source: &Source<'_>, read_file: &dyn Fn(&str) -> io::Result<String>) -> Result<Loaded, FleetFaults> {
    let Parts { fleet, graph, graph_report, warnings } = read_parts(source, read_file)?;
    match Fleet::new(fleet) {
        Ok(fleet) => Ok(Loaded { fleet, graph, graph_report, warnings }),
        Err(error) => {
            let faults = Faults::new(source.name, source.text, false);
            faults.at(&(0..0), error.to_string()).report();
            Err(refused(source, faults, Collected::default()))
        }
    }
}

/// Reads a fleet file as far as its parts, which a program may alter (scale the rates, replace the graph).
///
/// # Errors
/// [`FleetFaults`] with every fault of the file.
pub fn read_parts(source: &Source<'_>, read_file: &dyn Fn(&str) -> io::Result<String>) -> Result<Parts, FleetFaults> {
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(source.text);
    let document = document::parse(source.name, text);
    let faults = Faults::new(source.name, text, !document.faults.is_empty());
    for fault in &document.faults {
        faults.at(&fault.span, fault.message.clone()).report();
    }
    let mut collected = Collected::default();
    let parts = sections(&document, source.name, &faults, read_file, &mut collected);
    match parts {
        Ok(parts) if !faults.any_errors() && collected.errors == 0 => {
            faults.finish(&mut collected);
            Ok(Parts { warnings: collected.faults, ..parts })
        }
        _ => Err(refused(source, faults, collected)),
    }
}

/// What makes the file unusable; warnings are for files that can be used.
fn refused(source: &Source<'_>, faults: Faults<'_>, mut collected: Collected) -> FleetFaults {
    faults.finish(&mut collected);
    collected.faults.retain(|fault| !fault.is_warning());
    FleetFaults { file: source.name.to_owned(), faults: collected.faults, omitted: collected.omitted }
}

/// Everything of the file, section by section, then what concerns several of them.
fn sections(
    document: &Document<'_>,
    file_name: &str,
    faults: &Faults<'_>,
    read_file: &dyn Fn(&str) -> io::Result<String>,
    collected: &mut Collected,
) -> Read<Parts> {
    let mut root = Section::new(faults, "the fleet file", document.span.clone(), &document.root);
    let defaults = Defaults::read(&mut root);
    let types = ServerTypes::read(&mut root);
    let servers = Servers::read(&mut root, &types, &defaults.buffer);
    let job_types = JobTypes::read(&mut root);
    let rates = rates::read(&mut root, &types, &job_types);
    let graph = graph::read(&mut root);
    let settings = settings(&mut root, &defaults, &servers, &job_types);
    root.finish();

    check_policy(faults, &defaults, &types);
    types.warn_unused(faults, servers.entries.iter().filter_map(|entry| Some(entry.parts.as_ref().ok()?.server_type)));
    let edges = match &graph {
        Err(reported) => Err(*reported),
        Ok(None) => serves::edges(faults, &servers, &job_types).map(Some),
        Ok(Some(graph)) => check_no_serves(faults, graph, &servers)
            .and_then(|()| listed_edges(faults, graph, &servers, &job_types, read_file, collected)),
    };

    let mut fleet = FleetParts {
        name: defaults.name?.map_or_else(|| stem(file_name).to_owned(), str::to_owned),
        server_types: types.types.into_iter().collect::<Read<_>>()?,
        servers: servers.entries.iter().map(|entry| entry.parts.clone()).collect::<Read<_>>()?,
        job_types: job_types.entries.iter().cloned().collect::<Read<_>>()?,
        rates: rates?,
        edges: edges?.unwrap_or(Edges::Complete),
        settings: settings?,
    };
    if faults.any_errors() {
        return Err(faults.follows_from_others());
    }
    let graph = graph?;
    let graph_report = graph.as_ref().map_or(Ok(None), |graph| generate(faults, graph, &mut fleet))?;
    defaults.warn_of_empty_lines(faults, &fleet.servers);
    serves::warn_of_gaps(faults, &fleet.edges, fleet.settings.overflow, &servers.names, &job_types.names);
    Ok(Parts { fleet, graph: graph.map(|graph| graph.spec), graph_report, warnings: Vec::new() })
}

/// The sections that are neither servers nor job types.
fn settings(
    root: &mut Section<'_, '_>,
    defaults: &Defaults<'_>,
    servers: &Servers<'_, '_>,
    job_types: &JobTypes,
) -> Read<Settings> {
    let service = laws::service(root);
    let arrivals = laws::arrivals(root);
    let failures = operation::failures(root, &servers.names);
    let information = operation::information(root);
    let timeouts = operation::timeouts(root);
    let health = health::health(root);
    let retry = health::retry(root);
    let emulate = operation::emulate(root);
    let gateway = gateway::gateway(root);
    let tls = operation::tls(root);
    let routes = gateway::routes(root, &job_types.names, &gateway);
    Ok(Settings {
        policy: defaults.policy.clone()?.map(|policy| policy.value),
        buffer: defaults.buffer.as_ref().map_err(|&reported| reported)?.as_ref().and_then(|buffer| buffer.value),
        overflow: defaults.overflow?,
        lines: defaults.lines?,
        service: service?,
        arrivals: arrivals?,
        failures: failures?,
        information: information?,
        timeouts: timeouts?,
        health: health?,
        retry: retry?,
        emulate: emulate?,
        gateway: gateway?,
        tls: tls?,
        routes: routes?,
    })
}

/// Some policies compare speeds as numbers; ranks are not enough for them.
fn check_policy(faults: &Faults<'_>, defaults: &Defaults<'_>, types: &ServerTypes) {
    if let (Ok(Some(At { value: policy, place })), Some(rank)) = (&defaults.policy, &types.rank_place)
        && policy.needs_rates()
    {
        let message = format!("the policy {policy} needs the servers' speeds, but they are only ranked");
        let draft = faults.at(place, message).help("give every [[server_type]] a `rate`, or choose another policy");
        draft.also(rank, "a rank").report();
    }
}

/// Edges come from `[graph]` or from `serves`, never from both.
fn check_no_serves(faults: &Faults<'_>, graph: &graph::Written, servers: &Servers<'_, '_>) -> Read<()> {
    match servers.entries.iter().find_map(|entry| entry.serves) {
        None => Ok(()),
        Some(serves) => {
            let draft = faults.at(&serves.span, "`serves` beside a [graph] section: both describe the same edges");
            Err(draft.help("remove [graph], or every `serves`").also(&graph.place, "the graph").report())
        }
    }
}

/// The edges of a graph that stands in a file; `None` if it is to be generated.
fn listed_edges(
    faults: &Faults<'_>,
    graph: &graph::Written,
    servers: &Servers<'_, '_>,
    job_types: &JobTypes,
    read_file: &dyn Fn(&str) -> io::Result<String>,
    collected: &mut Collected,
) -> Read<Option<Edges>> {
    let GraphSpec::File { path } = &graph.spec else { return Ok(None) };
    let text = read_file(path).map_err(|error| {
        let message = format!("cannot read the edge file {}: {error}", words::quoted(path));
        let help = "`path` is relative to the fleet file";
        faults.at(graph.place_of("path"), message).help(help).report()
    })?;
    edge_file::edges(path, &text, &job_types.names, &servers.names, collected).map(Some)
}

/// Puts a generated graph into the parts, if it is one.
fn generate(faults: &Faults<'_>, graph: &graph::Written, fleet: &mut FleetParts) -> Read<Option<GraphReport>> {
    if matches!(graph.spec, GraphSpec::File { .. }) {
        return Ok(None);
    }
    match fleet.generate(&graph.spec) {
        Ok(generated) => {
            fleet.edges = generated.edges;
            Ok(Some(generated.report))
        }
        Err(error) => Err(faults.at(graph.place_of(error.field()), error.to_string()).report()),
    }
}

/// The file's name without folders and extension: what a fleet without a name is called.
fn stem(file_name: &str) -> &str {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

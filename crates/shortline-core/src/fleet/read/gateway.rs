//! `[gateway]` and `[[route]]`: how requests become jobs.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::super::document::{Node, Span, Value};
use super::super::settings::{Gateway, JobTypeSource, Route, RouteMatch};
use super::collect::{Faults, Read};
use super::names::NameTable;
use super::section::{At, Field, Section, array, integer, value_or, word, wrong_type};
use super::words::quoted;

const SOURCES: [(&str, JobTypeSource); 4] = [
    ("header", JobTypeSource::Header),
    ("path", JobTypeSource::Path),
    ("model", JobTypeSource::Model),
    ("host", JobTypeSource::Host),
];

/// Limits on heads: enough for the smallest client, and what the HTTP library takes.
const HEADER_BYTES: RangeInclusive<u64> = 1024..=262_144;
const HEADERS: RangeInclusive<u64> = 10..=10_000;

/// `[gateway]`.
pub(super) fn gateway(root: &mut Section<'_, '_>) -> Read<Gateway> {
    let default = Gateway::default();
    let Some(mut section) = root.section("gateway") else { return Ok(default) };
    let faults = section.faults;
    let job_type_from = section.node("job_type_from").map(|node| sources(faults, node)).transpose();
    let body_scan_limit =
        section.node("body_scan_limit").map(|node| bytes(faults, "body_scan_limit", node)).transpose();
    let no_capacity_status = status(&mut section);
    let served_by = section.boolean("served_by");
    let models = section.boolean("models");
    let max_header_bytes = section.integer("max_header_bytes", HEADER_BYTES);
    let max_headers = section.integer("max_headers", HEADERS);
    let connections_per_client = section.integer32("connections_per_client", 1);
    section.finish();
    Ok(Gateway {
        job_type_from: job_type_from?.unwrap_or(default.job_type_from),
        body_scan_limit: body_scan_limit?.unwrap_or(default.body_scan_limit),
        no_capacity_status: value_or(no_capacity_status, default.no_capacity_status)?,
        served_by: value_or(served_by, default.served_by)?,
        models: value_or(models, default.models)?,
        max_header_bytes: within32(max_header_bytes, default.max_header_bytes)?,
        max_headers: within32(max_headers, default.max_headers)?,
        connections_per_client: connections_per_client?.map(|at| at.value),
    })
}

fn within32(field: Field<u64>, default: u32) -> Read<u32> {
    value_or(field, default.into()).map(|value| u32::try_from(value).expect("the range ends within 32 bits"))
}

fn sources(faults: &Faults<'_>, node: &Node<'_>) -> Read<Vec<JobTypeSource>> {
    let items = array(faults, "job_type_from", node)?;
    let read: Vec<Read<JobTypeSource>> =
        items.iter().map(|item| word(faults, "job_type_from", item, &SOURCES)).collect();
    let sources = read.into_iter().collect::<Read<Vec<_>>>()?;
    if sources.is_empty() {
        let help = "name at least one of header, path, model and host";
        return Err(faults.at(&node.span, "no request could ever tell its job type").help(help).report());
    }
    match (1..sources.len()).find(|&i| sources[..i].contains(&sources[i])) {
        Some(again) => Err(faults.at(&items[again].span, "this one is listed twice").help("keep the first").report()),
        None => Ok(sources),
    }
}

/// A number of bytes, or `"8 MiB"`.
pub(super) fn bytes(faults: &Faults<'_>, what: &str, node: &Node<'_>) -> Read<u64> {
    let Value::String(written) = &node.value else {
        return match node.value {
            Value::Integer(_) => integer(faults, what, node, 0..=u64::MAX),
            _ => Err(wrong_type(faults, what, node, "a number of bytes or a size as \"8 MiB\"")),
        };
    };
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = written.split_at(digits);
    let unit = match unit.trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "kB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        _ => None,
    };
    let size = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    size.ok_or_else(|| {
        let message = format!("{} is no size", quoted(written));
        let help = "write a number of bytes, or a whole number with B, KiB, MiB, GiB, kB, MB or GB";
        faults.at(&node.span, message).help(help).report()
    })
}

fn status(section: &mut Section<'_, '_>) -> Field<u16> {
    let Some(At { value, place }) = section.integer("no_capacity_status", 0..=u64::MAX)? else { return Ok(None) };
    match u16::try_from(value) {
        Ok(status @ (429 | 503 | 529)) => Ok(Some(At { value: status, place })),
        _ => {
            let message = format!("`no_capacity_status` is {value}, must be 503, 429 or 529");
            Err(section.faults.at(&place, message).report())
        }
    }
}

/// `[[route]]`.
pub(super) fn routes(root: &mut Section<'_, '_>, job_types: &NameTable, gateway: &Read<Gateway>) -> Read<Vec<Route>> {
    let mut first_place: HashMap<String, Span> = HashMap::new();
    let read: Vec<Read<Route>> = root
        .sections("route")
        .list
        .into_iter()
        .map(|section| route(section, job_types, gateway, &mut first_place))
        .collect();
    read.into_iter().collect()
}

fn route(
    mut section: Section<'_, '_>,
    job_types: &NameTable,
    gateway: &Read<Gateway>,
    first_place: &mut HashMap<String, Span>,
) -> Read<Route> {
    let faults = section.faults;
    let path_prefix = section.string("path_prefix");
    let host = section.string("host");
    let exclusive = section.at_most_one_of(&["path_prefix", "host"]);
    let job_type = section.string("job_type");
    let job_type =
        section.required("job_type", job_type).and_then(|name| job_types.find(faults, name.value, &name.place));
    let matched = exclusive.and_then(|()| match (path_prefix?, host?) {
        (Some(prefix), _) => path(faults, &prefix),
        (None, Some(host)) => host_name(faults, &host),
        (None, None) => Err(section.missing_either("path_prefix", "host")),
    });
    section.finish();
    let (matches, job_type) = (matched?, job_type?);
    let (source, shown) = match &matches.value {
        RouteMatch::PathPrefix(prefix) => (JobTypeSource::Path, prefix),
        RouteMatch::Host(host) => (JobTypeSource::Host, host),
    };
    if let Some(first) = first_place.insert(shown.clone(), matches.place.clone()) {
        let draft = faults.at(&matches.place, format!("two routes match {}", quoted(shown)));
        return Err(draft.help("keep one of them").also(&first, "the first").report());
    }
    if let (Ok(gateway), Some((name, _))) = (gateway, SOURCES.iter().find(|known| known.1 == source))
        && !gateway.job_type_from.contains(&source)
    {
        let message = format!("this route never matches: `job_type_from` does not list \"{name}\"");
        faults.warn(&matches.place, message).help("list it, or remove the route").report();
    }
    Ok(Route { matches: matches.value, job_type })
}

fn path(faults: &Faults<'_>, prefix: &At<&str>) -> Read<At<RouteMatch>> {
    if !prefix.value.starts_with('/') || prefix.value.contains(['?', '#']) {
        let message = format!("{} is no path prefix", quoted(prefix.value));
        return Err(faults.at(&prefix.place, message).help("a path begins with `/` and has no `?` or `#`").report());
    }
    Ok(At { value: RouteMatch::PathPrefix(prefix.value.to_owned()), place: prefix.place.clone() })
}

fn host_name(faults: &Faults<'_>, host: &At<&str>) -> Read<At<RouteMatch>> {
    let is_name = host.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_name && host.value.parse::<std::net::Ipv6Addr>().is_err() {
        let message = format!("{} is no host name", quoted(host.value));
        return Err(faults.at(&host.place, message).help("write it without scheme, port and path").report());
    }
    Ok(At { value: RouteMatch::Host(host.value.to_ascii_lowercase()), place: host.place.clone() })
}

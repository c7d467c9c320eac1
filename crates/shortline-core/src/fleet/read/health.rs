//! `[health]` and `[retry]`: when a server gets no requests, and when a request is sent to another one.

use super::super::document::Node;
use super::super::settings::{Checks, Health, Retry};
use super::collect::{Faults, Read};
use super::gateway::bytes;
use super::section::{At, NOT_NEGATIVE, POSITIVE, Section, array, integer, value_or};
use super::words::quoted;

/// `[health]`.
pub(super) fn health(root: &mut Section<'_, '_>) -> Read<Health> {
    let default = Health::default();
    let Some(mut section) = root.section("health") else { return Ok(default) };
    let faults = section.faults;
    let checks = checks(&mut section);
    let trip_after = section.integer32("trip_after", 0);
    let trip_status = section.node("trip_status").map(|node| statuses(faults, "trip_status", node)).transpose();
    let open_s = section.number("open_s", POSITIVE);
    let longest_open_s = section.number("longest_open_s", POSITIVE);
    let slow_start_s = section.number("slow_start_s", NOT_NEGATIVE);
    let obey_retry_after = section.boolean("obey_retry_after");
    let model_lost_status =
        section.node("model_lost_status").map(|node| statuses(faults, "model_lost_status", node)).transpose();
    let model_lost_s = section.number("model_lost_s", POSITIVE);
    let longest_place = section.place_of("longest_open_s").or(section.place_of("open_s")).cloned();
    section.finish();
    let open_s = value_or(open_s, default.open_s)?;
    let longest_open_s = value_or(longest_open_s, default.longest_open_s.max(open_s))?;
    if let Some(place) = longest_place.filter(|_| longest_open_s < open_s) {
        let message = format!("`longest_open_s` is {longest_open_s}, less than `open_s` = {open_s}");
        return Err(faults.at(&place, message).help("make it at least as long").report());
    }
    Ok(Health {
        checks: checks?,
        trip_after: value_or(trip_after, default.trip_after)?,
        trip_status: trip_status?.unwrap_or(default.trip_status),
        open_s,
        longest_open_s,
        slow_start_s: value_or(slow_start_s, default.slow_start_s)?,
        obey_retry_after: value_or(obey_retry_after, default.obey_retry_after)?,
        model_lost_status: model_lost_status?.unwrap_or(default.model_lost_status),
        model_lost_s: value_or(model_lost_s, default.model_lost_s)?,
    })
}

/// The active checks: there are none without a path.
fn checks(section: &mut Section<'_, '_>) -> Read<Option<Checks>> {
    let path = section.string("path");
    let interval_s = section.number("interval_s", POSITIVE);
    let timeout_s = section.number("timeout_s", POSITIVE);
    let unhealthy_after = section.integer32("unhealthy_after", 1);
    let healthy_after = section.integer32("healthy_after", 1);
    let Some(path) = path? else {
        let keys = ["interval_s", "timeout_s", "unhealthy_after", "healthy_after"];
        if let Some((key, place)) = keys.into_iter().find_map(|key| Some((key, section.place_of(key)?))) {
            let message = format!("`{key}` does nothing: without `path` no server is checked");
            section
                .faults
                .warn(place, message)
                .help("add `path = \"/health\"`, or whatever your servers answer to")
                .report();
        }
        return Ok(None);
    };
    let default = Checks::of(request_path(section.faults, &path)?);
    Ok(Some(Checks {
        interval_s: value_or(interval_s, default.interval_s)?,
        timeout_s: value_or(timeout_s, default.timeout_s)?,
        unhealthy_after: value_or(unhealthy_after, default.unhealthy_after)?,
        healthy_after: value_or(healthy_after, default.healthy_after)?,
        path: default.path,
    }))
}

/// What can stand in a request line.
fn request_path<'a>(faults: &Faults<'_>, path: &At<&'a str>) -> Read<&'a str> {
    if path.value.starts_with('/') && path.value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Ok(path.value);
    }
    let message = format!("{} is no path of a request", quoted(path.value));
    Err(faults.at(&path.place, message).help("begin with `/` and percent-encode what is not plain ASCII").report())
}

/// A list of statuses of answers.
fn statuses(faults: &Faults<'_>, what: &str, node: &Node<'_>) -> Read<Vec<u16>> {
    let status = |item: &Node<'_>| integer(faults, what, item, 400..=599).map(|status| status as u16);
    array(faults, what, node)?.iter().map(status).collect::<Vec<_>>().into_iter().collect()
}

/// `[retry]`.
pub(super) fn retry(root: &mut Section<'_, '_>) -> Read<Retry> {
    let default = Retry::default();
    let Some(mut section) = root.section("retry") else { return Ok(default) };
    let faults = section.faults;
    let attempts = section.integer32("attempts", 1);
    let budget = section.number("budget", NOT_NEGATIVE);
    let floor_per_s = section.number("floor_per_s", NOT_NEGATIVE);
    let body_limit = section.node("body_limit").map(|node| bytes(faults, "body_limit", node)).transpose();
    section.finish();
    Ok(Retry {
        attempts: value_or(attempts, default.attempts)?,
        budget: value_or(budget, default.budget)?,
        floor_per_s: value_or(floor_per_s, default.floor_per_s)?,
        body_limit: body_limit?.unwrap_or(default.body_limit),
    })
}

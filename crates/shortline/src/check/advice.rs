//! What to do about it, in plain words.

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;

use super::figures::{counted, listed, short};
use super::stability::{Bottleneck, PolicyRow, StabilitySection};

/// Names shown in a sentence.
const NAMES: usize = 3;

/// One sentence or two each.
pub(super) fn of(fleet: &Fleet, stability: &StabilitySection) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(factor) = stability.max_load_factor {
        let first = saturation(fleet, stability, factor);
        advice.push(first + &copy(stability));
    }
    advice.extend(file_policy(fleet, &stability.stability_by_policy));
    advice.extend(fragile(stability));
    advice
}

/// What saturates first, and at which load, or by how much it is overloaded.
fn saturation(fleet: &Fleet, stability: &StabilitySection, factor: f64) -> String {
    let bottleneck = &stability.bottleneck;
    let is_stable = stability.stable == Some(true);
    let job_types = listed(&bottleneck.job_types, NAMES);
    let words = if bottleneck.job_types.len() == 1 { &ONE } else { &SEVERAL };
    if bottleneck.servers.is_empty() {
        let Words { arrive, them, .. } = words;
        let server = stability.capacity.server();
        return format!("unstable: {job_types} {arrive} and no {server} holds {them}");
    }
    if bottleneck.whole_fleet {
        let edges = if stability.no_copy_helps { ", more copies do not" } else { "" };
        return if is_stable {
            let factor = short(factor);
            format!(
                "all servers together saturate first, at {factor} x today's load: more or faster servers raise that{edges}"
            )
        } else {
            let what = match times(factor) {
                Some(times) if stability.capacity.down.is_empty() => format!("needs {times} times the servers it has"),
                Some(times) => format!("needs {times} times the servers that stay up"),
                None => "has nothing to spare: all its servers are needed all of the time".to_owned(),
            };
            format!("unstable: the fleet {what}; more or faster servers help{edges}")
        };
    }
    let servers = bottleneck.servers.len();
    let Words { are, they, saturate, need, have, .. } = words;
    if is_stable {
        let on = counted(servers, "server");
        return format!("{job_types} {are} on {on}; {they} {saturate} first, at {} x today's load", short(factor));
    }
    let Some(times) = times(factor) else {
        let on = counted(servers, "server");
        return format!(
            "unstable: {job_types} {need} all that the {on} of {} can do, and nothing is to spare",
            words.them
        );
    };
    if is_of_one_type(fleet, bottleneck) {
        return format!("unstable: {job_types} {need} {} servers, {have} {servers}", short(servers as f64 / factor));
    }
    format!("unstable: {job_types} {need} {times} times what the {servers} servers of {} can do", words.them)
}

/// `1.2` for a load factor of `1/1.2`; `None` where no more than 1 would be seen.
fn times(factor: f64) -> Option<String> {
    Some(short(1.0 / factor)).filter(|times| times != "1")
}

/// Verbs and pronouns for one name or several.
struct Words {
    arrive: &'static str,
    are: &'static str,
    have: &'static str,
    need: &'static str,
    saturate: &'static str,
    them: &'static str,
    they: &'static str,
}

const ONE: Words =
    Words { arrive: "arrives", are: "is", have: "has", need: "needs", saturate: "saturates", them: "it", they: "it" };
const SEVERAL: Words = Words {
    arrive: "arrive",
    are: "are",
    have: "have",
    need: "need",
    saturate: "saturate",
    them: "them",
    they: "they",
};

fn is_of_one_type(fleet: &Fleet, bottleneck: &Bottleneck) -> bool {
    let mut types = bottleneck.servers.iter().filter_map(|name| fleet.find_server(name)).map(|r| fleet.server_type(r));
    let first = types.next();
    types.all(|server_type| Some(server_type) == first)
}

/// The one copy that raises the load factor most, and what is not proved of that.
fn copy(stability: &StabilitySection) -> String {
    let Some(edge) = &stability.best_edge else { return no_copy(stability) };
    let is_named = stability.bottleneck.job_types.len() == 1 && !stability.bottleneck.whole_fleet;
    let which = if is_named { "it" } else { &edge.job_type };
    let factor = short(edge.max_load_factor);
    let proved = match (&stability.best_edge_why, edge.is_best) {
        (Some(why), false) => format!(" ({why})"),
        _ => String::new(),
    };
    if stability.stable == Some(true) {
        format!("; adding {which} to {} raises that to {factor}{proved}", edge.server)
    } else {
        format!("; with {which} on {} too, the fleet could bear {factor} x today's load{proved}", edge.server)
    }
}

/// That no copy helps, or that none was found, where the first half of the sentence has not said it.
fn no_copy(stability: &StabilitySection) -> String {
    match &stability.best_edge_why {
        // Of the whole fleet it has been said.
        Some(_) if stability.bottleneck.whole_fleet && stability.no_copy_helps => String::new(),
        Some(why) => format!("; one more copy: {why}"),
        _ => String::new(),
    }
}

/// Whether the file's policy is known to be stable, if it is among those looked at.
fn file_policy(fleet: &Fleet, rows: &[PolicyRow]) -> Option<String> {
    let policy = fleet.settings().policy.unwrap_or(PolicySpec::Jfsq).to_string();
    let row = rows.iter().find(|row| row.policy == policy)?;
    let better = rows.iter().find(|row| row.stable == Some(true))?;
    let verdict = match row.stable {
        Some(true) => return None,
        Some(false) => "is unstable here",
        None => "is not known to be stable here",
    };
    let laws = "for Poisson arrivals and exponential sizes";
    let assumed = if better.why.starts_with(laws) { format!(", {laws}") } else { String::new() };
    Some(format!("the file's policy {policy} {verdict}; {} is stable{assumed}", better.policy))
}

/// Servers that the fleet cannot lose.
fn fragile(stability: &StabilitySection) -> Option<String> {
    let needed: Vec<String> =
        stability.losses.iter().filter(|loss| loss.max_load_factor <= 1.0).map(|loss| loss.server.clone()).collect();
    if stability.stable != Some(true) || needed.is_empty() {
        return None;
    }
    let rest = "the others cannot do all the work that arrives";
    if let [server] = needed.as_slice() {
        return Some(format!("{server} cannot be lost: without it {rest}"));
    }
    let at_least = if stability.losses_not_computed > 0 { "at least " } else { "" };
    let names = listed(&needed, NAMES);
    Some(format!("{at_least}{} servers cannot be lost: without any one of {names} {rest}", needed.len()))
}

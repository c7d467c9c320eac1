//! What to do about it, in plain words.

use shortline_core::Fleet;

use super::figures::{counted, listed, short};
use super::stability::StabilitySection;

/// Names shown in a sentence.
const NAMES: usize = 3;

/// One sentence or two each.
pub(super) fn of(fleet: &Fleet, stability: &StabilitySection) -> Vec<String> {
    saturation(fleet, stability).into_iter().collect()
}

/// What saturates first, and at which load.
fn saturation(fleet: &Fleet, stability: &StabilitySection) -> Option<String> {
    let factor = stability.max_load_factor?;
    let bottleneck = &stability.bottleneck;
    let job_types = listed(&bottleneck.job_types, NAMES);
    let one = bottleneck.job_types.len() == 1;
    if bottleneck.servers.is_empty() {
        let (arrive, them) = if one { ("arrives", "it") } else { ("arrive", "them") };
        return Some(format!(
            "unstable: {job_types} {arrive} and no server holds {them}; add {them} to the `serves` of one"
        ));
    }
    if bottleneck.whole_fleet {
        let edges = if fleet.is_uniform() { ", edges do not" } else { "" };
        let factor = short(if factor > 1.0 { factor } else { 1.0 / factor });
        return Some(if stability.stable == Some(true) {
            format!(
                "all servers together saturate first, at {factor} x today's load: more or faster servers raise that{edges}"
            )
        } else {
            format!("unstable: the fleet needs {factor} times the servers it has; more or faster servers help{edges}")
        });
    }
    let servers = bottleneck.servers.len();
    let (need, are, it_saturates) =
        if one { ("needs", "is", "it saturates") } else { ("need", "are", "they saturate") };
    if stability.stable == Some(true) {
        return Some(format!(
            "{job_types} {are} on {}; {it_saturates} first, at {} x today's load",
            counted(servers, "server"),
            short(factor)
        ));
    }
    let one_type = {
        let mut types =
            bottleneck.servers.iter().filter_map(|name| fleet.find_server(name)).map(|r| fleet.server_type(r));
        let first = types.next();
        types.all(|server_type| Some(server_type) == first)
    };
    let has = if one { "has" } else { "have" };
    Some(if one_type {
        format!("unstable: {job_types} {need} {} servers, {has} {servers}", short(servers as f64 / factor))
    } else {
        let they = if one { "it" } else { "them" };
        let times = short(1.0 / factor);
        format!("unstable: {job_types} {need} {times} times what the {servers} servers that hold {they} can do")
    })
}

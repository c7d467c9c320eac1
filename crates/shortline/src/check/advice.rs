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
        let them = if one { "it" } else { "them" };
        return Some(format!(
            "unstable: {job_types} arrive but no server holds {them}; add {them} to a server's `serves`"
        ));
    }
    if bottleneck.whole_fleet {
        let all = "all servers together";
        return Some(if factor > 1.0 {
            format!(
                "{all} saturate first, at {} x today's load: only more or faster servers raise that, edges do not",
                short(factor)
            )
        } else {
            format!("unstable: the fleet needs {} times the servers it has", short(1.0 / factor))
        });
    }
    let servers = bottleneck.servers.len();
    let (need, are, it_saturates) =
        if one { ("needs", "is", "it saturates") } else { ("need", "are", "they saturate") };
    if factor > 1.0 {
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

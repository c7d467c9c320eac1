//! The fleet as a policy sees it: the same servers and job types at other speeds.
//!
//! A dispatcher knows the speeds that were declared to it. Where they are wrong, it decides on the *seen* fleet, and the jobs
//! are served at the true speeds. Both number the servers by speed class; a policy's choice is a number, so that the
//! declared speeds must keep the order of the classes. `O(servers + edges)`.

use shortline_core::{Fleet, ServerId};

use crate::SimulationError;

/// Whether `seen` differs from `fleet` in speeds only, and not in their order.
pub(crate) fn check(fleet: &Fleet, seen: &Fleet) -> Result<(), SimulationError> {
    match difference(fleet, seen) {
        None => Ok(()),
        Some(what) => Err(SimulationError::SeenFleet { name: seen.name().to_owned(), what }),
    }
}

fn difference(fleet: &Fleet, seen: &Fleet) -> Option<&'static str> {
    if fleet.server_count() != seen.server_count() || fleet.job_type_count() != seen.job_type_count() {
        return Some("how many servers or job types there are");
    }
    let differ = |at: &dyn Fn(&Fleet, ServerId) -> Option<u32>| fleet.servers().any(|r| at(fleet, r) != at(seen, r));
    let whole = |number: usize| u32::try_from(number).ok();
    if differ(&|fleet, r| whole(fleet.server_type(r).index())) || differ(&|fleet, r| whole(fleet.file_index(r))) {
        return Some("the order of the speeds");
    }
    if differ(&|fleet, r| Some(fleet.slots(r))) || differ(&|fleet, r| fleet.buffer(r)) {
        return Some("slots or buffers");
    }
    if fleet.settings() != seen.settings() {
        return Some("its settings");
    }
    let servers_of = |fleet: &Fleet, l: usize| {
        let mut servers = Vec::new();
        fleet.graph().for_each(l, |server| servers.push(server));
        servers
    };
    let same_graph =
        fleet.graph().has_full_rows() && seen.graph().has_full_rows() && fleet.graph().distinct_row_count() == 1;
    let rows_differ = || fleet.job_types().any(|l| servers_of(fleet, l.index()) != servers_of(seen, l.index()));
    (!same_graph && rows_differ()).then_some("which server holds which job type")
}

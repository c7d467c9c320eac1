//! What is probably not meant: the warnings of the fleet file, and what the graph shows.

use shortline_core::Fleet;
use shortline_core::fleet::Fault;
use shortline_core::fleet::settings::{Discipline, Failures, Information, SizeLaw};

use super::figures::counted;
use super::fleet::FleetSection;

/// One line each.
pub(super) fn of(fleet: &Fleet, section: &FleetSection, warnings: &[Fault]) -> Vec<String> {
    let mut problems: Vec<String> = warnings.iter().map(|warning| warning.plain().to_string()).collect();
    if section.parts > 1 {
        problems.push(format!(
            "the graph falls into {} parts without a common server or job type: none can help out another",
            section.parts
        ));
    }
    if section.job_types_on_one_server > 0 && section.servers > 1 {
        let count = section.job_types_on_one_server;
        let (are, they) = if count == 1 { ("is", "it") } else { ("are", "they") };
        problems.push(format!(
            "{} {are} on one server only: {they} cannot be served while that one is down, and no policy has a choice",
            counted(count, "job type")
        ));
    }
    problems.extend(not_in_the_theory(fleet));
    problems
}

/// Sections of the file that stability, bounds and guarantee do not see.
fn not_in_the_theory(fleet: &Fleet) -> Vec<String> {
    let settings = fleet.settings();
    let mut notes = Vec::new();
    if matches!(settings.failures, Some(Failures::Random { .. })) {
        notes.push(
            "[failures]: stability says which capacity it counts; the bounds count servers in full, and hold all the same unless jobs \
             are lost; connectivity takes all servers to be up"
                .to_owned(),
        );
    }
    if settings.information != Information::default() {
        notes.push(
            "[information] is not looked at here: policies are taken to know the counts of all servers at once"
                .to_owned(),
        );
    }
    // With exponential sizes both disciplines make the numbers of jobs the same chain.
    if settings.service.discipline == Discipline::ProcessorSharing && settings.service.law != SizeLaw::Exponential {
        notes.push(
            "[service] discipline = \"ps\" with sizes that are not exponential: the bounds hold all the same; that a policy \
             which looks at queues is stable is known for \"fifo\" only"
                .to_owned(),
        );
    }
    notes
}

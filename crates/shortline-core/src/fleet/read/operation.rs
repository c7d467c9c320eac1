//! `[failures]`, `[information]`, `[timeouts]`, `[emulate]`, `[tls]`: what goes wrong, what is known, how long to wait,
//! whom to trust.

use super::super::document::Node;
use super::super::settings::{Emulate, FailureEvent, Failures, Information, Timeouts, Tls};
use super::collect::{Faults, Read};
use super::names::NameTable;
use super::section::{At, NOT_NEGATIVE, POSITIVE, Section, array, number, value_or, word};

/// `[failures]`: means of random times, or a list of events.
pub(super) fn failures(root: &mut Section<'_, '_>, servers: &NameTable) -> Read<Option<Failures>> {
    let Some(mut section) = root.section("failures") else { return Ok(None) };
    let mean_up_s = section.number("mean_up_s", POSITIVE);
    let mean_down_s = section.number("mean_down_s", POSITIVE);
    let listed = section.array("events");
    let exclusive =
        section.at_most_one_of(&["mean_up_s", "events"]).and(section.at_most_one_of(&["mean_down_s", "events"]));
    let random = section.place_of("mean_up_s").or(section.place_of("mean_down_s")).is_some();
    let result = match listed {
        Err(reported) => Err(reported),
        Ok(Some(listed)) => events(section.faults, listed.value, servers).map(Failures::Events),
        Ok(None) if random => {
            let up = section.required("mean_up_s", mean_up_s);
            let down = section.required("mean_down_s", mean_down_s);
            up.and_then(|up| Ok(Failures::Random { mean_up_s: up.value, mean_down_s: down?.value }))
        }
        Ok(None) => {
            let remedy = "add `mean_up_s` and `mean_down_s`, or `events = [[t_s, \"server\", \"down\"], ...]`";
            Err(section.faults.missing(&section.place, "[failures] says nothing", remedy))
        }
    };
    section.finish();
    exclusive.and(result).map(Some)
}

/// Events in the order of their times; those at the same time stay in the file's order.
fn events(faults: &Faults<'_>, items: &[Node<'_>], servers: &NameTable) -> Read<Vec<FailureEvent>> {
    let read: Vec<Read<FailureEvent>> = items.iter().map(|item| event(faults, item, servers)).collect();
    let mut events = read.into_iter().collect::<Read<Vec<_>>>()?;
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(events)
}

fn event(faults: &Faults<'_>, node: &Node<'_>, servers: &NameTable) -> Read<FailureEvent> {
    let [time, server, change] = array(faults, "events", node)? else {
        let message = "an event is a list of three: [t_s, \"server\", \"up\" or \"down\"]";
        return Err(faults.at(&node.span, message).report());
    };
    let at_s = number(faults, "t_s", time, NOT_NEGATIVE);
    let server = servers.find_node(faults, "server", server);
    let up = word(faults, "change", change, &[("up", true), ("down", false)]);
    Ok(FailureEvent { at_s: at_s?, server: server?, up: up? })
}

/// `[information]`.
pub(super) fn information(root: &mut Section<'_, '_>) -> Read<Information> {
    let default = Information::default();
    let Some(mut section) = root.section("information") else { return Ok(default) };
    let delay_s = section.number("delay_s", NOT_NEGATIVE);
    let gateways = section.integer32("gateways", 1);
    section.finish();
    Ok(Information { delay_s: value_or(delay_s, default.delay_s)?, gateways: value_or(gateways, default.gateways)? })
}

/// `[timeouts]`.
pub(super) fn timeouts(root: &mut Section<'_, '_>) -> Read<Timeouts> {
    let default = Timeouts::default();
    let Some(mut section) = root.section("timeouts") else { return Ok(default) };
    let connect_s = section.number("connect_s", POSITIVE);
    let first_byte_s = section.number("first_byte_s", POSITIVE);
    let idle_s = section.number("idle_s", POSITIVE);
    let header_s = section.number("header_s", POSITIVE);
    section.finish();
    Ok(Timeouts {
        connect_s: value_or(connect_s, default.connect_s)?,
        first_byte_s: value_or(first_byte_s, default.first_byte_s)?,
        idle_s: value_or(idle_s, default.idle_s)?,
        header_s: value_or(header_s, default.header_s)?,
    })
}

/// `[emulate]`.
pub(super) fn emulate(root: &mut Section<'_, '_>) -> Read<Emulate> {
    let default = Emulate::default();
    let Some(mut section) = root.section("emulate") else { return Ok(default) };
    let time_scale = section.number("time_scale", POSITIVE);
    section.finish();
    Ok(Emulate { time_scale: value_or(time_scale, default.time_scale)? })
}

/// `[tls]`.
pub(super) fn tls(root: &mut Section<'_, '_>) -> Read<Tls> {
    let Some(mut section) = root.section("tls") else { return Ok(Tls::default()) };
    let ca_file = section.string("ca_file");
    let certificate = section.string("certificate_file");
    let key = section.string("key_file");
    let verify = section.boolean("verify");
    let identity = match (certificate?, key?) {
        (Some(certificate), Some(key)) => Ok(Some((certificate.value.to_owned(), key.value.to_owned()))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(section.missing("key_file")),
        (None, Some(_)) => Err(section.missing("certificate_file")),
    };
    if let Ok(Some(At { value: false, place })) = &verify {
        let message =
            "servers are not asked to prove who they are: whoever is in between can read and alter everything";
        section.faults.warn(place, message).help("name their authority in `ca_file` instead").report();
    }
    section.finish();
    Ok(Tls {
        ca_file: ca_file?.map(|file| file.value.to_owned()),
        identity: identity?,
        verify: value_or(verify, true)?,
    })
}

//! `[fleet]`: the name, and what holds for all servers unless they say otherwise.

use super::super::ServerParts;
use super::super::document::Span;
use super::super::settings::{LineSettings, Overflow};
use super::collect::{Faults, Read, Reported};
use super::section::{At, Field, POSITIVE, Section, value_or};
use super::servers;
use super::words::{quoted, suggestion};
use crate::policy::{POLICY_NAMES, PolicyNameError, PolicySpec};

/// `[fleet]` as read.
pub(super) struct Defaults<'r> {
    pub(super) name: Read<Option<&'r str>>,
    pub(super) buffer: Field<Option<u32>>,
    pub(super) policy: Field<PolicySpec>,
    pub(super) overflow: Read<Overflow>,
    pub(super) lines: Read<LineSettings>,
    /// Where the lines in front are asked for, if only full servers make anybody wait there.
    asks_for_lines: Option<&'r Span>,
}

impl<'r> Defaults<'r> {
    pub(super) fn read(root: &mut Section<'r, '_>) -> Self {
        let Some(mut section) = root.section("fleet") else {
            let (overflow, lines) = (Ok(Overflow::default()), Ok(LineSettings::default()));
            return Self { name: Ok(None), buffer: Ok(None), policy: Ok(None), overflow, lines, asks_for_lines: None };
        };
        let name = section.string("name").map(|name| name.map(|at| at.value));
        let buffer = servers::buffer(&mut section);
        let policy = policy(&mut section);
        let overflow = section.word("overflow", &[("reject", Overflow::Reject), ("wait", Overflow::Wait)]);
        let size = section.integer32("queue_size", 0);
        let timeout_s = section.number("queue_timeout_s", POSITIVE);
        let hold_s = section.number("hold_s", POSITIVE);
        let overflow = value_or(overflow, Overflow::default());
        warn_of_unused_lines(&section, &overflow, &policy);
        let is_asked = overflow == Ok(Overflow::Wait) && !waits_in_front(&policy) && hold_s == Ok(None);
        let asks_for_lines = section.place_of("overflow").filter(|_| is_asked);
        section.finish();
        let lines = || -> Result<LineSettings, Reported> {
            Ok(LineSettings {
                size: size?.map(|at| at.value),
                timeout_s: timeout_s?.map(|at| at.value),
                hold_s: hold_s?.map(|at| at.value),
            })
        };
        Self { name, buffer, policy, overflow, lines: lines(), asks_for_lines }
    }

    /// Servers that are never full take every job at once.
    pub(super) fn warn_of_empty_lines(&self, faults: &Faults<'_>, servers: &[ServerParts]) {
        if let Some(place) = self.asks_for_lines
            && servers.iter().all(|server| server.buffer.is_none())
        {
            faults
                .warn(
                    place,
                    "nobody waits in line while a server is up: no server has a `buffer`, so none is ever full",
                )
                .help("set `buffer`, the most jobs at one server; or remove `overflow`")
                .report();
        }
    }
}

fn policy(section: &mut Section<'_, '_>) -> Field<PolicySpec> {
    let Some(At { value: written, place }) = section.string("policy")? else { return Ok(None) };
    match written.parse() {
        Ok(value) => Ok(Some(At { value, place })),
        Err(PolicyNameError::Choices { name }) => {
            let message = format!("`policy` cannot be {}", quoted(&name));
            let help =
                "a number of choices is a whole number from 1, \"log\" or \"sqrt-log\": jsq(2), jfsq(log), jsq(2,2)";
            Err(section.faults.at(&place, message).help(help).report())
        }
        Err(PolicyNameError::Missing) => {
            let help = format!("known are {}", POLICY_NAMES.join(", "));
            Err(section.faults.at(&place, "`policy` is empty").help(help).report())
        }
        Err(PolicyNameError::Unknown { name }) => {
            let message = format!("`policy` cannot be {}", quoted(&name));
            Err(section.faults.at(&place, message).help(suggestion(&name, POLICY_NAMES)).report())
        }
    }
}

/// Whether the policy always waits in front.
fn waits_in_front(policy: &Field<PolicySpec>) -> bool {
    matches!(policy, Ok(Some(At { value: PolicySpec::Central, .. })))
}

/// The lines in front exist with `overflow = "wait"` and with the policy that always waits in front.
fn warn_of_unused_lines(section: &Section<'_, '_>, overflow: &Read<Overflow>, policy: &Field<PolicySpec>) {
    if *overflow != Ok(Overflow::Reject) || waits_in_front(policy) {
        return;
    }
    for key in ["queue_size", "queue_timeout_s", "hold_s"] {
        let place: Option<&Span> = section.place_of(key);
        if let Some(place) = place {
            let message =
                format!("`{key}` has no effect but under policy `central`: else nothing waits in front of the servers");
            section.faults.warn(place, message).help("add `overflow = \"wait\"`, or remove it").report();
        }
    }
}

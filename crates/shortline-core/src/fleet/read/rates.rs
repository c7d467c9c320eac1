//! `[[rate]]`: the speed of a server type for one job type, instead of the server type's own.

use std::collections::HashMap;

use super::super::RateOverride;
use super::super::document::Span;
use super::collect::Read;
use super::job_types::JobTypes;
use super::section::{POSITIVE, Section};
use super::server_types::ServerTypes;
use super::words::quoted;

pub(super) fn read(root: &mut Section<'_, '_>, types: &ServerTypes, job_types: &JobTypes) -> Read<Vec<RateOverride>> {
    let mut first_place: HashMap<(usize, usize), Span> = HashMap::new();
    let sections = root.sections("rate").list.into_iter();
    let read: Vec<Read<RateOverride>> =
        sections.map(|section| one(section, types, job_types, &mut first_place)).collect();
    read.into_iter().collect()
}

fn one(
    mut section: Section<'_, '_>,
    types: &ServerTypes,
    job_types: &JobTypes,
    first_place: &mut HashMap<(usize, usize), Span>,
) -> Read<RateOverride> {
    let faults = section.faults;
    let job_type_name = section.string("job_type");
    let job_type = section
        .required("job_type", job_type_name)
        .and_then(|name| job_types.names.find(faults, name.value, &name.place));
    let type_name = section.string("server_type");
    let server_type =
        section.required("server_type", type_name).and_then(|name| types.find(faults, name.value, &name.place));
    let rate = section.number("rate", POSITIVE);
    let rate = section.required("rate", rate);
    let place = section.place.clone();
    section.finish();

    let (job_type, server_type) = (job_type?, server_type?);
    if let Some(first) = first_place.insert((job_type, server_type), place.clone()) {
        let (job, server) = (job_types.names.index.name(job_type), types.names.index.name(server_type));
        let message = format!("two rates of {} on {}", quoted(&job), quoted(&server));
        return Err(faults.at(&place, message).help("keep one of them").also(&first, "the first").report());
    }
    if let Some(rank) = &types.rank_place {
        let message = "a [[rate]] means nothing beside server types that are only ranked";
        return Err(faults.at(&place, message).help("give the server types a `rate`").also(rank, "a rank").report());
    }
    Ok(RateOverride { job_type, server_type, rate: rate?.value })
}

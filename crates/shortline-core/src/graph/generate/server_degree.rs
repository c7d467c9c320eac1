//! Server-degree graphs: every server holds a given number of job types, distinct and uniformly random.
//!
//! Servers choose independently, so a job type's degree is binomial and may be 0 (the report counts such job types;
//! [`biregular`](super::biregular) rules them out). The graph is drawn twice from the same state of the generator,
//! once to count the rows and once to fill them: no second copy of the edges is held.

use super::GenerateError;
use super::error::check_edges;
use super::subset::SubsetSampler;
use crate::graph::Edges;
use crate::random::Generator;

/// `degree` job types on each server.
pub(super) fn generate(degree: u32, servers: u32, job_types: u32, rng: &mut Generator) -> Result<Edges, GenerateError> {
    if degree == 0 || degree > job_types {
        return Err(GenerateError::ServerDegree { degree, job_types });
    }
    if degree == job_types {
        return Ok(Edges::Complete);
    }
    check_edges(f64::from(degree) * f64::from(servers))?;
    let mut sampler = SubsetSampler::new(job_types);
    let mut choices = Vec::with_capacity(degree as usize);
    let mut each_edge = |rng: &mut Generator, visit: &mut dyn FnMut(u32, usize)| {
        for server in 0..servers {
            choices.clear();
            sampler.append(degree, rng, &mut choices);
            choices.iter().for_each(|&job_type| visit(server, job_type as usize));
        }
    };

    // One place more than rows: `next[l + 1]` counts up from the start of row l to its end, the start of row l + 1.
    let mut next = vec![0_usize; job_types as usize + 2];
    each_edge(&mut rng.clone(), &mut |_, job_type| next[job_type + 2] += 1);
    for l in 2..next.len() {
        next[l] += next[l - 1];
    }
    let mut list = vec![0_u32; degree as usize * servers as usize];
    each_edge(rng, &mut |server, job_type| {
        let place = &mut next[job_type + 1];
        list[*place] = server;
        *place += 1;
    });
    next.pop();
    Ok(Edges::Rows { starts: next, servers: list })
}

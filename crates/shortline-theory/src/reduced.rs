//! The fleet as theory sees it: what is exchangeable is merged, and rates are work per second.
//!
//! **Work.** A job of type `l` is `e_l` units of work, and a slot of server type `m` does `v_m` units per second, so
//! that `mu_lr = v_m / e_l`. A fleet has this *product form* when each job type sees the server types it can be on in
//! the same proportions; then theory needs maximum flows only. Where `[[rate]]`s break the proportions, each port has
//! speeds of its own ([`Speeds::PerPort`]) and `e_l` is the size; then it needs linear programs.
//!
//! **Merging.** Job types on the same servers (and, without product form, of the same speeds) become one [`Port`];
//! servers of one type that hold the same job types become one [`Group`]. Both keep every quantity computed here: an
//! optimum can be averaged over exchangeable servers. A complete graph of a million servers of three types and a
//! million job types has one port and three groups. `O(edges of distinct rows + servers + job types)`.

use std::collections::BTreeMap;
use std::ops::Range;

use shortline_core::fleet::{Speed, speeds_equal};
use shortline_core::graph::Row;
use shortline_core::{Fleet, JobTypeId, ServerId, ServerTypeId};

use crate::TheoryError;
use crate::max_flow::{Bipartite, index};

/// Job types that are alike but for how often they arrive and how much work they are.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// `sum lambda_l e_l`, work per second.
    pub(crate) work: f64,
    /// Largest `lambda_l e_l` of one job type.
    pub(crate) most_work: f64,
    /// Least work of one job, `min e_l`.
    pub(crate) least_job: f64,
}

/// Servers of one type that hold the same job types.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) server_type: ServerTypeId,
    /// How many servers.
    pub(crate) servers: usize,
    /// Slots of all of them.
    pub(crate) slots: f64,
}

/// Work per second of one slot.
#[derive(Clone, Debug)]
pub(crate) enum Speeds {
    /// By server type, `v_m`.
    Product(Vec<f64>),
    /// By port, then by server type.
    PerPort(Vec<Vec<f64>>),
}

/// A fleet after merging.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    pub(crate) ports: Vec<Port>,
    pub(crate) groups: Vec<Group>,
    pub(crate) graph: Bipartite,
    pub(crate) speeds: Speeds,
    /// Job type -> port.
    pub(crate) port_of: Vec<u32>,
    /// Server -> group, `None` for a server without a job type.
    pub(crate) group_of: Vec<Option<u32>>,
    /// Job type -> (arrival rate, work of one job).
    pub(crate) job_types: Vec<(f64, f64)>,
}

impl Reduced {
    /// # Errors
    /// If the fleet ranks its server types, lacks an arrival rate, has none above 0, or has no edge.
    pub(crate) fn new(fleet: &Fleet) -> Result<Self, TheoryError> {
        let arrivals = arrival_rates(fleet)?;
        let group_of = groups(fleet);
        let groups = describe_groups(fleet, &group_of);
        if groups.is_empty() {
            return Err(TheoryError::NoEdges);
        }
        let rows = RowsOfGroups::new(fleet, &group_of, groups.len());

        let product = product_form(fleet, &rows, &groups);
        let (port_of, first_of) = ports(fleet, product.is_some());
        let (work_of_job, speeds) = match product {
            Some((work, speeds)) => (work, Speeds::Product(speeds)),
            None => {
                let sizes = fleet.job_types().map(|l| fleet.size(l)).collect();
                (sizes, Speeds::PerPort(first_of.iter().map(|&l| rates(fleet, l)).collect()))
            }
        };
        let mut ports = vec![Port { work: 0.0, most_work: 0.0, least_job: f64::INFINITY }; first_of.len()];
        for (l, &port) in port_of.iter().enumerate() {
            let port = &mut ports[port as usize];
            port.work += arrivals[l] * work_of_job[l];
            port.most_work = port.most_work.max(arrivals[l] * work_of_job[l]);
            port.least_job = port.least_job.min(work_of_job[l]);
        }
        let mut starts = vec![0];
        let mut heads = Vec::new();
        for l in &first_of {
            heads.extend_from_slice(rows.of(fleet, *l));
            starts.push(index(heads.len()));
        }
        let graph = Bipartite::new(starts, heads, groups.len());
        let job_types = arrivals.into_iter().zip(work_of_job).collect();
        Ok(Self { ports, groups, graph, speeds, port_of, group_of, job_types })
    }

    /// The same fleet with one more edge, `job_type` on `server`. `None` if the edge is there already. Where
    /// the server's speed for the job type is not the one that product form implies, the result is without product form.
    pub(crate) fn with_edge(&self, fleet: &Fleet, job_type: JobTypeId, server: ServerId) -> Option<Self> {
        let mut changed = self.clone();
        let (old_port, old_group) = (self.port_of[job_type.index()] as usize, self.group_of[server.index()]);
        if old_group.is_some_and(|g| self.graph.row(old_port).contains(&g)) {
            return None;
        }
        // The server leaves its group, unless it is alone there.
        let alone = old_group.filter(|&g| self.groups[g as usize].servers == 1);
        let group = alone.unwrap_or(index(self.groups.len()));
        if alone.is_none() {
            let slots = f64::from(fleet.slots(server));
            changed.groups.push(Group { server_type: fleet.server_type(server), servers: 1, slots });
            changed.group_of[server.index()] = Some(group);
            if let Some(g) = old_group {
                changed.groups[g as usize].servers -= 1;
                changed.groups[g as usize].slots -= slots;
            }
        }
        // The job type leaves its port, unless it is alone there.
        let is_shared = self.port_of.iter().filter(|&&p| p as usize == old_port).count() > 1;
        let port = if is_shared { self.ports.len() } else { old_port };
        if is_shared {
            let (rate, work_of_job) = self.job_types[job_type.index()];
            let work = rate * work_of_job;
            changed.ports[old_port].work = (self.ports[old_port].work - work).max(0.0);
            changed.ports.push(Port { work, most_work: work, least_job: work_of_job });
            changed.port_of[job_type.index()] = index(port);
            if let Speeds::PerPort(speeds) = &mut changed.speeds {
                speeds.push(speeds[old_port].clone());
            }
        }
        let mut starts = vec![0];
        let mut heads = Vec::with_capacity(self.graph.edge_count() + 1);
        for p in 0..changed.ports.len() {
            let row = self.graph.row(if p == self.ports.len() { old_port } else { p });
            heads.extend_from_slice(row);
            let holds_old = old_group.is_some_and(|g| row.contains(&g));
            if p == port || (alone.is_none() && holds_old) {
                heads.push(group);
            }
            starts.push(index(heads.len()));
        }
        changed.graph = Bipartite::new(starts, heads, changed.groups.len());
        let server_type = fleet.server_type(server).index();
        let speed = fleet.service_rate(job_type, server) * self.job_types[job_type.index()].1;
        if let Speeds::Product(speeds) = &self.speeds
            && !speeds_equal(speeds[server_type], speed)
        {
            // The job type is on no other server of this type, or that would have this speed.
            let mut by_port = vec![speeds.clone(); changed.ports.len()];
            by_port[port][server_type] = speed;
            changed.speeds = Speeds::PerPort(by_port);
        }
        Some(changed)
    }

    /// `Lambda`, jobs per second.
    pub(crate) fn arrivals(&self) -> f64 {
        self.job_types.iter().map(|&(rate, _)| rate).sum()
    }

    /// Whether jobs arrive that no server can take.
    pub(crate) fn has_orphans(&self) -> bool {
        (0..self.ports.len()).any(|p| self.is_orphan(p))
    }

    /// Whether jobs arrive at this port that no server can take.
    pub(crate) fn is_orphan(&self, port: usize) -> bool {
        self.ports[port].work > 0.0 && self.graph.row(port).is_empty()
    }

    /// Work per second of one slot of `group` for `port`.
    pub(crate) fn speed(&self, port: usize, group: usize) -> f64 {
        let server_type = self.groups[group].server_type.index();
        match &self.speeds {
            Speeds::Product(speeds) => speeds[server_type],
            Speeds::PerPort(speeds) => speeds[port][server_type],
        }
    }

    /// Work per second of all slots of `group`, in a fleet of product form.
    pub(crate) fn capacity(&self, group: usize) -> f64 {
        self.groups[group].slots * self.speed(0, group)
    }

    /// All slots of a fleet of product form, fastest first, as (work per second of a slot, slots).
    pub(crate) fn slots_by_speed(&self) -> Vec<(f64, f64)> {
        merged((0..self.groups.len()).map(|g| (self.speed(0, g), self.groups[g].slots)).collect())
    }

    /// All slots with the largest `mu_lr` (1/s) over the job types they hold, fastest first, as (rate, slots).
    pub(crate) fn slots_fastest_first(&self) -> Vec<(f64, f64)> {
        let best = |g: usize| {
            let ports = self.graph.column(g).iter().map(|&(p, _)| p as usize);
            ports.map(|p| self.speed(p, g) / self.ports[p].least_job).fold(0.0, f64::max)
        };
        merged((0..self.groups.len()).map(|g| (best(g), self.groups[g].slots)).collect())
    }
}

/// (speed, slots) sorted by speed, the fastest first, equal speeds as one.
fn merged(mut classes: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    classes.sort_by(|a, b| b.0.total_cmp(&a.0));
    classes.dedup_by(|next, kept| {
        let same = speeds_equal(next.0, kept.0);
        kept.1 += if same { next.1 } else { 0.0 };
        same
    });
    classes
}

/// Arrival rates by job type.
///
/// # Errors
/// If speeds are ranks only, a rate is missing, or all are 0.
pub(crate) fn arrival_rates(fleet: &Fleet) -> Result<Vec<f64>, TheoryError> {
    require_rates(fleet)?;
    let rates: Vec<Option<f64>> = fleet.job_types().map(|l| fleet.arrival_rate(l)).collect();
    if let Some(first) = rates.iter().position(Option::is_none) {
        let job_type = fleet.job_type_name(JobTypeId::new(first));
        return Err(TheoryError::MissingRates { job_type, count: rates.iter().filter(|r| r.is_none()).count() });
    }
    let rates: Vec<f64> = rates.into_iter().flatten().collect();
    if rates.iter().all(|&rate| rate <= 0.0) { Err(TheoryError::NoArrivals) } else { Ok(rates) }
}

/// Refuses a fleet that only ranks its server types.
pub(crate) fn require_rates(fleet: &Fleet) -> Result<(), TheoryError> {
    if fleet.has_rates() {
        return Ok(());
    }
    let server_type = fleet.server_type_parts(ServerTypeId::new(0)).name.clone();
    Err(TheoryError::RanksOnly { server_type })
}

/// Job types with the servers of their row in common: one job type for each distinct row.
fn distinct_rows(fleet: &Fleet) -> impl Iterator<Item = usize> + '_ {
    let mut seen = vec![false; fleet.graph().distinct_row_count()];
    (0..fleet.job_type_count()).filter(move |&l| !std::mem::replace(&mut seen[fleet.graph().row_number(l)], true))
}

/// The group of each server: the coarsest partition that respects server types and every row, found by refining the
/// server types row by row. Groups are numbered by their first server.
fn groups(fleet: &Fleet) -> Vec<Option<u32>> {
    let mut class: Vec<u32> = fleet.servers().map(|r| index(fleet.server_type(r).index())).collect();
    let mut size: Vec<u32> = fleet.server_types().map(|m| index(fleet.servers_of_type(m).len())).collect();
    let mut hits: Vec<u32> = vec![0; size.len()];
    let mut inside_of: Vec<u32> = vec![0; size.len()];
    let mut touched: Vec<u32> = Vec::new();
    let mut held = vec![false; fleet.server_count()];
    for l in distinct_rows(fleet) {
        if matches!(fleet.graph().row(l), Row::All) {
            held.fill(true);
            continue;
        }
        fleet.graph().for_each(l, |r| {
            held[r.index()] = true;
            let c = class[r.index()];
            if hits[c as usize] == 0 {
                touched.push(c);
            }
            hits[c as usize] += 1;
        });
        for c in touched.drain(..) {
            let inside = std::mem::take(&mut hits[c as usize]);
            inside_of[c as usize] = if inside == size[c as usize] { c } else { index(size.len()) };
            if inside < size[c as usize] {
                size[c as usize] -= inside;
                size.push(inside);
                hits.push(0);
                inside_of.push(0);
            }
        }
        fleet.graph().for_each(l, |r| class[r.index()] = inside_of[class[r.index()] as usize]);
    }
    let mut numbers: Vec<Option<u32>> = vec![None; size.len()];
    let mut next = 0..;
    let mut number = |c: u32| *numbers[c as usize].get_or_insert_with(|| next.next().expect("numbers do not run out"));
    class.iter().zip(held).map(|(&c, held)| held.then(|| number(c))).collect()
}

fn describe_groups(fleet: &Fleet, group_of: &[Option<u32>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (server, group) in fleet.servers().zip(group_of) {
        let Some(group) = group.map(|g| g as usize) else { continue };
        if group == groups.len() {
            groups.push(Group { server_type: fleet.server_type(server), servers: 0, slots: 0.0 });
        }
        groups[group].servers += 1;
        groups[group].slots += f64::from(fleet.slots(server));
    }
    groups
}

/// The groups of each distinct row.
struct RowsOfGroups {
    ranges: Vec<Range<usize>>,
    groups: Vec<u32>,
}

impl RowsOfGroups {
    fn new(fleet: &Fleet, group_of: &[Option<u32>], group_count: usize) -> Self {
        let mut rows = Self { ranges: vec![0..0; fleet.graph().distinct_row_count()], groups: Vec::new() };
        let mut last_row_with = vec![None; group_count];
        for l in distinct_rows(fleet) {
            let (row, start) = (fleet.graph().row_number(l), rows.groups.len());
            if matches!(fleet.graph().row(l), Row::All) {
                rows.groups.extend(0..index(group_count));
            } else {
                fleet.graph().for_each(l, |r| {
                    let group = group_of[r.index()].expect("a server in a row has a group");
                    if last_row_with[group as usize].replace(row) != Some(row) {
                        rows.groups.push(group);
                    }
                });
            }
            rows.ranges[row] = start..rows.groups.len();
        }
        rows
    }

    /// The groups that hold job type `l`.
    fn of(&self, fleet: &Fleet, l: usize) -> &[u32] {
        &self.groups[self.ranges[fleet.graph().row_number(l)].clone()]
    }
}

fn rates(fleet: &Fleet, job_type: usize) -> Vec<f64> {
    fleet.server_types().map(|m| fleet.rate(JobTypeId::new(job_type), m)).collect()
}

/// Work of a job of each type, and work per second of a slot of each server type, if the fleet has product form with
/// the server types' own rates (or, where the fleet is uniform, with the rates that all job types see).
fn product_form(fleet: &Fleet, rows: &RowsOfGroups, groups: &[Group]) -> Option<(Vec<f64>, Vec<f64>)> {
    let basis = if fleet.is_uniform() { rates(fleet, 0) } else { own_rates(fleet) };
    let work = |l: JobTypeId| {
        let ratio = |m: ServerTypeId| fleet.rate(l, m) / basis[m.index()];
        let mut ratios = rows.of(fleet, l.index()).iter().map(|&g| ratio(groups[g as usize].server_type));
        let first = ratios.next().unwrap_or(1.0);
        ratios.all(|other| speeds_equal(first, other)).then(|| fleet.size(l) / first)
    };
    let work: Option<Vec<f64>> = fleet.job_types().map(work).collect();
    Some((work?, basis))
}

fn own_rates(fleet: &Fleet) -> Vec<f64> {
    let rate = |m| match fleet.server_type_parts(m).speed {
        Speed::Rate(rate) => rate,
        Speed::Rank(rank) => 1.0 / f64::from(rank),
    };
    fleet.server_types().map(rate).collect()
}

/// The port of each job type, and the first job type of each port.
fn ports(fleet: &Fleet, product_form: bool) -> (Vec<u32>, Vec<usize>) {
    let mut known: BTreeMap<(usize, Vec<u64>), Option<u32>> = BTreeMap::new();
    let mut by_row: Vec<Option<u32>> = vec![None; fleet.graph().distinct_row_count()];
    let mut first_of = Vec::new();
    let port = |l: usize| {
        let row = fleet.graph().row_number(l);
        let known = if product_form {
            &mut by_row[row]
        } else {
            let speeds = rates(fleet, l).into_iter().map(f64::to_bits).collect();
            known.entry((row, speeds)).or_insert(None)
        };
        *known.get_or_insert_with(|| {
            first_of.push(l);
            index(first_of.len() - 1)
        })
    };
    let port_of = (0..fleet.job_type_count()).map(port).collect();
    (port_of, first_of)
}

#[cfg(test)]
mod tests {
    use shortline_core::fleet::{
        ArrivalRates, FleetParts, JobTypeParts, Names, RateOverride, ServerParts, ServerTypeParts, Settings,
    };
    use shortline_core::graph::Edges;

    use super::*;

    /// Six servers, the first four of rate 1, the others of rate 2; four job types of rate 1.
    fn parts(edges: Edges, rates: Vec<RateOverride>) -> Reduced {
        let names = |base: &str, count| Names { base: base.into(), count: Some(count) };
        let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
        let servers = |name: &str, count, server_type| {
            let names = names(name, count);
            ServerParts { names, server_type, buffer: None, addresses: vec![] }
        };
        let job_types = JobTypeParts { names: names("j", 4), arrivals: ArrivalRates::Each(1.0), size: 1.0 };
        let fleet = Fleet::new(FleetParts {
            name: String::new(),
            server_types: vec![server_type("slow", 1.0), server_type("fast", 2.0)],
            servers: vec![servers("a", 4, 0), servers("b", 2, 1)],
            job_types: vec![job_types],
            rates,
            edges,
            settings: Settings::default(),
        });
        Reduced::new(&fleet.expect("the fleet is right")).expect("the fleet has rates and edges")
    }

    fn shape(reduced: &Reduced) -> (usize, usize, usize) {
        (reduced.ports.len(), reduced.groups.len(), reduced.graph.edge_count())
    }

    #[test]
    fn a_complete_graph_is_one_port_and_a_group_per_server_type() {
        assert_eq!(shape(&parts(Edges::Complete, vec![])), (1, 2, 2));
    }

    #[test]
    fn servers_merge_when_their_type_and_all_their_job_types_agree() {
        let rows = Edges::from_rows([vec![0, 1, 4], vec![0, 1, 2], vec![0, 1, 4], vec![5]]);
        let reduced = parts(rows, vec![]);
        // Ports {0, 2}, {1}, {3}; groups {a-0, a-1}, {a-2}, {b-0}, {b-1}; a-3 holds nothing.
        assert_eq!(shape(&reduced), (3, 4, 5));
        assert_eq!(reduced.port_of, [0, 1, 0, 2]);
        let mut sizes: Vec<usize> = reduced.groups.iter().map(|group| group.servers).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 1, 2]);
        assert_eq!(reduced.group_of.iter().filter(|group| group.is_none()).count(), 1);
    }

    #[test]
    fn without_product_form_job_types_of_different_speed_stay_apart() {
        let reversed = vec![
            RateOverride { job_type: 0, server_type: 0, rate: 4.0 },
            RateOverride { job_type: 2, server_type: 0, rate: 4.0 },
        ];
        let reduced = parts(Edges::Complete, reversed);
        assert!(matches!(reduced.speeds, Speeds::PerPort(_)));
        assert_eq!(reduced.port_of, [0, 1, 0, 1]);
    }
}

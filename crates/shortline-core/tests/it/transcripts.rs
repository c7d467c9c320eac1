//! Decisions as transcripts a reader can follow: state, command, decision and why, a row each.
//!
//! Every outcome was reasoned from the definition of the policy and written by hand. The first lines of a transcript
//! describe the fleet:
//!
//! ```text
//! policy  jfsq
//! types   fast 10, slow 1           name, rate; "x2" = two slots
//! servers f fast, s slow/3          name, type; "/3" = holds at most 3 jobs
//! serves  M: f s; N: s              job type: its servers
//! rate    N slow 20                 for N, slow servers work at 20
//! lines   2                         overflow = "wait", at most 2 jobs per line ("lines -": unbounded)
//! ```
//!
//! and then each row stands for one step:
//!
//! * *state*: jobs at each server in the order of `servers`, `!` = down; `M:2` = two jobs of M wait in line;
//! * *command*: `arrive M` (jobs are numbered #1, #2, ... as they arrive; `arrive M x3` = three in a row), `done f` (a
//!   job leaves f), `cancel #4`, `down f`, `up f`;
//! * *decision*: a server, `waits`, `no room`, `line full`, `no server up`; `a | b` = each of them happens, nothing
//!   else, and the transcript goes on with the first. Of `done`, `down`, `up`: the waiting jobs that start (`#4 at f`)
//!   or `-`. Of `cancel`: `gone` or `not waiting`.
//!
//! Each decision is drawn with 200 seeds: a row with one outcome claims that it is forced. A choice among three
//! of equal probability goes unseen with probability below 1e-34; the seeds are fixed.

use std::collections::BTreeSet;

use rand::SeedableRng;
use shortline_core::policy::{Policy, PolicyVisitor, with_policy};
use shortline_core::random::Generator;
use shortline_core::{Blocked, Decision, Dispatcher, Fleet, ServerId, Started, Ticket};

use crate::fleets::{Draft, job_type, server};

macro_rules! transcripts {
    ($($name:ident: $file:literal)*) => {$(
        #[test]
        fn $name() {
            follow($file, include_str!(concat!("transcripts/", $file, ".txt")));
        }
    )*};
}

transcripts! {
    random_looks_at_no_queue: "random"
    jsq_joins_the_shortest_queue: "jsq"
    jfsq_breaks_ties_by_speed: "jfsq"
    jiq_joins_an_idle_server_else_a_random_one: "jiq"
    jfiq_joins_the_fastest_idle_server_else_a_random_one: "jfiq"
    jsq_of_two_joins_the_shorter_of_the_sample: "jsq-2"
    jfsq_of_two_joins_the_faster_of_the_shortest_sampled: "jfsq-2"
    jsq_of_one_fast_and_one_other_samples_from_both: "jsq-1-1"
    sed_counts_the_delay_not_the_jobs: "sed"
    nq_takes_any_idle_server_before_it_queues: "nq"
    central_keeps_all_queues_in_front: "central"
    servers_with_several_slots_compare_jobs_per_slot: "slots"
    a_server_with_a_free_slot_is_idle: "slots-jiq"
    a_free_slot_is_no_slower_for_the_jobs_beside_it: "slots-sed"
    a_sample_of_all_servers_may_still_find_a_full_one: "slots-jsq-3"
    speeds_are_those_for_the_job_type: "pair-rates"
    delays_are_those_for_the_job_type: "pair-rates-sed"
    the_fastest_idle_server_is_the_fastest_for_the_job_type: "pair-rates-jfiq"
    lines_are_served_in_the_order_of_arrival: "lines"
    servers_that_are_down_take_no_jobs: "down"
    a_job_whose_servers_are_all_down_is_refused_for_that: "down-reject"
    servers_that_are_down_are_not_sampled: "down-sampled"
    a_job_type_that_no_server_holds_has_no_server_up: "unheld"
    a_random_choice_that_is_full_waits_for_the_next_place: "random-lines"
}

/// Reads the fleet, then follows the rows.
fn follow(file: &str, text: &str) {
    let (head, table) = text.split_once("\n\n").expect("an empty line ends the description of the fleet");
    let mut policy = None;
    let mut draft = Draft::default();
    for line in head.lines().filter(|line| !line.starts_with('#')) {
        let (key, rest) = line.split_once(' ').expect("a description is a word and what it says");
        match key {
            "policy" => policy = Some(rest.trim().parse().expect("the policy is known")),
            _ => draft = describe(draft, key, rest.trim()),
        }
    }
    let fleet = draft.build();
    let order: Vec<ServerId> = draft.servers.iter().map(|s| server(&fleet, &s.name)).collect();
    let first_row = head.lines().count() + 2;
    let rows = table.lines().zip(first_row..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let rows: Vec<Row<'_>> = rows.map(|(line, number)| Row::new(file, line, number)).collect();
    assert!(!rows.is_empty(), "{file}.txt has no rows");
    let policy = policy.expect("the description names the policy");
    with_policy(policy, &fleet.clone(), Follow { fleet, order, rows }).expect("the policy fits the fleet");
}

fn describe(draft: Draft, key: &str, rest: &str) -> Draft {
    let position = |names: &[&str], name: &str| {
        names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("`{key} {rest}`: `{name}` was not declared"))
    };
    match key {
        "types" => rest.split(',').fold(draft, |draft, item| {
            let words: Vec<&str> = item.split_whitespace().collect();
            let slots = words.get(2).map_or(1, |slots| slots.trim_start_matches('x').parse().unwrap());
            draft.server_type(words[0], words[1].parse().unwrap(), slots)
        }),
        "servers" => rest.split(',').fold(draft, |draft, item| {
            let (name, of) = item.trim().split_once(' ').expect("a server has a name and a type");
            let (of, buffer) = of.split_once('/').map_or((of, None), |(of, b)| (of, Some(b.parse().unwrap())));
            let types: Vec<&str> = draft.types.iter().map(|t| t.name.as_str()).collect();
            let server_type = position(&types, of);
            draft.server(name, server_type, buffer)
        }),
        "serves" => rest.split(';').fold(draft, |draft, item| {
            let (name, holders) = item.split_once(':').expect("a job type has a name and servers");
            let servers: Vec<&str> = draft.servers.iter().map(|s| s.name.as_str()).collect();
            let row: Vec<u32> = holders.split_whitespace().map(|r| position(&servers, r) as u32).collect();
            draft.job_type(name.trim(), row)
        }),
        "rate" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let job_types: Vec<&str> = draft.job_types.iter().map(|j| j.name.as_str()).collect();
            let types: Vec<&str> = draft.types.iter().map(|t| t.name.as_str()).collect();
            let (j, m) = (position(&job_types, words[0]), position(&types, words[1]));
            draft.rate(j, m, words[2].parse().unwrap())
        }
        "lines" => draft.wait(rest.parse().ok()),
        _ => panic!("`{key}` does not describe a fleet"),
    }
}

/// One row of a transcript.
struct Row<'a> {
    at: String,
    state: Vec<&'a str>,
    command: Vec<&'a str>,
    decisions: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn new(file: &str, line: &'a str, number: usize) -> Self {
        let at = format!("transcripts/{file}.txt:{number}: {line}");
        let (rule, why) = line.split_once(';').unwrap_or_else(|| panic!("{at}\na row ends with `; why`"));
        assert!(!why.trim().is_empty(), "{at}\nsay why");
        let (state, rest) = rule.split_once('|').unwrap_or_else(|| panic!("{at}\na row starts with `state |`"));
        let (command, decision) = rest.split_once("->").unwrap_or_else(|| panic!("{at}\na command has `-> outcome`"));
        let command = command.split_whitespace().collect();
        Self {
            at,
            state: state.split_whitespace().collect(),
            command,
            decisions: decision.split('|').map(str::trim).collect(),
        }
    }
}

struct Follow<'a> {
    fleet: std::sync::Arc<Fleet>,
    order: Vec<ServerId>,
    rows: Vec<Row<'a>>,
}

impl PolicyVisitor for Follow<'_> {
    type Output = ();

    fn visit<P: Policy>(self, policy: P) {
        let mut now = Moment {
            order: self.order,
            dispatcher: Dispatcher::new(std::sync::Arc::clone(&self.fleet), policy),
            fleet: self.fleet,
            arrived: 0,
            tickets: Vec::new(),
        };
        for row in &self.rows {
            assert_eq!(now.state(), row.state, "{}\nleft: the state as it is", row.at);
            let times = row.command.get(2).map_or(1, |times| times.trim_start_matches('x').parse().unwrap());
            for _ in 0..times {
                now = now.step(row);
            }
        }
    }
}

/// Where a transcript stands.
#[derive(Clone)]
struct Moment<P> {
    fleet: std::sync::Arc<Fleet>,
    order: Vec<ServerId>,
    /// A waiting job is kept by its number.
    dispatcher: Dispatcher<P, usize>,
    arrived: usize,
    /// Ticket of each job that waited.
    tickets: Vec<(usize, Ticket)>,
}

impl<P: Policy> Moment<P> {
    fn state(&self) -> Vec<String> {
        let state = self.dispatcher.state();
        let server = |&r: &ServerId| format!("{}{}", state.jobs(r), if state.is_up(r) { "" } else { "!" });
        let line = |l| match self.dispatcher.waiting(l) {
            0 => None,
            n => Some(format!("{}:{n}", self.fleet.job_type_name(l))),
        };
        self.order.iter().map(server).chain(self.fleet.job_types().filter_map(line)).collect()
    }

    /// Draws the row's decision with many seeds; goes on with the first one named.
    fn step(self, row: &Row<'_>) -> Self {
        let mut seen = BTreeSet::new();
        let mut next = None;
        for seed in 0..200 {
            let mut moment = self.clone();
            let outcome = moment.run(row, &mut Generator::seed_from_u64(seed));
            if outcome == row.decisions[0] && next.is_none() {
                next = Some(moment);
            }
            seen.insert(outcome);
        }
        let claimed: BTreeSet<String> = row.decisions.iter().map(|&d| d.to_owned()).collect();
        assert_eq!(seen, claimed, "{}\nleft: what happens; right: what the transcript claims", row.at);
        next.expect("the first outcome was seen")
    }

    fn run(&mut self, row: &Row<'_>, rng: &mut Generator) -> String {
        let server = |name: &str| server(&self.fleet, name);
        match row.command[..] {
            ["arrive", name] | ["arrive", name, _] => {
                self.arrived += 1;
                let number = self.arrived;
                match self.dispatcher.route(job_type(&self.fleet, name), || number, rng) {
                    Decision::Joined(r) => self.fleet.server_name(r),
                    Decision::Waiting(ticket) => {
                        self.tickets.push((number, ticket));
                        "waits".into()
                    }
                    Decision::Blocked(Blocked::NoRoom) => "no room".into(),
                    Decision::Blocked(Blocked::LineFull) => "line full".into(),
                    Decision::Blocked(Blocked::NoServerUp) => "no server up".into(),
                }
            }
            ["done", name] => started(&self.fleet, self.dispatcher.complete(server(name))),
            ["done", name, _] => started(&self.fleet, self.dispatcher.complete(server(name))),
            ["down", name] => started(&self.fleet, self.dispatcher.set_up(server(name), false)),
            ["up", name] => started(&self.fleet, self.dispatcher.set_up(server(name), true)),
            ["cancel", job] => {
                let number: usize = job.trim_start_matches('#').parse().unwrap();
                let ticket = self.tickets.iter().find(|(n, _)| *n == number).expect("only a job that waited cancels").1;
                match self.dispatcher.cancel(ticket) {
                    Some(kept) => {
                        assert_eq!(kept, number, "{}\nthe ticket belongs to another job", row.at);
                        "gone".into()
                    }
                    None => "not waiting".into(),
                }
            }
            _ => panic!("{}\nno such command", row.at),
        }
    }
}

fn started(fleet: &Fleet, jobs: impl IntoIterator<Item = Started<usize>>) -> String {
    let jobs: Vec<String> =
        jobs.into_iter().map(|s| format!("#{} at {}", s.job, fleet.server_name(s.server))).collect();
    if jobs.is_empty() { "-".into() } else { jobs.join(", ") }
}

//! Which server holds which job type: from `serves`, from a generator, from a CSV file.

use std::ops::Range;

use proptest::prelude::*;
use shortline_core::fleet::{Source, read, read_parts};
use shortline_core::graph::{Edges, GraphSpec};

use super::{SMALL, files, parse, parts, warnings};

/// A fleet of `servers` and `job_types` with these lines in each place.
fn fleet(servers: &str, job_types: &str, graph: &str) -> String {
    format!("[[server_type]]\nname = \"t\"\nrate = 1\n{servers}\n{job_types}\n{graph}\n")
}

fn server(name: &str, rest: &str) -> String {
    format!("[[server]]\nname = \"{name}\"\ntype = \"t\"\n{rest}\n")
}

fn job_type(name: &str, rest: &str) -> String {
    format!("[[job_type]]\nname = \"{name}\"\nrate = 1\n{rest}\n")
}

fn rows(edges: &Edges, job_types: Range<usize>) -> Vec<Vec<u32>> {
    job_types.map(|l| edges.row(l).expect("the graph is not complete").to_vec()).collect()
}

#[test]
fn serves_lists_are_turned_around() {
    assert_eq!(rows(&parts(SMALL).fleet.edges, 0..2), [vec![0, 1, 2], vec![0]]);
}

#[test]
fn a_fleet_of_stars_stores_no_edges() {
    let text = SMALL.replace("[\"M1\"]", "[\"*\"]");
    assert_eq!(parts(&text).fleet.edges, Edges::Complete);
}

#[test]
fn more_edges_than_fit_are_refused_before_they_are_made() {
    let servers = server("s", "count = 1000000\nserves = [\"*\"]") + &server("odd", "serves = [\"m-0\"]");
    let text = fleet(&servers, &job_type("m", "count = 1000000"), "");
    let faults = super::faults(&text);
    assert!(
        faults.starts_with("fleet.toml:4:1: the `serves` lists describe 1000000000001 edges; at most 2^31"),
        "{faults}"
    );
}

#[test]
fn gaps_in_the_graph_are_warnings() {
    let text = fleet(
        &(server("a", "serves = [\"x\"]") + &server("b", "serves = []")),
        &(job_type("x", "") + &job_type("y", "") + &job_type("z", "count = 20")),
        "",
    );
    assert_eq!(
        warnings(&text),
        "fleet.toml:9:8: warning: 1 server without a job type: `b`; no job ever goes there\n\
         fleet.toml:18:8: warning: 21 job types on no server, `y` first; such jobs are refused\n"
    );
}

#[test]
fn a_job_type_on_no_server_waits_where_jobs_wait() {
    let text = fleet(&server("a", "serves = [\"x\"]"), &(job_type("x", "") + &job_type("y", "")), "");
    let warnings = warnings(&format!("[fleet]\noverflow = \"wait\"\n{text}"));
    assert!(warnings.contains("`y`; such jobs wait in line until `queue_timeout_s`"), "{warnings}");
}

#[test]
fn lines_in_front_of_servers_that_are_never_full_are_a_warning() {
    let text = |fleet_keys: &str, of_b: &str| {
        let servers = server("a", "serves = [\"x\"]") + &server("b", &format!("serves = [\"x\"]\n{of_b}"));
        format!("[fleet]\noverflow = \"wait\"\n{fleet_keys}\n{}", fleet(&servers, &job_type("x", ""), ""))
    };
    assert_eq!(
        warnings(&text("", "")),
        "fleet.toml:2:1: warning: nobody waits in line while a server is up: no server has a `buffer`, so none is ever \
         full; set `buffer`, the most jobs at one server; or remove `overflow`\n"
    );
    for (fleet_keys, of_b) in [("buffer = 4", ""), ("", "buffer = 4"), ("hold_s = 5", ""), ("policy = \"central\"", "")]
    {
        assert_eq!(warnings(&text(fleet_keys, of_b)), "", "{fleet_keys} {of_b}");
    }
}

#[test]
fn every_kind_of_graph_makes_a_fleet() {
    let servers = server("s", "count = 40");
    let job_types = job_type("m", "count = 60").replace("rate = 1", "total_rate = 20");
    for (kind, spec) in [
        ("kind = \"complete\"", "Complete"),
        ("kind = \"port-degree\"\ndegree = 4\nseed = 7", "PortDegree { degree: 4, seed: 7 }"),
        ("kind = \"server-degree\"\ndegree = 6", "ServerDegree { degree: 6, biregular: false, seed: 0 }"),
        (
            "kind = \"server-degree\"\ndegree = 6\nbiregular = true",
            "ServerDegree { degree: 6, biregular: true, seed: 0 }",
        ),
        ("kind = \"bernoulli\"\nprobability = 0.25", "Bernoulli { edges: Each(0.25), seed: 0 }"),
        ("kind = \"bernoulli\"\ndegree = 12", "Bernoulli { edges: MeanDegree(12.0), seed: 0 }"),
        (
            "kind = \"well-connected\"\ndelta = 0.5\nservers_left_out = 15",
            "WellConnected { delta: 0.5, left_out: Servers(15), confidence: 0.99, seed: 0 }",
        ),
        (
            "kind = \"well-connected\"\ndelta = 0.5\nepsilon = 0.5\nconfidence = 0.9",
            "WellConnected { delta: 0.5, left_out: Fraction(0.5), confidence: 0.9, seed: 0 }",
        ),
        (
            "kind = \"well-connected\"\ndelta = 0.5\nepsilon = 1",
            "WellConnected { delta: 0.5, left_out: Fraction(1.0), confidence: 0.99, seed: 0 }",
        ),
        ("kind = \"proportionally-sparse\"\nc = 3", "ProportionallySparse { density: Cap(3.0), seed: 0 }"),
        ("kind = \"proportionally-sparse\"\nc = \"log\"", "ProportionallySparse { density: Log, seed: 0 }"),
        ("kind = \"proportionally-sparse\"\nc = \"sqrt\"\nseed = 3", "ProportionallySparse { density: Sqrt, seed: 3 }"),
        (
            "kind = \"proportionally-sparse\"\nepsilon = 0.45\neta = 0.9",
            "ProportionallySparse { density: Guaranteed { epsilon: 0.45, eta: 0.9, confidence: 0.99 }, seed: 0 }",
        ),
    ] {
        let text = fleet(&servers, &job_types, &format!("[graph]\n{kind}"));
        let loaded = read(&Source { name: "fleet.toml", text: &text }, &files(&[]));
        let loaded = loaded.unwrap_or_else(|faults| panic!("{kind}: {}", faults.plain()));
        assert_eq!(format!("{:?}", loaded.graph.unwrap()), spec);
        let report = loaded.graph_report.unwrap();
        assert_eq!(report.edges, loaded.fleet.graph().edge_count(), "{kind}");
        assert!(report.edges >= 60, "{kind} has {} edges", report.edges);
    }
}

#[test]
fn a_graph_is_generated_again_with_another_degree() {
    let text =
        fleet(&server("s", "count = 40"), &job_type("m", "count = 60"), "[graph]\nkind = \"port-degree\"\ndegree = 4");
    let mut parts = parts(&text);
    let Some(GraphSpec::PortDegree { degree, .. }) = &mut parts.graph else { panic!("{:?}", parts.graph) };
    *degree = 9;
    parts.fleet.edges = parts.fleet.generate(parts.graph.as_ref().unwrap()).unwrap().edges;
    assert!((0..60).all(|l| parts.fleet.edges.row(l).unwrap().len() == 9));
}

#[test]
fn well_connected_graphs_need_rates_and_say_so() {
    let text = fleet(
        &server("s", "count = 4"),
        &job_type("m", ""),
        "[graph]\nkind = \"well-connected\"\ndelta = 0.5\nepsilon = 0.5",
    );
    let faults = super::faults(&text.replace("name = \"m\"\nrate = 1\n", "name = \"m\"\n"));
    assert!(faults.contains("needs the arrival rates of all job types"), "{faults}");
    let faults = super::faults(&text.replace("name = \"t\"\nrate = 1\n", "name = \"t\"\nrank = 1\n"));
    assert!(faults.contains("needs the speeds of all server types"), "{faults}");
}

/// The fleet of [`SMALL`] with its edges from `edges.csv`.
fn with_edge_file() -> String {
    let bare = SMALL.replace("serves = [\"*\"]\n", "").replace("serves = [\"M1\"]\n", "");
    format!("{bare}\n[graph]\nkind = \"file\"\npath = \"edges.csv\"\n")
}

fn edges_from(csv: &str) -> Result<Edges, String> {
    let text = with_edge_file();
    let parts = read_parts(&Source { name: "fleet.toml", text: &text }, &files(&[("edges.csv", csv)]));
    parts.map(|parts| parts.fleet.edges).map_err(|faults| faults.plain().to_string())
}

#[test]
fn an_edge_file_lists_one_edge_a_line_in_any_order() {
    for csv in
        ["job_type,server\nM1,a\nM1,b-1\nM2,b-0\n", "\u{feff}server,job_type\r\nb-1,M1\r\n\r\n\"b-0\",\"M2\"\r\na , M1"]
    {
        assert_eq!(rows(&edges_from(csv).unwrap(), 0..2), [vec![0, 2], vec![1]], "{csv}");
    }
}

#[test]
fn faults_of_an_edge_file_have_its_lines() {
    let faults = edges_from("job_type,server\nM1,a\n\nM1,c\nM1,a\n").unwrap_err();
    assert_eq!(
        faults,
        "edges.csv:4:1: there is no server `c`; the servers are `a` and `b-0 ... b-1`\n\
         edges.csv:5:1: the edge from `M1` to `a` is listed twice; keep one of them\n"
    );
    assert!(edges_from("").unwrap_err().starts_with("edges.csv:1:1: the edge file is empty"));
    assert!(edges_from("job,server\n").unwrap_err().contains("has to be `job_type,server`"));
    assert!(edges_from("job_type,server\n\"M1,a\n").unwrap_err().contains("2 fields, this one has 1"));
}

#[test]
fn of_many_faults_in_an_edge_file_the_first_are_shown() {
    let csv = format!("job_type,server\n{}", "M9,a\n".repeat(500));
    assert!(edges_from(&csv).unwrap_err().ends_with("fleet.toml: 400 more faults\n"));
}

#[test]
fn an_edge_file_without_edges_is_a_fleet_with_warnings() {
    assert_eq!(rows(&edges_from("job_type,server\n").unwrap(), 0..2), [vec![], Vec::<u32>::new()]);
}

proptest! {
    /// Turning around agrees with asking each server for each job type.
    #[test]
    fn an_edge_is_there_if_and_only_if_it_is_served(
        held in proptest::collection::vec((1_u32..4, proptest::option::of(proptest::collection::btree_set(0_usize..5, 0..5))), 1..6)
    ) {
        let servers: String = held.iter().enumerate().map(|(i, (count, list))| {
            let names = list.as_ref().map(|list| list.iter().map(|l| format!("\"m-{l}\"")).collect::<Vec<_>>().join(","));
            server(&format!("s{i}"), &format!("count = {count}\nserves = [{}]", names.unwrap_or("\"*\"".to_owned())))
        }).collect();
        let edges = parse(&fleet(&servers, &job_type("m", "count = 5"), "")).unwrap().fleet.edges;
        let mut r = 0;
        for (count, list) in &held {
            for _ in 0..*count {
                for l in 0..5 {
                    let is_served = list.as_ref().is_none_or(|list| list.contains(&l));
                    prop_assert_eq!(edges.row(l).is_none_or(|row| row.contains(&r)), is_served);
                }
                r += 1;
            }
        }
        prop_assert!((0..5).all(|l| edges.row(l).is_none_or(|row| row.is_sorted())));
    }
}

//! Requests that cannot be met are refused with the values and the way out.

use shortline_core::graph::generate::{
    Demand, SpeedClass, arrival_weighted_degrees, bernoulli_by_job_type, bernoulli_by_pair, generate, port_degrees,
};
use shortline_core::graph::{EdgeProbability, GraphSpec, LeftOut, Sparsity};

use super::refusal;

fn assert_refused(spec: &GraphSpec, field: &str, parts: &[&str]) {
    let error = refusal(spec, 24, 72);
    let text = error.to_string();
    assert_eq!(error.field(), field, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
}

#[test]
fn degrees_out_of_range() {
    let port = |degree| GraphSpec::PortDegree { degree, seed: 7 };
    assert_refused(&port(25), "degree", &["degree = 25", "1 to 24 servers"]);
    assert_refused(&port(0), "degree", &["degree = 0"]);
    let server = |degree, biregular| GraphSpec::ServerDegree { degree, biregular, seed: 7 };
    assert_refused(&server(73, false), "degree", &["degree = 73", "1 to 72 job types"]);
    assert_refused(&server(73, true), "degree", &["degree = 73", "1 to 72 job types"]);
    assert_refused(&server(0, false), "degree", &["degree = 0"]);
    assert!(port_degrees(&[3, 9], 8, 7).unwrap_err().to_string().contains("degree = 9"));
}

#[test]
fn balanced_degrees_that_leave_job_types_without_a_server() {
    let parts = ["24 servers with 2 job types each have 48 places for 72 job types", "at least 3 job types per server"];
    assert_refused(&GraphSpec::ServerDegree { degree: 2, biregular: true, seed: 7 }, "kind", &parts);
    assert_refused(&GraphSpec::ProportionallySparse { density: Sparsity::Cap(2.9), seed: 7 }, "kind", &parts);
    // ceil(ln 4) = 2
    let log = GraphSpec::ProportionallySparse { density: Sparsity::Log, seed: 7 };
    assert!(refusal(&log, 4, 9).to_string().contains("at least 3 job types"));
}

#[test]
fn parameters_out_of_range() {
    let bernoulli = |edges| GraphSpec::Bernoulli { edges, seed: 7 };
    assert_refused(&bernoulli(EdgeProbability::Each(1.5)), "probability", &["probability = 1.5", "between 0 and 1"]);
    assert_refused(&bernoulli(EdgeProbability::Each(f64::NAN)), "probability", &["NaN"]);
    assert_refused(&bernoulli(EdgeProbability::MeanDegree(24.5)), "degree", &["degree = 24.5", "between 0 and 24"]);
    let sparse = |density| GraphSpec::ProportionallySparse { density, seed: 7 };
    assert_refused(&sparse(Sparsity::Cap(0.5)), "c", &["c = 0.5", "from 1"]);
    assert_refused(&sparse(Sparsity::Cap(f64::NAN)), "c", &["NaN"]);
    let guaranteed = |epsilon, eta, confidence| sparse(Sparsity::Guaranteed { epsilon, eta, confidence });
    assert_refused(&guaranteed(0.0, 0.1, 0.9), "epsilon", &["epsilon = 0", "more than 0 and less than 1"]);
    assert_refused(&guaranteed(0.1, 1.0, 0.9), "eta", &["eta = 1"]);
    assert_refused(&guaranteed(0.1, 0.1, -1.0), "confidence", &["confidence = -1"]);
    assert_refused(&guaranteed(0.1, 0.1, 0.9), "epsilon", &["there are 24", "raise `epsilon` or `eta`"]);
}

#[test]
fn more_edges_than_memory_is_meant_for() {
    let sizes = (1_000_000, 1_000_000);
    for spec in [
        GraphSpec::PortDegree { degree: 5000, seed: 7 },
        GraphSpec::ServerDegree { degree: 5000, biregular: false, seed: 7 },
        GraphSpec::ServerDegree { degree: 5000, biregular: true, seed: 7 },
        GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(5000.0), seed: 7 },
    ] {
        let text = refusal(&spec, sizes.0, sizes.1).to_string();
        assert!(text.contains("about 5000000000 edges") && text.contains("\"complete\""), "{text}");
    }
}

#[test]
fn edges_in_a_file_are_not_generated() {
    let file = GraphSpec::File { path: "edges.csv".to_owned() };
    assert_refused(&file, "path", &["edges.csv", "read, not generated"]);
}

fn well_connected(delta: f64, left_out: LeftOut) -> GraphSpec {
    GraphSpec::WellConnected { delta, left_out, confidence: 0.99, seed: 7 }
}

#[test]
fn well_connected_graphs_without_rates_or_speeds() {
    let spec = well_connected(0.2, LeftOut::Fraction(0.2));
    assert_refused(&spec, "kind", &["arrival rates", "`[[job_type]]`"]);
    let rates = [1.0; 72];
    let demand = Demand { arrival_rates: Some(&rates), ..Demand::of_size(24, 72) };
    assert!(generate(&spec, &demand).unwrap_err().to_string().contains("`[[server_type]]`"));
}

#[test]
fn well_connected_demands_that_cannot_be_met() {
    let servers: Vec<u32> = (0..24).collect();
    let classes = [
        SpeedClass { rate_per_s: 2.0, servers: &servers[..8] },
        SpeedClass { rate_per_s: 1.0, servers: &servers[8..] },
    ];
    let refused = |rates: &[f64], classes: &[SpeedClass<'_>], spec: &GraphSpec| {
        let (arrival_rates, speed_classes) = (Some(rates), Some(classes));
        let error = generate(spec, &Demand { servers: 24, job_types: 72, arrival_rates, speed_classes }).unwrap_err();
        (error.field(), error.to_string())
    };
    let rates = [0.1; 72];
    let spec = well_connected(0.2, LeftOut::Fraction(0.2));

    let (field, text) = refused(&rates, &classes, &well_connected(1e-6, LeftOut::Servers(4)));
    assert_eq!(field, "delta");
    assert!(text.contains("delta = 0.000001") && text.contains("\"complete\""), "{text}");
    let (field, text) = refused(&rates, &classes, &well_connected(0.2, LeftOut::Servers(9)));
    assert_eq!(field, "servers_left_out");
    assert!(text.contains("servers_left_out = 9") && text.contains("1 fastest server types have 8 servers"), "{text}");
    assert_eq!(refused(&rates, &classes, &well_connected(0.2, LeftOut::Servers(0))).0, "servers_left_out");
    assert_eq!(refused(&rates, &classes, &well_connected(0.2, LeftOut::Fraction(0.0))).0, "epsilon");
    assert_eq!(refused(&rates, &classes, &well_connected(1.0, LeftOut::Fraction(0.1))).0, "delta");

    let mut broken = rates;
    broken[5] = f64::NAN;
    assert!(refused(&broken, &classes, &spec).1.contains("job type 5"));
    assert!(refused(&[0.0; 72], &classes, &spec).1.contains("not all of them 0"));
    assert!(refused(&rates[1..], &classes, &spec).1.contains("71 arrival rates for 72 job types"));
    assert!(refused(&rates, &classes[..1], &spec).1.contains("8 of 24 servers in a speed class"));
    assert!(refused(&rates, &[classes[1], classes[0]], &spec).1.contains("the fastest come first"));
    assert!(refused(&rates, &[classes[0], classes[0]], &spec).1.contains("in two speed classes"));
}

#[test]
fn probabilities_of_programs_that_are_none() {
    assert!(
        bernoulli_by_job_type(&[0.5, -0.1], 4, 7)
            .unwrap_err()
            .to_string()
            .contains("job type 1 at its servers is -0.1")
    );
    let error = bernoulli_by_pair(&[0.9], 4, |_, _| 0.95, 7).unwrap_err().to_string();
    assert!(error.contains("is 0.95; it must be between 0 and 0.9"), "{error}");
    assert!(bernoulli_by_job_type(&vec![1.0; 1_000_000], 1_000_000, 7).is_err());
}

#[test]
fn weighted_degrees_that_cannot_be_reached() {
    assert!(arrival_weighted_degrees(&[1.0, -1.0], 2, 4).unwrap_err().to_string().contains("job type 1"));
    assert!(arrival_weighted_degrees(&[1.0, 1.0], 5, 4).unwrap_err().to_string().contains("degree = 5"));
    let error = arrival_weighted_degrees(&[1.0, 0.0, 0.0], 3, 4).unwrap_err().to_string();
    assert!(error.contains("degree = 3") && error.contains("at most 2"), "{error}");
}

//! Degrees in proportion to the arrival rates.

use proptest::prelude::*;
use shortline_core::graph::generate::{GraphReport, arrival_weighted_degrees, port_degrees};

proptest! {
    #[test]
    fn degrees_have_the_mean_asked_for_and_follow_the_rates(
        rates in prop::collection::vec(1e-3_f64..1e3, 1..80),
        servers in 1_usize..100,
        share in 0.0..1.0,
    ) {
        let mean = 1 + (share * (servers - 1) as f64) as u32;
        let degrees = arrival_weighted_degrees(&rates, mean, servers).unwrap();
        prop_assert_eq!(degrees.iter().sum::<u32>(), mean * rates.len() as u32);
        prop_assert!(degrees.iter().all(|&degree| (1..=servers as u32).contains(&degree)));
        // Between the clamps degrees are proportional up to rounding: d_i / rate_i of any two differ by less than
        // one server each way.
        for (i, &d) in degrees.iter().enumerate() {
            for (j, &other) in degrees.iter().enumerate() {
                if d > 1 && (other as usize) < servers {
                    prop_assert!(f64::from(d - 1) / rates[i] <= f64::from(other + 1) / rates[j] * (1.0 + 1e-9));
                }
            }
        }
    }
}

#[test]
fn proportions_that_are_whole_numbers_come_out_exactly() {
    assert_eq!(arrival_weighted_degrees(&[1.0, 2.0, 3.0, 6.0], 6, 100).unwrap(), [2, 4, 6, 12]);
    assert_eq!(arrival_weighted_degrees(&[0.1; 5], 3, 10).unwrap(), [3; 5]);
    assert_eq!(arrival_weighted_degrees(&[5.0, 1.0], 4, 4).unwrap(), [4, 4]);
    assert_eq!(arrival_weighted_degrees(&[0.0, 0.0], 1, 4).unwrap(), [1, 1]);
    assert_eq!(arrival_weighted_degrees(&[1e300, 1e-300], 3, 5).unwrap(), [5, 1]);
    assert_eq!(arrival_weighted_degrees(&[], 3, 5).unwrap(), [0; 0]);
}

#[test]
fn weighted_degrees_are_the_degrees_of_the_graph() {
    let degrees = arrival_weighted_degrees(&[9.0, 4.0, 2.0], 5, 12).unwrap();
    let edges = port_degrees(&degrees, 12, 7).unwrap();
    let realised: Vec<usize> = (0..3).map(|l| edges.row(l).unwrap().len()).collect();
    assert_eq!(realised, [9, 4, 2]);
    assert!((GraphReport::of(&edges, 12, 3).per_job_type.mean - 5.0).abs() < 1e-12);
}

//! Upper bounds on `delta(e)` for every `e` at once, each with a short proof; the least of them counts.
//!
//! * **Degree.** A cut-off port has all its servers outside `I`, so at most `n - e` of them:
//!   `delta(e) <= p_0 + sum of p_l over |N(l)| <= n - e`. Exactly `p_0` once `e` exceeds `n` less the least degree.
//! * **Coverage.** Of `e` servers one has at least the `e`-th smallest `c_r = p(N(r))`, and what it can take is not cut
//!   off: `delta(e) <= 1 - c_(e)`.
//! * **Spectrum** ([`super::kernel`]), for a few kernels on the largest connected component: port weights `p_l`, and
//!   weights capped in proportion to the degree, `min(p_l, c |N(l)| / edges)`, which keep job types with many arrivals
//!   and few servers from spoiling the bound for the others. Ports outside the component are given up. With `phi = 1`
//!   and all ports, which needs no spectrum, it says `delta(e) <= 1 - v`: the arrivals of `J` all go to at most `n - e`
//!   servers.
//! * **Deviation** ([`super::deviation`]): `delta(e) <= p_0 + s^2 (1 - u) / u`, `u = e/n`. Weaker where the servers can be
//!   balanced, and smaller in some cases where they cannot.
//!
//! All are exact statements about real numbers, evaluated in floating point; [`TOLERANCE`] is added to the last
//! two.

use super::deviation;
use super::kernel::Kernel;
use super::subgraph::Subgraph;

/// Caps on port weights, in multiples of the mean weight per edge; about the best pair on random graphs with uneven
/// degrees or Zipf rates.
const CAPS: [f64; 2] = [1.5, 4.0];
/// Added to spectral bounds for rounding in sums of shares.
const TOLERANCE: f64 = 1e-12;

/// Upper bounds on `delta(e)`, `e = 0..=n`, nonincreasing, 1 at `e = 0`.
pub(crate) fn profile(sub: &Subgraph) -> Vec<f64> {
    let mut upper = by_degree(sub);
    keep_least(&mut upper, &by_coverage(sub));
    let component = largest_component(sub);
    if component.contains(&false) {
        keep_spectral(&mut upper, sub, &sub.shares, |_| 1.0);
    }
    for mut weights in port_weights(sub) {
        weights.iter_mut().zip(&component).filter(|&(_, &kept)| !kept).for_each(|(weight, _)| *weight = 0.0);
        keep_spectral(&mut upper, sub, &weights, |kernel| kernel.second_singular_value_squared(sub));
    }
    keep_least(&mut upper, &deviation::profile(sub).into_iter().map(|bound| bound + TOLERANCE).collect::<Vec<_>>());
    let mut least = 1.0;
    for bound in &mut upper {
        least = bound.min(least);
        *bound = least;
    }
    upper[0] = 1.0;
    upper
}

fn keep_least(bounds: &mut [f64], others: &[f64]) {
    bounds.iter_mut().zip(others).for_each(|(bound, other)| *bound = bound.min(*other));
}

fn keep_spectral(upper: &mut [f64], sub: &Subgraph, weights: &[f64], phi: impl Fn(&Kernel) -> f64) {
    if let Some(kernel) = Kernel::balanced(sub, weights) {
        let bounds = kernel.profile(sub, phi(&kernel));
        upper.iter_mut().zip(bounds).for_each(|(upper, bound)| *upper = upper.min(bound + TOLERANCE));
    }
}

fn by_degree(sub: &Subgraph) -> Vec<f64> {
    let mut of_degree = vec![0.0; sub.servers + 1];
    for (port, share) in sub.shares.iter().enumerate() {
        of_degree[sub.degree(port)] += share;
    }
    let mut share = sub.unreachable;
    let mut bounds: Vec<f64> = of_degree
        .iter()
        .map(|more| {
            share += more;
            share
        })
        .collect();
    bounds.reverse();
    bounds
}

fn by_coverage(sub: &Subgraph) -> Vec<f64> {
    let mut coverage: Vec<(f64, usize)> =
        sub.members.iter().enumerate().map(|(g, servers)| (sub.coverage(g), servers.len())).collect();
    coverage.sort_by(|a, b| a.0.total_cmp(&b.0));
    let reachable = sub.reachable();
    let bound = |covered: f64| sub.unreachable + (reachable - covered).max(0.0);
    std::iter::once(1.0)
        .chain(coverage.into_iter().flat_map(|(c, count)| std::iter::repeat_n(bound(c), count)))
        .collect()
}

/// Weights of the ports for the kernels that are tried.
fn port_weights(sub: &Subgraph) -> Vec<Vec<f64>> {
    let degrees: Vec<f64> = (0..sub.shares.len()).map(|port| sub.degree(port) as f64).collect();
    let edges: f64 = degrees.iter().sum();
    let reachable = sub.reachable();
    let capped = |cap: f64| -> Vec<f64> {
        sub.shares.iter().zip(&degrees).map(|(share, degree)| share.min(cap * reachable * degree / edges)).collect()
    };
    let mut weights = vec![sub.shares.clone()];
    weights.extend(CAPS.map(capped).into_iter().filter(|capped| capped.iter().sum::<f64>() < 0.99 * reachable));
    weights
}

/// The ports of the connected component with the largest share.
fn largest_component(sub: &Subgraph) -> Vec<bool> {
    let mut component = vec![usize::MAX; sub.shares.len()];
    let mut seen = vec![false; sub.members.len()];
    let mut largest = (0.0, 0);
    for start in 0..component.len() {
        if component[start] != usize::MAX {
            continue;
        }
        let (mut share, mut stack) = (0.0, vec![start]);
        component[start] = start;
        while let Some(port) = stack.pop() {
            share += sub.shares[port];
            for &g in sub.graph.row(port) {
                if !std::mem::replace(&mut seen[g as usize], true) {
                    for &(other, _) in sub.graph.column(g as usize) {
                        if std::mem::replace(&mut component[other as usize], start) == usize::MAX {
                            stack.push(other as usize);
                        }
                    }
                }
            }
        }
        if share > largest.0 {
            largest = (share, start);
        }
    }
    component.into_iter().map(|c| c == largest.1).collect()
}

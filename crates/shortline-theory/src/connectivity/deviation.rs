//! How far an even spread over a port's servers is from an even spread over all servers.
//!
//! `P_lr = 1/|N(l)|` on the edges, `A = P - 1/n`, and `s^2 = n ||diag(sqrt p) A||^2` with the ports' shares `p`. For a set
//! `I` of a share `u` of the servers and `h_l = |N(l) & I| / |N(l)|`,
//!
//! `sum_l p_l (h_l - u)^2 <= s^2 u (1 - u)`,
//!
//! because `A 1_I = A (1_I - u) = h - u` and `|1_I - u|^2 = n u (1 - u)`. A port that `I` cuts off has `h = 0`, so
//! at most a share `s^2 (1 - u) / u` is; a port whose part of `I` is `epsilon` away from `u` adds at least
//! `epsilon^2`: proportional sparsity ([`super::sparsity`]).

use super::spectrum::largest_eigenvalue_bound;
use super::subgraph::Subgraph;

/// Added to `s^2` for rounding.
const ROUNDING: f64 = 1e-10;

/// Upper bounds on the share of the arrivals that sets of `e = 0..=n` servers cut off.
pub(crate) fn profile(sub: &Subgraph) -> Vec<f64> {
    let (squared, n) = (norm_squared(sub), sub.servers as f64);
    let bound = |e: usize| sub.unreachable + squared * (n - e as f64) / e as f64;
    std::iter::once(1.0).chain((1..=sub.servers).map(bound)).collect()
}

/// An upper bound on `s^2`. Vectors that are constant on groups suffice, as `P` is too.
pub(crate) fn norm_squared(sub: &Subgraph) -> f64 {
    let n = sub.servers as f64;
    let root: Vec<f64> = (0..sub.members.len()).map(|g| sub.size(g).sqrt()).collect();
    let degrees: Vec<f64> = (0..sub.shares.len()).map(|port| sub.degree(port) as f64).collect();
    let bound = largest_eigenvalue_bound(root.len(), sub.graph.edge_count(), |x, y| {
        let mean: f64 = root.iter().zip(x).map(|(root, x)| root * x).sum::<f64>() / n;
        y.fill(0.0);
        let mut sum = 0.0;
        for (port, &degree) in degrees.iter().enumerate() {
            let row = sub.graph.row(port).iter().map(|&g| g as usize);
            let image: f64 = row.clone().map(|g| root[g] * x[g]).sum::<f64>() / degree - mean;
            let weighted = sub.shares[port] * image;
            row.for_each(|g| y[g] += root[g] / degree * weighted);
            sum += weighted;
        }
        y.iter_mut().zip(&root).for_each(|(y, root)| *y -= root / n * sum);
    });
    n * bound + ROUNDING
}

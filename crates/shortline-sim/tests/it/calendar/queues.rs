//! Several servers, constant sizes; and gaps that are not exponential.

use shortline_core::fleet::settings::{Arrivals, SizeLaw};

use super::{means, with_law};
use crate::fleets::{assert_meets, fleet};

/// Mean wait of M/D/c with unit sizes at arrival rate `a` (Crommelin, 1932): the jobs present a unit of time later are those
/// beyond `c` of now, and a Poisson number; the stationary law of that chain is that of the queue.
fn crommelin(c: usize, a: f64) -> f64 {
    const MOST: usize = 160;
    let mut poisson = vec![(-a).exp()];
    (1..=MOST).for_each(|i| poisson.push(poisson[i - 1] * a / i as f64));
    let mut law = vec![0.0; MOST + 1];
    law[0] = 1.0;
    for _ in 0..600 {
        let mut next = vec![0.0; MOST + 1];
        for (jobs, share) in law.iter().enumerate().filter(|(_, share)| **share > 1e-30) {
            let left = jobs.saturating_sub(c);
            (left..=MOST).for_each(|j| next[j] += share * poisson[j - left]);
        }
        law = next;
    }
    let waiting: f64 = law.iter().enumerate().map(|(jobs, share)| jobs.saturating_sub(c) as f64 * share).sum();
    waiting / a
}

/// One server with c slots, and c servers with a line in front. The recursion meets the closed form for c = 1.
#[test]
fn mdc_queues_wait_as_crommelin_says() {
    assert!((crommelin(1, 0.8) - 2.0).abs() < 1e-6, "rho / (2 (1 - rho))");
    for (c, a) in [(2, 1.6), (5, 4.0)] {
        let exact = crommelin(c as usize, a);
        let slots = with_law(fleet(&[(1.0, c, 1)], &[a]), SizeLaw::Deterministic);
        assert_meets(means(&slots, "jsq", 1_500_000).mean_waiting_s, exact, &format!("{c} slots"));
        let servers = with_law(fleet(&[(1.0, 1, c)], &[a]), SizeLaw::Deterministic);
        assert_meets(means(&servers, "central", 1_500_000).mean_waiting_s, exact, &format!("{c} servers"));
    }
}

/// GI/M/1: an arrival finds the server busy with probability `s`, the root of `s = E[e^(-(1 - s) gap)]` below 1, and waits
/// `s / (1 - s)` in the mean (Kendall, 1953).
#[test]
fn renewal_arrivals_make_a_gi_m_1_queue() {
    let rho = 0.7;
    let root = |transform: &dyn Fn(f64) -> f64| (0..2000).fold(0.5, |s, _| transform(1.0 - s));
    let gamma = |cv2: f64| move |x: f64| (1.0 + cv2 * x / rho).powf(-1.0 / cv2);
    let first = f64::midpoint(1.0, (3.0_f64 / 5.0).sqrt());
    let phases = [(first, 2.0 * first * rho), (1.0 - first, 2.0 * (1.0 - first) * rho)];
    let hyperexponential = |x: f64| phases.iter().map(|(share, rate)| share * rate / (rate + x)).sum::<f64>();
    let systems: [(f64, f64); 3] = [(0.1, root(&gamma(0.1))), (0.5, root(&gamma(0.5))), (4.0, root(&hyperexponential))];
    for (cv2, s) in systems {
        let fleet = fleet(&[(1.0, 1, 1)], &[rho]).settings(|s| s.arrivals = Arrivals::Renewal { cv2 }).build();
        let means = means(&fleet, "jsq", 1_500_000);
        assert_meets(means.fraction_waiting, s, &format!("cv2 {cv2}: fraction waiting"));
        assert_meets(means.mean_waiting_s, s / (1.0 - s), &format!("cv2 {cv2}: waiting"));
    }
}

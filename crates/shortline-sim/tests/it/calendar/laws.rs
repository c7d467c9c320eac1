//! One server and any law of sizes.

use super::{LAWS, means, with_law};
use crate::fleets::{assert_meets, fleet};

/// `E[wait] = rho (1 + cv2) / (2 (1 - rho))` for unit mean sizes (Pollaczek, 1930; Khinchine, 1932), rate 2 and sizes of mean 2
/// here. 4 figures a law.
#[test]
fn an_mg1_queue_waits_as_pollaczek_and_khinchine_say() {
    let rho = 0.7;
    for (law, cv2) in LAWS {
        let fleet = with_law(fleet(&[(2.0, 1, 1)], &[rho]).sizes(&[2.0]), law);
        let means = means(&fleet, "jsq", 1_500_000);
        let waiting_s = rho * (1.0 + cv2) / (2.0 * (1.0 - rho));
        assert_meets(means.mean_waiting_s, waiting_s, &format!("{law:?}: waiting"));
        assert_meets(means.mean_service_s, 1.0, &format!("{law:?}: service"));
        assert_meets(means.mean_jobs, rho * (1.0 + waiting_s), &format!("{law:?}: jobs"));
        assert_meets(means.fraction_waiting, rho, &format!("{law:?}: fraction waiting"));
        let error = means.mean_waiting_s.unwrap().relative_half_width();
        assert!(error < 0.07, "{law:?}: the interval is narrow: {error}");
    }
}

/// Erlang's formula does not depend on the law of sizes (Sevastyanov, 1957).
#[test]
fn where_nobody_waits_only_the_mean_size_matters() {
    let erlang_b = |c: u32, a: f64| (1..=c).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
    for (law, _) in LAWS {
        let single = with_law(fleet(&[(1.0, 1, 1)], &[1.5]).buffer(1), law);
        assert_meets(means(&single, "jsq", 800_000).blocking_probability, 0.6, &format!("M/G/1/1, {law:?}"));
        let slots = with_law(fleet(&[(1.0, 10, 1)], &[8.0]).buffer(10), law);
        let blocking = means(&slots, "jfiq", 800_000).blocking_probability;
        assert_meets(blocking, erlang_b(10, 8.0), &format!("M/G/10/10, {law:?}"));
        let error = blocking.unwrap().relative_half_width();
        assert!(error < 0.025, "{law:?}: the interval is narrow: {error}");
    }
}

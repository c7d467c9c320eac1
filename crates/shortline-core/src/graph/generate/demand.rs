//! What a generator has to know of the fleet.
//!
//! Sizes for all families; arrival rates and speed classes for the well-connected design only. With the notation of
//! the design: `Lambda` = sum of the arrival rates, `R_m` = the servers of the first `m` classes, `g_m` = the sum of
//! their service rates.

use super::GenerateError;
use super::subset::Marks;

/// The servers, the job types and, where the family needs them, their rates.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Number of servers.
    pub servers: usize,
    /// Number of job types.
    pub job_types: usize,
    /// Arrivals per second of each job type; `None` if the file does not give them all.
    pub arrival_rates: Option<&'a [f64]>,
    /// The servers by speed, fastest class first; together all servers. `None` if only ranks are known.
    pub speed_classes: Option<&'a [SpeedClass<'a>]>,
}

/// The servers of one speed.
#[derive(Clone, Copy, Debug)]
pub struct SpeedClass<'a> {
    /// Jobs that one server of the class finishes per second with all its slots busy: `slots rate / mean size`.
    pub rate_per_s: f64,
    /// The servers of the class, as indices in the file's order.
    pub servers: &'a [u32],
}

impl Demand<'_> {
    /// A demand of which only the sizes are known.
    #[must_use]
    pub fn of_size(servers: usize, job_types: usize) -> Self {
        Self { servers, job_types, arrival_rates: None, speed_classes: None }
    }

    /// Numbers of servers and job types, as indices count them.
    pub(super) fn checked_size(&self) -> Result<(u32, u32), GenerateError> {
        let index = |what: &'static str, count: usize| {
            u32::try_from(count)
                .map_err(|_| GenerateError::Demand { what: format!("{count} {what}, more than 2^32 - 1") })
        };
        Ok((index("servers", self.servers)?, index("job types", self.job_types)?))
    }

    /// The arrival rates, one finite and non-negative number per job type.
    pub(super) fn checked_arrival_rates(&self) -> Result<&[f64], GenerateError> {
        let rates = self.arrival_rates.ok_or(GenerateError::NoArrivalRates)?;
        if rates.len() != self.job_types {
            let what = format!("{} arrival rates for {} job types", rates.len(), self.job_types);
            return Err(GenerateError::Demand { what });
        }
        check_rates(rates)?;
        Ok(rates)
    }

    /// The speed classes: fastest first, each server in exactly one.
    pub(super) fn checked_speed_classes(&self) -> Result<&[SpeedClass<'_>], GenerateError> {
        let classes = self.speed_classes.ok_or(GenerateError::NoServiceRates)?;
        let unfit = |what: String| Err(GenerateError::Demand { what });
        if let Some(class) = classes.iter().find(|class| !(class.rate_per_s > 0.0 && class.rate_per_s.is_finite())) {
            return unfit(format!("a speed class with service rate {}", class.rate_per_s));
        }
        if let Some(pair) = classes.windows(2).find(|pair| pair[0].rate_per_s < pair[1].rate_per_s) {
            return unfit(format!(
                "a speed class of rate {} before one of rate {}; the fastest come first",
                pair[0].rate_per_s, pair[1].rate_per_s
            ));
        }
        let mut seen = Marks::new(self.servers);
        for &server in classes.iter().flat_map(|class| class.servers) {
            if server as usize >= self.servers || !seen.insert(server) {
                return unfit(format!("server {server} of {} is out of range or in two speed classes", self.servers));
            }
        }
        let classed: usize = classes.iter().map(|class| class.servers.len()).sum();
        if classed != self.servers {
            return unfit(format!("{classed} of {} servers in a speed class", self.servers));
        }
        Ok(classes)
    }
}

/// Refuses the first rate that is negative, infinite or not a number.
pub(super) fn check_rates(rates: &[f64]) -> Result<(), GenerateError> {
    match rates.iter().position(|&rate| !(rate >= 0.0 && rate.is_finite())) {
        Some(job_type) => Err(GenerateError::ArrivalRate { job_type, rate: rates[job_type] }),
        None => Ok(()),
    }
}

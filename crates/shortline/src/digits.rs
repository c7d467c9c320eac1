//! Numbers that a report repeats from its input.

/// The number to 13 digits: what sums of rates leave behind them is noise, and a load of 0.3 is to read 0.3.
pub(crate) fn without_noise(value: f64) -> f64 {
    format!("{value:.12e}").parse().expect("what was printed as a number reads as one")
}

#[cfg(test)]
mod tests {
    use super::without_noise;

    #[test]
    fn the_noise_of_sums_goes_and_nothing_else() {
        let shown = [0.900_000_000_000_003_8, 0.1 + 0.2, 1e-300, f64::INFINITY, 0.0, 1.0 / 3.0].map(without_noise);
        assert_eq!(shown.map(|x| x.to_string()), ["0.9", "0.3", &1e-300.to_string(), "inf", "0", "0.3333333333333"]);
    }
}

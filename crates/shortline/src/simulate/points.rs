//! Lists and ranges of numbers on the command line: `0.5,0.7,0.9` or `0.5..0.98:0.04`.

use crate::digits::exact;

/// Most numbers of a range.
const MOST: f64 = 10_000.0;

/// Reads a list `A,B,C` or a range `FROM..TO:STEP`, both ends included where the step meets them. No number comes twice.
pub(super) fn parse(written: &str) -> Result<Vec<f64>, String> {
    let Some((from, rest)) = written.split_once("..") else {
        return once(written.split(',').map(number).collect::<Result<_, _>>()?);
    };
    let (to, step) = rest.split_once(':').ok_or("a range needs a step, as 0.5..0.98:0.04")?;
    range(number(from)?, number(to)?, number(step)?)
}

/// The numbers, if all are different.
fn once(numbers: Vec<f64>) -> Result<Vec<f64>, String> {
    let mut sorted = numbers.clone();
    sorted.sort_by(f64::total_cmp);
    match sorted.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(format!("{} is there twice", exact(pair[1]))),
        None => Ok(numbers),
    }
}

/// The numbers from `from` to `to` in steps.
pub(super) fn range(from: f64, to: f64, step: f64) -> Result<Vec<f64>, String> {
    if !(step > 0.0 && to >= from && (to - from) / step < MOST) {
        return Err(format!("a range goes up, in fewer than {MOST} steps"));
    }
    // A hair beyond the end, so that rounding does not lose it; nine digits, so that 0.7 reads 0.7.
    let steps = ((to - from) / step + 1e-9).floor() as usize;
    let rounded = |value: f64| if value.abs() < 1e6 { (value * 1e9).round() / 1e9 } else { value };
    once((0..=steps).map(|i| rounded(from + i as f64 * step)).collect())
}

pub(super) fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_end_where_the_step_meets_it() {
        assert_eq!(parse("0.5..0.98:0.04").unwrap().len(), 13);
        assert_eq!(parse("0.1..0.7:0.2").unwrap(), [0.1, 0.3, 0.5, 0.7]);
        assert_eq!(parse("1..2:0.4").unwrap(), [1.0, 1.4, 1.8]);
        assert_eq!(parse("3..3:1").unwrap(), [3.0]);
        assert_eq!(parse("2, 4,8").unwrap(), [2.0, 4.0, 8.0]);
    }

    #[test]
    fn a_number_that_is_there_twice_is_refused_and_named() {
        assert_eq!(parse("4,8,4.0"), Err("4 is there twice".to_owned()));
        assert_eq!(parse("1e300,1e300"), Err("1e300 is there twice".to_owned()));
        assert!(parse("0..1e-9:1e-10").unwrap_err().contains("twice"), "steps of less than nine digits");
    }

    #[test]
    fn what_is_neither_is_refused() {
        for written in ["", "a", "1,", "1..2", "2..1:1", "1..2:0", "1..2:-1", "0..1:1e-9", "inf", "1..NaN:1"] {
            assert!(parse(written).is_err(), "{written}");
        }
    }
}

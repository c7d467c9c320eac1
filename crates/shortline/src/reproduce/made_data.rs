//! Made data for the tests of verdicts: numbers as a claim has them, or not, at every point of an experiment, and the answers
//! that come of them.

use super::experiment::{Experiment, Scale};
use super::number::{Data, Found, Number};
use super::verdict::Answer;

/// `mean +- half_width`.
pub(crate) fn around(mean: f64, half_width: f64) -> Number {
    Number { mean, low: mean - half_width, high: mean + half_width }
}

/// A share that was not seen, and is at most this.
pub(crate) fn none_seen(most: f64) -> Number {
    Number { mean: 0.0, low: 0.0, high: most }
}

/// A point with these numbers.
pub(crate) fn found<'a>(numbers: impl IntoIterator<Item = (&'a str, Number)>) -> Found {
    let mut found = Found::default();
    for (name, number) in numbers {
        found.set(name, Some(number));
    }
    found
}

/// The answer of the experiment, and those of its claims, to made data of the quick scale.
///
/// # Panics
/// If a point is missing or one too many, so that a misspelt key is not taken for a number that could not be measured.
pub(crate) fn answers(
    experiment: &dyn Experiment,
    points: impl IntoIterator<Item = (String, Found)>,
) -> (Answer, Vec<Answer>) {
    let data = Data(points.into_iter().collect());
    let mut keys: Vec<String> = experiment.points(Scale::Quick).into_iter().map(|point| point.key).collect();
    keys.sort();
    assert_eq!(data.0.keys().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>(), "the points of the made data");
    let findings = experiment.findings(Scale::Quick, &data);
    (findings.answer(), findings.verdicts.iter().map(|verdict| verdict.judgement.answer).collect())
}

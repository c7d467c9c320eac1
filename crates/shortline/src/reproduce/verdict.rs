//! What the data say about a claim: it holds, it does not hold, or they cannot tell.
//!
//! A verdict is a function of the data alone, and it names the intervals it rests on. *Holds* needs the whole 95 %
//! interval on the claim's side, *does not hold* the whole interval on the other side; all else is *inconclusive*. What was
//! not measured is inconclusive too. A claim about many numbers is as good as its worst; at 95 % each, a claim about 40
//! numbers that all lie just at the edge would have one or two of them on the wrong side by chance.

use std::fmt;

use serde::Serialize;

/// The three answers, from good to bad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The intervals lie wholly on the claim's side.
    Holds,
    /// The intervals do not tell.
    Inconclusive,
    /// An interval lies wholly on the other side.
    DoesNotHold,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Inconclusive => "inconclusive",
            Self::DoesNotHold => "does not hold",
        })
    }
}

/// An answer and the intervals it rests on, in words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Judgement {
    pub(crate) answer: Answer,
    pub(crate) because: String,
    /// Whether there was anything to judge.
    #[serde(skip)]
    pub(crate) is_measured: bool,
}

impl Judgement {
    pub(crate) fn new(answer: Answer, because: impl Into<String>) -> Self {
        Self { answer, because: because.into(), is_measured: true }
    }

    /// The same, said of something.
    pub(crate) fn of(self, what: impl fmt::Display) -> Self {
        Self { because: format!("{what}: {}", self.because), ..self }
    }
}

/// A claim of an experiment, judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Verdict {
    /// The claim, a sentence.
    pub(crate) claim: String,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
    /// What is to be known beside it, a sentence or two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remark: Option<String>,
}

impl Verdict {
    pub(crate) fn new(claim: impl Into<String>, judgement: Judgement) -> Self {
        Self { claim: claim.into(), judgement, remark: None }
    }

    /// With a remark on the page.
    pub(crate) fn remarked(self, remark: Option<String>) -> Self {
        Self { remark, ..self }
    }
}

/// The worst of several answers; nothing judged is inconclusive.
pub(crate) fn worst(answers: impl IntoIterator<Item = Answer>) -> Answer {
    answers.into_iter().max().unwrap_or(Answer::Inconclusive)
}

#[cfg(test)]
mod tests {
    use super::{Answer, worst};

    #[test]
    fn an_experiment_is_as_good_as_its_worst_claim() {
        use Answer::{DoesNotHold, Holds, Inconclusive};
        assert_eq!(worst([Holds, Holds]), Holds);
        assert_eq!(worst([Holds, Inconclusive]), Inconclusive);
        assert_eq!(worst([Inconclusive, DoesNotHold, Holds]), DoesNotHold);
        assert_eq!(worst([]), Inconclusive);
    }
}

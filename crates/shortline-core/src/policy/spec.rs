//! Policies by name: what `--policy` and `[fleet] policy` accept.

use std::fmt;
use std::str::FromStr;

/// Names that [`PolicySpec`] understands, for messages and suggestions.
pub const POLICY_NAMES: [&str; 12] =
    ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(d)", "jfsq(d)", "jsq(d1,d2)", "sed", "nq", "split", "central"];

/// A policy as named in a file or on the command line. The rules are those of [`POLICY_NAMES`]' files, one each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PolicySpec {
    /// `random`: a uniformly random compatible server.
    Random,
    /// `jsq`: join the shortest queue.
    Jsq,
    /// `jfsq`: join the fastest of the shortest queues.
    Jfsq,
    /// `jiq`: join an idle queue, else a random one.
    Jiq,
    /// `jfiq`: join the fastest of the idle queues, else a random one.
    Jfiq,
    /// `jsq(d)`: the shortest of `d` sampled queues.
    JsqD(Choices),
    /// `jfsq(d)`: the fastest of the shortest of `d` sampled queues.
    JfsqD(Choices),
    /// `jsq(d1,d2)`: the shortest of `d1` sampled fast and `d2` sampled other queues.
    JsqFastOther {
        /// Number sampled among the fast servers.
        fast: u32,
        /// Number sampled among the others.
        other: u32,
    },
    /// `sed`: shortest expected delay.
    Sed,
    /// `nq`: never queue: the fastest idle server, else shortest expected delay.
    Nq,
    /// `split`: a fixed share of each job type to each server.
    Split,
    /// `central`: no queues at the servers; the fastest server with a free slot, else wait in front.
    Central,
}

/// How many servers a policy samples in a fleet of `N` servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Choices {
    /// This many, at least 1.
    Number(u32),
    /// `ceil(ln N)`, at least 1.
    Log,
    /// `ceil(sqrt(N) ln N)`, at least 1.
    SqrtLog,
}

impl Choices {
    /// The number of servers sampled in a fleet of `servers` servers.
    #[must_use]
    pub fn count(self, servers: usize) -> u32 {
        let n = servers as f64;
        match self {
            Self::Number(d) => d,
            Self::Log => n.ln().ceil().max(1.0) as u32,
            Self::SqrtLog => (n.sqrt() * n.ln()).ceil().max(1.0) as u32,
        }
    }
}

/// A policy name that is not one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyNameError {
    /// There is no name.
    #[error("no policy is named here; known are {}", POLICY_NAMES.join(", "))]
    Missing,
    /// No policy has this name.
    #[error("unknown policy `{name}`{}; known are {}", suggestion(.name), POLICY_NAMES.join(", "))]
    Unknown {
        /// What was written.
        name: String,
    },
    /// The number of choices is none.
    #[error("`{name}`: a number of choices is a whole number from 1, \"log\" or \"sqrt-log\"")]
    Choices {
        /// What was written.
        name: String,
    },
}

/// A list of policies that is not one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyListError {
    /// One of them has a name that is none.
    #[error(transparent)]
    Name(#[from] PolicyNameError),
    /// A policy is named twice, if in different words.
    #[error("policy `{policy}` is named twice, as `{first}` and as `{second}`; leave one of them out")]
    Twice {
        /// The policy.
        policy: PolicySpec,
        /// What was written first.
        first: String,
        /// What was written again.
        second: String,
    },
}

fn suggestion(name: &str) -> String {
    let distance = |known: &&&str| strsim::damerau_levenshtein(name, known);
    match POLICY_NAMES.iter().min_by_key(distance) {
        Some(known) if strsim::damerau_levenshtein(name, known) <= 2 => format!(", did you mean `{known}`?"),
        _ => String::new(),
    }
}

impl FromStr for PolicySpec {
    type Err = PolicyNameError;

    fn from_str(written: &str) -> Result<Self, PolicyNameError> {
        let name = written.trim().to_ascii_lowercase();
        if name.is_empty() {
            return Err(PolicyNameError::Missing);
        }
        let unknown = || PolicyNameError::Unknown { name: name.clone() };
        match name.as_str() {
            "random" => return Ok(Self::Random),
            "jsq" => return Ok(Self::Jsq),
            "jfsq" => return Ok(Self::Jfsq),
            "jiq" => return Ok(Self::Jiq),
            "jfiq" => return Ok(Self::Jfiq),
            "sed" => return Ok(Self::Sed),
            "nq" => return Ok(Self::Nq),
            "split" => return Ok(Self::Split),
            "central" => return Ok(Self::Central),
            _ => {}
        }
        let (family, arguments) = split_arguments(&name).ok_or_else(unknown)?;
        if !["jsq", "jfsq"].contains(&family) {
            return Err(unknown());
        }
        let malformed = || PolicyNameError::Choices { name: name.clone() };
        let choices: Vec<Choices> =
            arguments.iter().map(|a| parse_choices(a)).collect::<Option<_>>().ok_or_else(malformed)?;
        match (family, choices.as_slice()) {
            ("jsq", &[d]) => Ok(Self::JsqD(d)),
            ("jfsq", &[d]) => Ok(Self::JfsqD(d)),
            ("jsq", &[Choices::Number(fast), Choices::Number(other)]) => Ok(Self::JsqFastOther { fast, other }),
            ("jsq", &[_, _]) => Err(malformed()),
            _ => Err(unknown()),
        }
    }
}

/// `jsq(2,2)` or `jsq-2-2` to `("jsq", ["2", "2"])`. A dash form takes numbers and "log" only.
fn split_arguments(name: &str) -> Option<(&str, Vec<&str>)> {
    if let Some((family, rest)) = name.split_once('(') {
        let arguments = rest.strip_suffix(')')?;
        return Some((family.trim_end(), arguments.split(',').map(|a| a.trim().trim_matches('"')).collect()));
    }
    let (family, rest) = name.split_once('-')?;
    Some((family, if rest == "sqrt-log" { vec![rest] } else { rest.split('-').collect() }))
}

fn parse_choices(argument: &str) -> Option<Choices> {
    match argument {
        "log" => Some(Choices::Log),
        "sqrt-log" => Some(Choices::SqrtLog),
        number => number.parse().ok().filter(|&d| d >= 1).map(Choices::Number),
    }
}

impl PolicySpec {
    /// Parses a list of policies split at commas outside parentheses, as `--policy jfsq,jsq(2,2)` takes it.
    ///
    /// # Errors
    /// [`PolicyListError`] of the first name that is none, or that names a policy again.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, PolicyListError> {
        let mut depth = 0_i32;
        let names: Vec<&str> = list
            .split(|c: char| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                c == ',' && depth <= 0
            })
            .map(str::trim)
            .collect();
        let mut policies: Vec<Self> = Vec::with_capacity(names.len());
        for name in &names {
            let policy = name.parse::<Self>()?;
            if let Some(earlier) = policies.iter().position(|&other| other == policy) {
                let (first, second) = (names[earlier].to_owned(), (*name).to_owned());
                return Err(PolicyListError::Twice { policy, first, second });
            }
            policies.push(policy);
        }
        Ok(policies)
    }

    /// Whether the rule compares speeds as numbers, so that ranks alone are not enough.
    #[must_use]
    pub fn needs_rates(self) -> bool {
        matches!(self, Self::Sed | Self::Nq | Self::Split)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Jsq => f.write_str("jsq"),
            Self::Jfsq => f.write_str("jfsq"),
            Self::Jiq => f.write_str("jiq"),
            Self::Jfiq => f.write_str("jfiq"),
            Self::JsqD(d) => write!(f, "jsq({d})"),
            Self::JfsqD(d) => write!(f, "jfsq({d})"),
            Self::JsqFastOther { fast, other } => write!(f, "jsq({fast},{other})"),
            Self::Sed => f.write_str("sed"),
            Self::Nq => f.write_str("nq"),
            Self::Split => f.write_str("split"),
            Self::Central => f.write_str("central"),
        }
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(d) => d.fmt(f),
            Self::Log => f.write_str("log"),
            Self::SqrtLog => f.write_str("sqrt-log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_split_at_commas_outside_parentheses() {
        let policies = PolicySpec::parse_list("jfsq, jsq(2,2),jsq(log),jsq-2,jsq-3-2,jsq-sqrt-log").unwrap();
        let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["jfsq", "jsq(2,2)", "jsq(log)", "jsq(2)", "jsq(3,2)", "jsq(sqrt-log)"]);
    }

    #[test]
    fn a_list_names_a_policy_once_in_whatever_words() {
        for (list, policy, first, second) in [
            ("jsq,jsq", PolicySpec::Jsq, "jsq", "jsq"),
            ("jfsq, JFSQ ", PolicySpec::Jfsq, "jfsq", "JFSQ"),
            ("jsq-2,random,jsq(2)", PolicySpec::JsqD(Choices::Number(2)), "jsq-2", "jsq(2)"),
            ("jsq( 2, 2 ),jsq-2-2", PolicySpec::JsqFastOther { fast: 2, other: 2 }, "jsq( 2, 2 )", "jsq-2-2"),
        ] {
            let twice = PolicyListError::Twice { policy, first: first.to_owned(), second: second.to_owned() };
            assert_eq!(PolicySpec::parse_list(list), Err(twice));
        }
    }

    #[test]
    fn every_name_survives_printing_and_parsing() {
        for name in
            ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(3)", "jfsq(log)", "jsq(1,2)", "sed", "nq", "split", "central"]
        {
            assert_eq!(name.parse::<PolicySpec>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn wrong_names_are_refused_with_a_suggestion() {
        assert!("jfqs".parse::<PolicySpec>().unwrap_err().to_string().contains("did you mean `jfsq`?"));
        assert!(matches!("round-robin".parse::<PolicySpec>(), Err(PolicyNameError::Unknown { .. })));
        assert!("jsq(0)".parse::<PolicySpec>().is_err());
        assert!("jsq(log,2)".parse::<PolicySpec>().is_err());
        for nothing in ["", " ", "jsq,", ",jsq"] {
            assert_eq!(PolicySpec::parse_list(nothing), Err(PolicyNameError::Missing.into()), "{nothing:?}");
        }
    }

    #[test]
    fn choices_grow_with_the_fleet() {
        assert_eq!(Choices::Log.count(1), 1);
        assert_eq!(Choices::Log.count(1000), 7);
        assert_eq!(Choices::SqrtLog.count(100), 47);
    }
}

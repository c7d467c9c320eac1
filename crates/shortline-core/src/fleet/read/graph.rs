//! `[graph]`: which kind of graph to generate, or where its edges stand.

use super::super::document::{Span, Value};
use super::collect::Read;
use super::section::{
    AT_LEAST_ONE, At, FRACTION, NOT_NEGATIVE, PROBABILITY, PROPER_FRACTION, Section, number, value_or, wrong_type,
};
use crate::graph::{EdgeProbability, GraphSpec, LeftOut, Sparsity};

/// Confidence of the designs with a guarantee, if none is given.
const DEFAULT_CONFIDENCE: f64 = 0.99;

#[derive(Clone, Copy)]
enum Kind {
    Complete,
    PortDegree,
    ServerDegree,
    Bernoulli,
    WellConnected,
    ProportionallySparse,
    File,
}

const KINDS: [(&str, Kind); 7] = [
    ("complete", Kind::Complete),
    ("port-degree", Kind::PortDegree),
    ("server-degree", Kind::ServerDegree),
    ("bernoulli", Kind::Bernoulli),
    ("well-connected", Kind::WellConnected),
    ("proportionally-sparse", Kind::ProportionallySparse),
    ("file", Kind::File),
];

/// The section as read, with its places for what turns out later.
pub(super) struct Written {
    pub(super) spec: GraphSpec,
    /// Where the kind stands.
    pub(super) place: Span,
    /// Its keys and their places.
    keys: Vec<(String, Span)>,
}

impl Written {
    /// Where a key stands, or else the kind.
    pub(super) fn place_of(&self, key: &str) -> &Span {
        self.keys.iter().find(|(known, _)| known == key).map_or(&self.place, |(_, place)| place)
    }
}

/// `[graph]`, if there is one.
pub(super) fn read(root: &mut Section<'_, '_>) -> Read<Option<Written>> {
    let Some(mut section) = root.section("graph") else {
        return root.place_of("graph").map_or(Ok(None), |_| Err(root.faults.follows_from_others()));
    };
    let kind = section.word("kind", &KINDS);
    let kind = section.required("kind", kind)?;
    section.title = format!("[graph] of kind \"{}\"", KINDS[kind.value as usize].0);
    let spec = spec(&mut section, kind.value);
    let keys = section.places();
    section.finish();
    Ok(Some(Written { spec: spec?, place: kind.place, keys }))
}

fn spec(section: &mut Section<'_, '_>, kind: Kind) -> Read<GraphSpec> {
    match kind {
        Kind::Complete => Ok(GraphSpec::Complete),
        Kind::File => file(section),
        Kind::PortDegree => {
            let (degree, seed) = (degree(section), seed(section));
            Ok(GraphSpec::PortDegree { degree: degree?, seed: seed? })
        }
        Kind::ServerDegree => {
            let (degree, biregular, seed) = (degree(section), section.boolean("biregular"), seed(section));
            Ok(GraphSpec::ServerDegree { degree: degree?, biregular: value_or(biregular, false)?, seed: seed? })
        }
        Kind::Bernoulli => {
            let (edges, seed) = (edge_probability(section), seed(section));
            Ok(GraphSpec::Bernoulli { edges: edges?, seed: seed? })
        }
        Kind::WellConnected => {
            let delta = section.number("delta", PROPER_FRACTION);
            let delta = section.required("delta", delta);
            let (left_out, confidence, seed) = (left_out(section), confidence(section), seed(section));
            Ok(GraphSpec::WellConnected {
                delta: delta?.value,
                left_out: left_out?,
                confidence: confidence?,
                seed: seed?,
            })
        }
        Kind::ProportionallySparse => {
            let (density, seed) = (sparsity(section), seed(section));
            Ok(GraphSpec::ProportionallySparse { density: density?, seed: seed? })
        }
    }
}

fn seed(section: &mut Section<'_, '_>) -> Read<u64> {
    value_or(section.integer("seed", 0..=u64::MAX), 0)
}

fn confidence(section: &mut Section<'_, '_>) -> Read<f64> {
    value_or(section.number("confidence", PROPER_FRACTION), DEFAULT_CONFIDENCE)
}

fn degree(section: &mut Section<'_, '_>) -> Read<u32> {
    let degree = section.integer32("degree", 1);
    Ok(section.required("degree", degree)?.value)
}

fn file(section: &mut Section<'_, '_>) -> Read<GraphSpec> {
    let path = section.string("path");
    Ok(GraphSpec::File { path: section.required("path", path)?.value.to_owned() })
}

fn edge_probability(section: &mut Section<'_, '_>) -> Read<EdgeProbability> {
    let probability = section.number("probability", PROBABILITY);
    let degree = section.number("degree", NOT_NEGATIVE);
    section.at_most_one_of(&["probability", "degree"])?;
    match (probability?, degree?) {
        (Some(probability), _) => Ok(EdgeProbability::Each(probability.value)),
        (None, Some(degree)) => Ok(EdgeProbability::MeanDegree(degree.value)),
        (None, None) => Err(section.missing("probability")),
    }
}

fn left_out(section: &mut Section<'_, '_>) -> Read<LeftOut> {
    let servers = section.integer32("servers_left_out", 1);
    let epsilon = section.number("epsilon", FRACTION);
    section.at_most_one_of(&["servers_left_out", "epsilon"])?;
    match (servers?, epsilon?) {
        (Some(servers), _) => Ok(LeftOut::Servers(servers.value)),
        (None, Some(epsilon)) => Ok(LeftOut::Fraction(epsilon.value)),
        (None, None) => Err(section.missing("servers_left_out")),
    }
}

/// Either `c`, or the guarantee's numbers.
fn sparsity(section: &mut Section<'_, '_>) -> Read<Sparsity> {
    let cap = cap(section);
    let epsilon = section.number("epsilon", PROPER_FRACTION);
    let eta = section.number("eta", PROPER_FRACTION);
    let confidence = confidence(section);
    for key in ["epsilon", "eta", "confidence"] {
        section.at_most_one_of(&["c", key])?;
    }
    if let Some(cap) = cap? {
        return Ok(cap.value);
    }
    if section.place_of("epsilon").is_none() && section.place_of("eta").is_none() {
        let help = "add `c = ...` (a number, \"log\" or \"sqrt\"), or `epsilon` and `eta`";
        return Err(section.faults.missing(&section.place, format!("{} has no density", section.title), help));
    }
    let (epsilon, eta) = (section.required("epsilon", epsilon), section.required("eta", eta));
    Ok(Sparsity::Guaranteed { epsilon: epsilon?.value, eta: eta?.value, confidence: confidence? })
}

fn cap(section: &mut Section<'_, '_>) -> Read<Option<At<Sparsity>>> {
    let Some(node) = section.node("c") else { return Ok(None) };
    let place: Span = node.span.clone();
    let value = match &node.value {
        Value::String(word) if word == "log" => Sparsity::Log,
        Value::String(word) if word == "sqrt" => Sparsity::Sqrt,
        Value::Integer(_) | Value::Float(_) => Sparsity::Cap(number(section.faults, "c", node, AT_LEAST_ONE)?),
        _ => return Err(wrong_type(section.faults, "c", node, "a number, \"log\" or \"sqrt\"")),
    };
    Ok(Some(At { value, place }))
}

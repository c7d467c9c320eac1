//! `[service]` and `[arrivals]`: laws with parameters, in either of two forms.
//!
//! `distribution = "erlang"` with `k = 3` beside it, or `distribution = "erlang(3)"`: the parameters are the same, in
//! the order of the table here.

use super::super::document::{Node, Span};
use super::super::settings::{Arrivals, Discipline, Service, SizeLaw};
use super::collect::{Faults, Read};
use super::section::{
    ABOVE_ONE, AT_LEAST_ONE, At, Bounds, Field, NOT_NEGATIVE, POSITIVE, PROBABILITY, Section, WHOLE, array, in_bounds,
    number, shown, value_or,
};
use super::words::{counted, quoted, suggestion};

/// A named law, its parameters, and how it is made from them.
struct Law<T> {
    name: &'static str,
    parameters: &'static [(&'static str, Bounds)],
    make: fn(&[f64]) -> T,
}

const SIZE_LAWS: [Law<SizeLaw>; 8] = [
    Law { name: "exponential", parameters: &[], make: |_| SizeLaw::Exponential },
    Law { name: "deterministic", parameters: &[], make: |_| SizeLaw::Deterministic },
    Law { name: "erlang", parameters: &[("k", WHOLE)], make: |x| SizeLaw::Erlang { k: x[0] as u32 } },
    Law {
        name: "hyperexponential",
        parameters: &[("cv2", AT_LEAST_ONE)],
        make: |x| SizeLaw::Hyperexponential { cv2: x[0] },
    },
    Law {
        name: "coxian2",
        parameters: &[("mu1", POSITIVE), ("p", PROBABILITY), ("mu2", POSITIVE)],
        make: |x| SizeLaw::Coxian2 { mu1: x[0], p: x[1], mu2: x[2] },
    },
    Law { name: "lognormal", parameters: &[("cv2", POSITIVE)], make: |x| SizeLaw::Lognormal { cv2: x[0] } },
    Law { name: "pareto", parameters: &[("shape", ABOVE_ONE)], make: |x| SizeLaw::Pareto { shape: x[0] } },
    Law { name: "trace", parameters: &[], make: |_| SizeLaw::Trace },
];

/// `piecewise` has its list in a key of its own and is filled in later.
const PROCESSES: [Law<Arrivals>; 5] = [
    Law { name: "poisson", parameters: &[], make: |_| Arrivals::Poisson },
    Law { name: "renewal", parameters: &[("cv2", POSITIVE)], make: |x| Arrivals::Renewal { cv2: x[0] } },
    Law {
        name: "on-off",
        parameters: &[("peak", ABOVE_ONE), ("on_s", POSITIVE), ("off_s", POSITIVE)],
        make: |x| Arrivals::OnOff { peak: x[0], on_s: x[1], off_s: x[2] },
    },
    Law { name: "piecewise", parameters: &[], make: |_| Arrivals::Piecewise(Vec::new()) },
    Law { name: "trace", parameters: &[], make: |_| Arrivals::Trace },
];

/// `[service]`.
pub(super) fn service(root: &mut Section<'_, '_>) -> Read<Service> {
    let Some(mut section) = root.section("service") else { return Ok(Service::default()) };
    let law = law(&mut section, "distribution", &SIZE_LAWS);
    let disciplines = [("fifo", Discipline::Fifo), ("ps", Discipline::ProcessorSharing)];
    let discipline = section.word("discipline", &disciplines);
    section.finish();
    Ok(Service { law: value_or(law, SizeLaw::default())?, discipline: value_or(discipline, Discipline::default())? })
}

/// `[arrivals]`.
pub(super) fn arrivals(root: &mut Section<'_, '_>) -> Read<Arrivals> {
    let Some(mut section) = root.section("arrivals") else { return Ok(Arrivals::default()) };
    let faults = section.faults;
    let process = law(&mut section, "process", &PROCESSES);
    let steps = section.node("piecewise").map(|node| Ok(At { value: steps(faults, node)?, place: node.span.clone() }));
    let result = match (process, steps.transpose()) {
        (Ok(process), Ok(steps)) => combined(&section, process, steps),
        (process, steps) => process.and(steps.map(|_| Arrivals::Poisson)),
    };
    section.finish();
    result
}

fn combined(
    section: &Section<'_, '_>,
    process: Option<At<Arrivals>>,
    steps: Option<At<Vec<(f64, f64)>>>,
) -> Read<Arrivals> {
    let faults = section.faults;
    match (process, steps) {
        (None, None) => Ok(Arrivals::default()),
        (None | Some(At { value: Arrivals::Piecewise(_), .. }), Some(steps)) => Ok(Arrivals::Piecewise(steps.value)),
        (Some(At { value: Arrivals::Piecewise(_), .. }), None) => Err(section.missing("piecewise")),
        (Some(process), Some(steps)) => {
            let draft = faults.at(&steps.place, "`piecewise` beside another `process`").help("give one of them");
            Err(draft.also(&process.place, "and here").report())
        }
        (Some(At { value: Arrivals::OnOff { peak, on_s, off_s }, place }), None) if peak > (on_s + off_s) / on_s => {
            let largest = (on_s + off_s) / on_s;
            let message = format!("`peak` is {}, but these periods allow {} at most", shown(peak), shown(largest));
            let help = "the rate while off would be negative: peak <= (on_s + off_s) / on_s";
            Err(faults.at(&place, message).help(help).report())
        }
        (Some(process), None) => Ok(process.value),
    }
}

/// `[[t_s, factor], ...]`: ascending from 0.
fn steps(faults: &Faults<'_>, node: &Node<'_>) -> Read<Vec<(f64, f64)>> {
    let items = array(faults, "piecewise", node)?;
    let read: Vec<Read<(f64, f64)>> = items.iter().map(|item| step(faults, item)).collect();
    let steps = read.into_iter().collect::<Read<Vec<_>>>()?;
    let help = "write [[0, 1.0], [3600, 2.0], ...]: from each time on (seconds), all rates times the factor";
    if steps.first().is_none_or(|first| first.0 > 0.0) {
        return Err(faults.at(&node.span, "`piecewise` has to begin at time 0").help(help).report());
    }
    if let Some(i) = (1..steps.len()).find(|&i| steps[i].0 <= steps[i - 1].0) {
        let message = format!("time {} does not come after time {}", shown(steps[i].0), shown(steps[i - 1].0));
        return Err(faults.at(&items[i].span, message).help(help).report());
    }
    if steps.iter().all(|step| step.1 <= 0.0) {
        return Err(faults.at(&node.span, "all factors of `piecewise` are 0: nothing ever arrives").report());
    }
    Ok(steps)
}

fn step(faults: &Faults<'_>, node: &Node<'_>) -> Read<(f64, f64)> {
    let [time, factor] = array(faults, "piecewise", node)? else {
        return Err(faults.at(&node.span, "a step of `piecewise` is a pair [t_s, factor]").report());
    };
    let time = number(faults, "t_s", time, NOT_NEGATIVE);
    let factor = number(faults, "factor", factor, NOT_NEGATIVE);
    Ok((time?, factor?))
}

/// A law that a key names, with its parameters.
fn law<T>(section: &mut Section<'_, '_>, key: &'static str, laws: &[Law<T>]) -> Field<T> {
    let Some(At { value: written, place }) = section.string(key)? else { return Ok(None) };
    let (name, arguments) = call(written);
    let Some(law) = laws.iter().find(|law| law.name == name) else {
        // Parameters of a law that is misspelt are no unknown keys.
        laws.iter().flat_map(|law| law.parameters).for_each(|&(key, _)| _ = section.node(key));
        let help = suggestion(name, laws.iter().map(|law| law.name));
        return Err(section.faults.at(&place, format!("`{key}` cannot be {}", quoted(written))).help(help).report());
    };
    let values = match arguments {
        Some(arguments) => positional(section, law, &arguments, &place),
        None => by_key(section, law, &place),
    };
    Ok(Some(At { value: (law.make)(&values?), place }))
}

/// `erlang(3)` to `("erlang", ["3"])`, `erlang` to `("erlang", None)`.
fn call(written: &str) -> (&str, Option<Vec<&str>>) {
    match written.trim().split_once('(').and_then(|(name, rest)| Some((name, rest.strip_suffix(')')?))) {
        Some((name, arguments)) => (name.trim_end(), Some(arguments.split(',').map(str::trim).collect())),
        None => (written.trim(), None),
    }
}

fn positional<T>(section: &mut Section<'_, '_>, law: &Law<T>, arguments: &[&str], place: &Span) -> Read<Vec<f64>> {
    let faults = section.faults;
    let mut both = Ok(());
    for &(key, _) in law.parameters {
        if section.node(key).is_some() {
            let other = section.place_of(key).unwrap_or(place);
            let draft = faults.at(other, format!("`{key}` is given in parentheses and as a key"));
            both = Err(draft.help("give it once").also(place, "and here").report());
        }
    }
    both?;
    if arguments.len() != law.parameters.len() {
        let message = format!("{} takes {}", law.name, counted(law.parameters.len(), "parameter"));
        return Err(faults.at(place, message).help(format!("write {}", usage(law))).report());
    }
    let value = |(&(key, bounds), written): (&(&'static str, Bounds), &&str)| {
        let Ok(value) = written.parse::<f64>() else {
            let message = format!("`{key}` is {}, must be a number", quoted(written));
            return Err(faults.at(place, message).help(format!("write {}", usage(law))).report());
        };
        in_bounds(faults, key, place, value, bounds)
    };
    let read: Vec<Read<f64>> = law.parameters.iter().zip(arguments).map(value).collect();
    read.into_iter().collect()
}

fn by_key<T>(section: &mut Section<'_, '_>, law: &Law<T>, place: &Span) -> Read<Vec<f64>> {
    let mut value = |&(key, bounds): &(&'static str, Bounds)| {
        section.number(key, bounds)?.map(|at| at.value).ok_or_else(|| {
            let help = format!("write {}, or add `{key} = ...`", usage(law));
            section.faults.missing(place, format!("{} needs `{key}`", law.name), help)
        })
    };
    let read: Vec<Read<f64>> = law.parameters.iter().map(&mut value).collect();
    read.into_iter().collect()
}

/// `"coxian2(mu1,p,mu2)"`.
fn usage<T>(law: &Law<T>) -> String {
    match law.parameters {
        [] => format!("\"{}\"", law.name),
        parameters => {
            let keys: Vec<&str> = parameters.iter().map(|&(key, _)| key).collect();
            format!("\"{}({})\"", law.name, keys.join(","))
        }
    }
}

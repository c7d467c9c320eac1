//! The page of an experiment, in markdown: claim, setting, command, verdict, figures, tables.
//!
//! It says nothing of the machine or the time it took, so that the same seed makes the same page everywhere.

use std::fmt::Write;

use super::experiment::{Experiment, Findings, Scale};
use super::number::Data;

/// The page.
pub(crate) fn page(experiment: &dyn Experiment, scale: Scale, seed: u64, data: &Data, findings: &Findings) -> String {
    let about = experiment.about();
    let mut page = format!("# {}\n\n**Claim.** {}\n\n", about.title, about.claim);
    page += &format!("**Verdict: {}.**\n\n", findings.answer());
    page += "| claim | verdict | intervals it rests on |\n| --- | --- | --- |\n";
    for verdict in &findings.verdicts {
        let judgement = &verdict.judgement;
        page += &format!("| {} | **{}** | {} |\n", verdict.claim, judgement.answer, judgement.because);
    }
    for verdict in &findings.verdicts {
        if let Some(remark) = &verdict.remark {
            page += &format!("\n*{}* {remark}\n", verdict.claim);
        }
    }
    page += &format!("\n## Setting\n\n{}\n\n## Command\n\n", experiment.setting(scale).trim());
    page += &format!("    {}\n", command(about.name, scale, seed));
    page += "\nNumbers come with their 95 % confidence intervals: mean \\[low, high\\].\n";
    for figure in &findings.figures {
        page +=
            &format!("\n## {}\n\n![{}]({})\n\n{}\n", figure.title, figure.title, figure.file_name(), figure.caption);
    }
    page += "\n## Tables\n";
    for table in &findings.tables {
        page += &format!("\n{} As CSV: [{}]({}).\n", table.caption, table.file_name(), table.file_name());
        if table.on_page {
            page += &format!("\n{}", table.markdown());
        }
    }
    page += &notes(data);
    page + SOURCES
}

/// The command that makes the page.
pub(crate) fn command(name: &str, scale: Scale, seed: u64) -> String {
    let quick = scale.pick(" --quick", "");
    let seed = if seed == super::DEFAULT_SEED { String::new() } else { format!(" --seed {seed}") };
    format!("shortline reproduce {name}{quick}{seed}")
}

fn notes(data: &Data) -> String {
    let mut text = String::new();
    for (key, note) in data.notes() {
        if text.is_empty() {
            text += "\n## Notes on single points\n\n";
        }
        writeln!(text, "- `{key}`: {note}").expect("writing to a string does not fail");
    }
    text
}

const SOURCES: &str = "
## Sources

- \\[W\\] W. Weng, X. Zhou, R. Srikant, \"Optimal Load Balancing in Bipartite Graphs\" (2020).
- \\[R\\] D. Rutten, D. Mukherjee, \"Load Balancing Under Strict Compatibility Constraints\" (2020).
";

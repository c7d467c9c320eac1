use crate::fleets::Build;
use shortline_theory::guarantee::{Analysis, PolicyClass};

fn complete(_m: usize, i: usize) -> f64 {
    if i == 0 { 1.0 } else { 0.0 }
}

fn three_speeds(n: u32, load: f64, buffer: u32) -> shortline_core::Fleet {
    let build = Build::servers(&[]).class(n / 4, 1.0, 1).class(n / 4, 0.5, 1).class(n / 2, 0.25, 1);
    build.buffer(buffer).job_type_on_all(load * 0.5 * f64::from(n), 1.0).done()
}

#[test]
fn tables_print() {
    for n in [64, 128, 256, 512, 1024, 2048, 4096, 16384] {
        for load in [0.5, 0.7, 0.9, 0.95] {
            let fleet = three_speeds(n, load, 5);
            let t = std::time::Instant::now();
            let a = Analysis::new(&fleet, PolicyClass::FastestIdle, &complete).unwrap();
            let t1 = t.elapsed();
            let j = Analysis::new(&fleet, PolicyClass::JoinFastestShortest, &complete).unwrap();
            let t2 = t.elapsed();
            let f = a.fluid_response_s().unwrap();
            println!(
                "{n:6} {load:5} simple {:?} best m {:?} class {:.4} jfsq {:.4}  {:?} {:?}",
                a.simple_jobs(true).map(|x| x.1 / f),
                a.simple_jobs(false).map(|x| x.1 / f),
                a.jobs().mean_response_s / f,
                j.jobs().mean_response_s / f,
                t1,
                t2 - t1
            );
        }
    }
}
#[test]
fn vacuous_print() {
    use shortline_core::policy::PolicySpec;
    use shortline_theory::guarantee::evaluate;
    for (n, load) in [(16, 0.9), (64, 0.9), (64, 0.95), (64, 1.05), (256, 0.97), (2048, 0.99), (100_000, 0.9995)] {
        for delta in [0.0, 0.01, 0.1, 0.9] {
            let fleet = three_speeds(n, load, 5);
            for policy in [PolicySpec::Jfiq, PolicySpec::Jfsq] {
                let t = std::time::Instant::now();
                let g = evaluate(&fleet, policy, &|_, i| if i == 0 { 1.0 } else { delta }).unwrap();
                println!("{n} {load} {delta} {policy} {:?}", t.elapsed());
                match g.jobs {
                    Ok(j) => println!("   jobs {:?}", j.ratio_to_fluid),
                    Err(v) => println!("   {v}"),
                }
                match g.blocking {
                    Ok(j) => println!("   block {:?}", j),
                    Err(v) => println!("   {v}"),
                }
            }
        }
    }
}

//! Inputs that are built to collide cost work in proportion to their length: eight times the input costs about eight
//! times the steps.
//!
//! `RUSTFLAGS="-C instrument-coverage --cfg steps" cargo test --target-dir target/steps --test work`

#![cfg(steps)]

use lookback_fuzz::work::{Motif, Program, work};
use lookback_wire::dialect::Dialect;

use Motif::*;

const INPUTS: [&[Motif]; 19] = [
    &[SameCalls],
    &[SameCalls, Window],
    &[SameCalls, SameResults],
    &[SameCalls, Window, SameResults, Window],
    &[SameCalls, Window, SameResults, SameCalls, Window, SameResults],
    &[NamedAsRepaired, SameResults],
    &[Calls, ResultsBackwards],
    &[Calls, Window, ResultsBackwards, Window],
    &[OpenRounds, ResultsBackwards],
    &[OpenRounds, Window, ResultsBackwards, Window],
    &[Calls],
    &[Nameless],
    &[Nameless, Window],
    &[SameRounds, Users],
    &[SameResults, Systems, Users],
    &[Users, Systems, Users, Systems],
    &[Blanks, Users],
    &[BrokenArguments, LongItems, Users],
    &[Members, Members, Users],
];

/// There is only one test, because the steps are those of the whole process.
#[test]
fn work_grows_with_the_length_of_the_input_and_no_faster() {
    let mut faults = Vec::new();
    for dialect in Dialect::ALL {
        for compacts in [false, true] {
            for input in INPUTS {
                let run = |count: usize| {
                    let motifs = input.iter().map(|motif| (*motif, count)).collect();
                    Program { dialect, compacts, motifs }.run()
                };
                // Tables that are built once are built before the measurement.
                run(10);
                let ((bytes, steps), (more_bytes, more_steps)) = (run(200), run(1_600));
                let growth = (more_steps as f64 / steps as f64) / (more_bytes as f64 / bytes as f64);
                let a_byte = more_steps / more_bytes;
                println!("{dialect} {compacts} {input:?}: {a_byte} steps a byte, growing by {growth:.2}");
                // Sorting and searching cost a logarithm, which stays below this bound. Quadratic work would give 8.
                if growth > 1.5 {
                    faults.push(format!("{dialect} {compacts} {input:?}: {growth:.2}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    // Mixtures of the motifs are checked, too, as a fuzzer would find them.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..16 {
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let data: Vec<u8> = (0..12).map(|_| byte()).collect();
        work(&data);
    }
}

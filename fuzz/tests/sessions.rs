//! Work on a session grows with its length: four times the messages cost about four times the steps.
//!
//! `RUSTFLAGS="-C instrument-coverage --cfg steps" cargo test --target-dir target/steps --test sessions`

#![cfg(steps)]

use lookback_fuzz::sessions::{Long, Task};

/// There is only one test, because the steps are those of the whole process.
#[test]
fn work_on_a_session_grows_with_its_length_and_no_faster() {
    let mut faults = Vec::new();
    for long in Long::ALL {
        for task in Task::ALL {
            // Tables that are built once are built before the measurement.
            task.steps(long, 20);
            let (steps, more) = (task.steps(long, 500), task.steps(long, 2_000));
            let growth = more as f64 / steps as f64;
            println!("{long:?} {task:?}: {steps} steps, {growth:.2} times as many for four times the messages");
            // Sorting and searching cost a logarithm, which stays below this bound. Quadratic work would give 16.
            if growth > 6.0 {
                faults.push(format!("{long:?} {task:?}: {growth:.2}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

use std::{fs, time::Duration};

use super::{Part, Size, TablesOptions, run};
use crate::disk::options::{Files, engine};

#[test]
fn a_tiny_run_has_a_point_at_every_tenth() {
    let directory =
        std::env::temp_dir().join(format!("kelvin-peers-tables-{}", std::process::id()));
    fs::create_dir(&directory).expect("a directory");
    let (json, svg) = (directory.join("tables.json"), directory.join("tables.svg"));
    let options = TablesOptions {
        records: 4000,
        rounds: 2,
        settle_time_max: Duration::ZERO,
        window: Duration::from_millis(1),
        engines: ["kelvin", "kelvin-pages"].map(|name| engine(name).expect("it is there")).to_vec(),
        directory: directory.join("stores"),
        files: Files { json: Some(json.clone()), svg: Some(svg.clone()) },
        ..TablesOptions::default()
    };
    run(&options).expect("it runs");
    let text = fs::read_to_string(json).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let curves = report["curves"].as_array().expect("there are curves");
    assert_eq!(curves.len(), Part::ALL.len() * Size::ALL.len() * 2);
    for curve in curves {
        let records = if curve["size"] == "large" { 40 } else { 4000 };
        let runs = curve["runs"].as_array().expect("there are runs");
        assert_eq!(runs.len(), 2);
        for run in runs {
            let points = run["points"].as_array().expect("there are points");
            let stored: Vec<_> = points.iter().map(|point| point["records"].as_u64()).collect();
            let expected: Vec<_> = (1..=10).map(|nth| Some(nth * records / 10)).collect();
            assert_eq!(stored, expected, "{curve}");
            assert_eq!(run["is_cut"], false);
        }
    }
    let svg = fs::read_to_string(svg).expect("it was written");
    let lines = svg.matches("stroke-width=\"2\"").count();
    assert_eq!(lines, (Part::ALL.len() * Size::ALL.len() + 1) * 2, "and in the legend");
    let left = fs::read_dir(directory.join("stores")).expect("it is there");
    assert_eq!(left.count(), 0, "stores are removed");
    fs::remove_dir_all(&directory).expect("it was there");
}

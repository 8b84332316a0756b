use std::{fs, path::PathBuf};

use super::{KINDS, Setup};
use crate::disk::load::Load;

const RECORDS: u32 = 500;

const REMOVED: u32 = 17;

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("kelvin-peers-{}-{name}", std::process::id()));
    fs::create_dir(&path).expect("a directory");
    path
}

#[test]
fn what_was_put_is_there_after_a_close_in_every_engine_and_mode() {
    let load = Load::new(RECORDS, 3000);
    for kind in KINDS {
        for is_safe in [false, true] {
            let path = directory(&format!("{}-{is_safe}", kind.name));
            let setup = Setup { is_safe, ..Setup::new(&path, RECORDS, 3000) };
            let open = || (kind.open)(&setup).expect("it opens");
            let engine = open();
            {
                let mut session = engine.session().expect("a session");
                for key in 0..RECORDS - 1 {
                    session.put(key, load.value(key)).expect("it is stored");
                }
                session.remove(REMOVED).expect("it is there");
                session.remove(RECORDS - 1).expect("it may be absent");
            }
            engine.flush().expect("it is flushed");
            engine.close().expect("it closes");
            let engine = open();
            {
                let mut session = engine.session().expect("a session");
                let mut out = vec![0; 3000];
                for key in (0..RECORDS - 1).filter(|key| *key != REMOVED) {
                    let got = session.get(key, &mut out).expect("it can be read");
                    assert_eq!(got, Some(3000), "{} {key}", kind.name);
                    assert_eq!(out, load.value(key), "{} {key}", kind.name);
                }
                for key in [REMOVED, RECORDS - 1] {
                    assert_eq!(session.get(key, &mut out).expect("it is read"), None);
                }
            }
            engine.close().expect("it closes");
            fs::remove_dir_all(&path).expect("it was there");
        }
    }
}

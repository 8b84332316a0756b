use std::path::{Path, PathBuf};

use base::size::ByteSize;

use super::*;
use crate::{
    Error,
    config::{Budget, Effective, Layer},
};

const PATH: &str = "/etc/kelvin.toml";

fn effective(text: &str) -> Result<Effective, Error> {
    Effective::new([Layer::from_toml(Path::new(PATH), text)?])
}

fn refusal(text: &str) -> String {
    match effective(text) {
        Ok(effective) => panic!("{text} is taken: {effective}"),
        Err(Error::ParseConfig { source, .. }) => source.to_string(),
        Err(error) => error.to_string(),
    }
}

const USER: &str = "[[table]]\nname = \"user\"\nprefix = \"user:\"\n";

#[test]
fn sections_are_tables_and_what_is_printed_means_the_same() {
    let text = "data_dir = \"/data\"\ntable_kind = \"volatile\"\n\n\
        [[table]]\nname = \"user\"\nprefix = \"user:\"\nkind = \"durable\"\nkeys = \"integer\"\n\
        range = [0, 100_000_000]\nposition_bytes = 6\nwrite_mode = \"async\"\nmemory = \"128MiB\"\n\
        value_size_max = \"4MiB\"\n\n\
        [[table]]\nname = \"page\"\nprefix = \"page/\"\nkind = \"spill\"\nspill_size = \"32MiB\"\n\
        spill_admission = \"seen\"\nspill_recover = true\ndirectory = \"/other/page\"\n\n\
        [[table]]\nname = \"hot\"\nprefix = \"h\"\nkind = \"volatile\"\npolicy = \"lru\"\n";
    let effective = self::effective(text).expect("it can be");
    let config = effective.config();
    let [user, page, hot] = &config.tables[..] else { panic!("{:?}", config.tables) };
    assert_eq!((&*user.name, &*user.prefix, user.memory), ("user", "user:", ByteSize(128 << 20)));
    let range = KeyRange { first: 0, end: 100_000_000 };
    let integers = IntegerKeys { range, position_bytes: PositionBytes(6) };
    assert_eq!(user.integers(), Some(integers));
    assert_eq!((page.integers(), page.memory), (None, ByteSize(64 << 20)));
    let places = config.tables.iter().map(|table| table.log_directory(config.data_dir.as_deref()));
    let expected = ["/data/tables/user", "/other/page"].map(|path| Some(PathBuf::from(path)));
    assert!(places.eq(expected.into_iter().chain([None])));
    assert_eq!((config.has_log(), config.logs()), (false, 2));
    // A table is made by settings of its own.
    let own = config.of_table(page);
    assert!(own.spills() && own.spill_recover && own.spill_size == ByteSize(32 << 20));
    assert_eq!((own.threads(), own.tables.len()), (config.threads(), 0));
    assert!(!config.of_table(hot).has_log());
    let budget = Budget::of_table(&own, 2).expect("enough");
    assert_eq!((budget.buffer_bytes, budget.connection_bytes), (0, 0));
    // Twice, with the second printed from the first.
    let printed = effective.to_string();
    let again = self::effective(&printed).unwrap_or_else(|error| panic!("{error}:\n{printed}"));
    let values = |config: &Config| {
        format!("{:?}", { config.tables.iter() }.map(TableConfig::to_toml).collect::<Vec<_>>())
    };
    assert_eq!(values(again.config()), values(config), "{printed}");
}

#[test]
fn a_section_that_cannot_be_is_refused_in_words() {
    let durable = format!("data_dir = \"/data\"\n{USER}kind = \"durable\"\n");
    let volatile = format!("{USER}kind = \"volatile\"\n");
    let integer = format!("{durable}keys = \"integer\"\n");
    for (text, words) in [
        ("[[table]]\nprefix = \"u\"".to_owned(), "it has no `name`"),
        ("[[table]]\nname = \"a b\"\n".to_owned(), "1 to 32 of a-z, 0-9, - and _"),
        ("[[table]]\nname = \"..\"\n".to_owned(), "1 to 32 of a-z, 0-9, - and _"),
        ("[[table]]\nname = \"default\"\n".to_owned(), "those of the default table"),
        ("[[table]]\nname = \"u\"\nkind = \"volatile\"".to_owned(), "it has no `prefix`"),
        ("[[table]]\nname = \"u\"\nprefix = \"a b\"".to_owned(), "blanks or control"),
        (format!("[[table]]\nname = \"u\"\nprefix = \"{}\"", "x".repeat(250)), "no key of 250"),
        (USER.to_owned(), "`kind` is one of volatile, spill, durable"),
        (format!("{USER}kind = \"both\""), "`both` is not one of"),
        (format!("{USER}colour = \"red\""), "unknown field `colour`"),
        (format!("{volatile}{volatile}"), "two tables of this name"),
        (
            format!("{volatile}[[table]]\nname = \"v\"\nprefix = \"user:\"\nkind = \"volatile\""),
            "`user:` is that of the table `user`",
        ),
        (format!("{USER}kind = \"durable\""), "or `data_dir`"),
        (format!("{durable}directory = \"../x\""), "it has no `..`"),
        (format!("{durable}directory = \"/data/\""), "/data is that of `data_dir`"),
        (
            format!(
                "{durable}[[table]]\nname = \"v\"\nprefix = \"v\"\nkind = \"spill\"\n\
                 directory = \"/data//tables/./user\""
            ),
            "that of the table `user`",
        ),
        (format!("{volatile}directory = \"x\""), "volatile has no such setting"),
        (format!("{volatile}write_mode = \"safe\""), "volatile has no such setting"),
        (format!("{durable}spill_size = \"32MiB\""), "durable has no such setting"),
        (
            format!("data_dir = \"/data\"\n{USER}kind = \"spill\"\nwrite_mode = \"safe\""),
            "spills and does not recover has no such setting",
        ),
        (
            format!("data_dir = \"/data\"\n{USER}kind = \"spill\"\nspill_size = \"1MiB\""),
            "`spill_size` must be from 16MiB",
        ),
        (format!("{volatile}keys = \"integer\"\nrange = [0, 9]"), "only a durable table"),
        (format!("{durable}range = [0, 9]"), "whose keys are bytes has no such setting"),
        (integer.clone(), "`range` has the first key"),
        (format!("{integer}range = [0]"), "a range has two numbers"),
        (format!("{integer}range = [9, 9]"), "`range` has the first key"),
        (format!("{integer}range = [-1, 9]"), "are not two whole numbers"),
        (format!("{integer}range = [0, 68719476737]"), "up to 2^36 keys"),
        (format!("{integer}range = [0, 9]\nposition_bytes = 9"), "is not from 4 to 8"),
        (format!("{volatile}memory = \"1MiB\""), "leaves 1MiB for records; at least 16MiB"),
        (format!("{durable}memory = \"32MiB\""), "32MiB for the log"),
        (format!("{volatile}value_size_max = \"100\""), "must be from 1KiB to"),
        (format!("{volatile}value_size_max = \"17MiB\"\nmemory = \"1GiB\""), "1KiB to 16MiB"),
        (format!("evictions = false\n{volatile}"), "several tables has not memory that keeps all"),
        (format!("listen_udp = \"127.0.0.1:1\"\n{volatile}"), "has not datagrams"),
        (format!("restart_file = \"x\"\n{volatile}"), "has not a file that keeps records"),
        (format!("data_dir = \"/data\"\ntable_kind = \"volatile\"\n{volatile}"), "no use for"),
    ] {
        let said = refusal(&text);
        assert!(said.contains(words), "{text}\n{said}");
    }
}

#[test]
fn there_are_so_many_tables_and_no_more() {
    let table =
        |at| format!("[[table]]\nname = \"t{at}\"\nprefix = \"t{at}:\"\nkind = \"volatile\"\n");
    let tables = |count| (1..count).map(table).collect::<String>();
    assert!(effective(&tables(TABLES_MAX)).is_ok());
    assert!(refusal(&tables(TABLES_MAX + 1)).contains("more than 64 tables"));
}

//! The engine with the index that everybody uses, compiled here.
//!
//! What is generic is compiled by each crate that uses it, and for its tests once more, unless a
//! crate that it depends on has done so. Then both share it, if neither is built with optimisation
//! level 2 or 3: so this is for builds with debug assertions, of which most are not. The server,
//! the simulation, `kelvin` and the tests of all three have the engine and the log from here. What
//! is missing in the list is compiled there, and nothing else comes of it.

use crate::{
    Log, Options, Records,
    engine::{Engine, Opening, Report},
    error::Error,
    format::LogId,
    index::{IndexLimits, Keyed},
    plan::Disk,
};

type KeyedEngine = Engine<Keyed>;
type KeyedLog = Log<Keyed>;

fn open(
    disk: &mut dyn Disk,
    opening: Opening<'_>,
    limits: IndexLimits,
) -> Result<(KeyedEngine, Report), Error> {
    KeyedEngine::open(disk, opening, limits)
}

fn inspect(
    disk: &mut dyn Disk,
    opening: Opening<'_>,
    limits: IndexLimits,
) -> Result<(KeyedEngine, Report), Error> {
    KeyedEngine::inspect(disk, opening, limits)
}

fn open_log(
    options: &Options,
    id: LogId,
    limits: IndexLimits,
) -> Result<(KeyedLog, Report), Error> {
    KeyedLog::open(options, id, limits, &mut |_| {})
}

fn inspect_log(options: &Options, limits: IndexLimits) -> Result<(KeyedLog, Report), Error> {
    KeyedLog::inspect(options, limits, &mut |_| {})
}

fn next<'a>(records: &mut Records<'a, Keyed>) -> Option<<Records<'a, Keyed> as Iterator>::Item> {
    records.next()
}

/// Where the code of the engine is: this, and whatever it calls, is compiled for its sake. Nobody
/// calls it.
#[must_use]
pub fn engine() -> impl IntoIterator<Item = *const ()> {
    [
        open as *const (),
        inspect as *const (),
        KeyedEngine::write_batch as *const (),
        KeyedEngine::is_move_urgent as *const (),
        KeyedEngine::begin_large as *const (),
        KeyedEngine::put_part as *const (),
        KeyedEngine::put_head as *const (),
        KeyedEngine::put_head_anew as *const (),
        KeyedEngine::get as *const (),
        KeyedEngine::seen as *const (),
        KeyedEngine::ask_for as *const (),
        KeyedEngine::leads_to as *const (),
        KeyedEngine::fetched as *const (),
        KeyedEngine::tell_wall_ms as *const (),
        KeyedEngine::settle_moves as *const (),
        KeyedEngine::may_take_turn as *const (),
        KeyedEngine::stay_in_turns as *const (),
        KeyedEngine::pin as *const (),
        KeyedEngine::has as *const (),
        KeyedEngine::knows as *const (),
        KeyedEngine::has_records as *const (),
        KeyedEngine::is_whole as *const (),
        KeyedEngine::drop_key as *const (),
        KeyedEngine::begin_backup as *const (),
        KeyedEngine::end_backup as *const (),
        KeyedEngine::put as *const (),
        KeyedEngine::remove as *const (),
        KeyedEngine::validate as *const (),
        KeyedEngine::parts as *const (),
        KeyedEngine::part as *const (),
        KeyedEngine::all_parts as *const (),
        KeyedEngine::is_compacting as *const (),
        KeyedEngine::space as *const (),
        KeyedEngine::lacks_room as *const (),
        KeyedEngine::poll as *const (),
        KeyedEngine::poll_records as *const (),
        KeyedEngine::poll_upkeep as *const (),
        KeyedEngine::poll_beside as *const (),
        KeyedEngine::complete as *const (),
        KeyedEngine::has_work as *const (),
        KeyedEngine::close as *const (),
        KeyedEngine::set_mode as *const (),
        KeyedEngine::durable as *const (),
        KeyedEngine::may_answer as *const (),
        KeyedEngine::may_answer_all as *const (),
        KeyedEngine::drain as *const (),
        KeyedEngine::drained as *const (),
        KeyedEngine::iterate as *const (),
        KeyedEngine::keep_newest as *const (),
        KeyedEngine::find_shown as *const (),
        KeyedEngine::end_iteration as *const (),
        KeyedEngine::keys_from as *const (),
        KeyedEngine::wipe as *const (),
        KeyedEngine::wiped as *const (),
        KeyedEngine::grow as *const (),
        KeyedEngine::verify as *const (),
    ]
}

/// The same of the log whose calls block.
#[must_use]
pub fn log() -> impl IntoIterator<Item = *const ()> {
    [
        open_log as *const (),
        inspect_log as *const (),
        next as *const (),
        KeyedLog::put as *const (),
        KeyedLog::remove as *const (),
        KeyedLog::write_batch as *const (),
        KeyedLog::grow as *const (),
        KeyedLog::get as *const (),
        KeyedLog::multi_get as *const (),
        KeyedLog::flush as *const (),
        KeyedLog::set_mode as *const (),
        KeyedLog::close as *const (),
        KeyedLog::backup as *const (),
        KeyedLog::verify as *const (),
        KeyedLog::compact as *const (),
        KeyedLog::iterate as *const (),
    ]
}

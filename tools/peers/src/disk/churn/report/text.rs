//! Tables and verdicts: a table for each size of values and each choice of keys, and whether what
//! the log has to keep was kept.

use std::fmt::Write;

use super::{Alone, Pair, Popularity, RIVAL, Report, Row, Sample, Shrunk, share};

/// What the log has to keep: the rate, of the rival's; the worst put; and how many times the quiet
/// p99 that of puts at half the rate is.
const OF_RIVAL_MIN: f64 = 3.0;
const WORST_MS_MAX: f64 = 20.0;
const P99_OF_QUIET_MAX: f64 = 2.0;

/// A loop without a store that has asked for less of what it was to is marked.
const ASKED_SHARE_MIN: f64 = 0.9;

/// Bytes written, at most, for each byte of a value.
fn written_max(keys: Popularity) -> f64 {
    match keys {
        Popularity::Uniform => 2.8,
        Popularity::Zipf => 2.5,
    }
}

impl Report {
    /// As Markdown.
    pub(in crate::disk::churn) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("a string takes everything");
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        for (size, keys) in self.blocks() {
            let rows = || self.rows.iter().filter(|row| (row.size, row.keys) == (size, keys));
            let rival = rows().find(|row| row.engine == RIVAL);
            writeln!(
                out,
                "### Values of {}, {} keys\n\n\
                 | store | overwrites/s | of {RIVAL} | bytes written a byte | most space / data | \
                 bound / data | looks above it | p99.9 us | worst ms | p99 us at half the rate \
                 (woken late) | quiet (woken late) | ratio | of a loop without a store: p99 us at \
                 half the rate | quiet | ratio | worst ms |\n\
                 |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
                size.label(),
                keys.name()
            )?;
            rows().try_for_each(|row| write_churn(row, rival, out))?;
            writeln!(
                out,
                "\n| 90 % removed | removes/s | space MiB | bound MiB | open, free segments | \
                 held after s |\n|---|---|---|---|---|---|"
            )?;
            rows().try_for_each(|row| write_shrunk(row, out))?;
            writeln!(out)?;
        }
        self.write_marks(out)?;
        self.rows.iter().filter(|row| self.is_subject(row)).try_for_each(|row| {
            let rival = self.rows.iter().find(|it| it.is_rival_of(row));
            write_verdicts(row, rival, out)
        })?;
        self.write_setting(out)
    }

    /// What a star means, where there is one.
    fn write_marks(&self, out: &mut String) -> std::fmt::Result {
        if self.rows.iter().any(|row| row.any(Sample::is_marked)) {
            let seconds = self.put_seconds_max;
            writeln!(
                out,
                "\\* Overwrites: not all were done after {seconds} s, and no more were begun; what \
                 else was found is of fewer overwrites. Bytes written: the store was not quiet \
                 when they were counted. p99: the store fell so far behind that no more came, or \
                 had not become quiet between windows; without a store, less was asked of the \
                 device than a store had.\n"
            )?;
        }
        Ok(())
    }

    fn write_setting(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n{}\n", self.machine.line())?;
        writeln!(
            out,
            "{} records of 1 KiB; as many overwrites as make {} of each on average, by {} \
             writers; rounds: {}; pairs of windows at half the rate: {} a round; medians, and of \
             space and of the worst the most.",
            self.records, self.times, self.writers, self.rounds, self.pairs
        )?;
        for kind in &self.engines {
            let row = self.rows.iter().find(|row| row.engine == kind.name);
            if let Some((row, sample)) = row.and_then(|row| Some((row, row.samples.first()?))) {
                writeln!(out, "- {}: {}; {}", kind.name, sample.settings, row.at_risk)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    fn is_marked(&self) -> bool {
        let is_any_alone =
            self.pairs.iter().any(|it| [it.bare_busy, it.bare_quiet].iter().any(Alone::is_marked));
        self.is_cut || !self.is_settled || self.is_any_pair_cut() || is_any_alone
    }

    fn is_any_pair_cut(&self) -> bool {
        self.pairs.iter().any(|it| it.busy.is_cut || it.quiet.is_cut || !it.is_settled)
    }
}

impl Alone {
    fn is_marked(&self) -> bool {
        self.offered.is_cut || self.asked_share < ASKED_SHARE_MIN
    }
}

/// A star behind what is not what it seems.
fn star(is_marked: bool) -> &'static str {
    if is_marked { "\\*" } else { "" }
}

fn write_churn(row: &Row, rival: Option<&Row>, out: &mut String) -> std::fmt::Result {
    let per_s = row.median(|it| it.churned.per_s);
    let of_rival = rival.map(|rival| per_s / rival.median(|it| it.churned.per_s));
    let is_cut = row.any(|it| it.is_cut);
    let is_any_cut = is_cut || rival.is_some_and(|rival| rival.any(|it| it.is_cut));
    let most = row.most(|it| share(it.most_bytes(), it.bound.user_bytes));
    write!(out, "| {} | {per_s:.0}{} |", row.engine, star(is_cut))?;
    match of_rival {
        Some(ratio) => write!(out, " {ratio:.2}{} |", star(is_any_cut))?,
        None => write!(out, " - |")?,
    }
    let written = row.median(|it| it.write_amplification.unwrap_or(f64::NAN));
    let is_unsettled = row.any(|it| !it.is_settled);
    write!(out, " {written:.2}{} | {most:.2} |", star(is_cut || is_unsettled))?;
    match row.samples.first().filter(|it| it.bound.is_promised()) {
        Some(sample) => {
            let (looks, above) = row.looks_above();
            let bound = share(sample.bound.most_bytes(), sample.bound.user_bytes);
            write!(out, " {bound:.2} | {above} of {looks} |")?;
        }
        None => write!(out, " - | - |")?,
    }
    write!(
        out,
        " {:.0} | {:.1} | {:.1} ({:.1}){} | {:.1} ({:.1}){} |",
        row.median(|it| it.churned.p999_us),
        row.most(|it| it.churned.worst_ms),
        row.median_of_pairs(|it| it.busy.pace.p99_us),
        row.median_of_pairs(|it| it.busy.woken_p99_us),
        star(row.pairs().any(|it| it.busy.is_cut)),
        row.median_of_pairs(|it| it.quiet.pace.p99_us),
        row.median_of_pairs(|it| it.quiet.woken_p99_us),
        star(row.pairs().any(|it| it.quiet.is_cut || !it.is_settled)),
    )?;
    write_spread(row.spread_of_pairs(Pair::of_quiet), out)?;
    write!(
        out,
        " {:.1}{} | {:.1}{} |",
        row.median_of_pairs(|it| it.bare_busy.offered.pace.p99_us),
        star(row.pairs().any(|it| !it.is_settled || it.bare_busy.is_marked())),
        row.median_of_pairs(|it| it.bare_quiet.offered.pace.p99_us),
        star(row.pairs().any(|it| !it.is_settled || it.bare_quiet.is_marked())),
    )?;
    write_spread(row.spread_of_pairs(Pair::bare_of_quiet), out)?;
    writeln!(out, " {:.1} |", row.bare_worst_ms())
}

fn write_spread([least, ratio, most]: [f64; 3], out: &mut String) -> std::fmt::Result {
    write!(out, " {ratio:.2} ({least:.2} to {most:.2}) |")
}

/// What is said of a bar. A run that was cut cannot hold one, and has not failed it either.
fn verdict(is_held: bool, is_whole: bool) -> &'static str {
    match (is_held, is_whole) {
        (_, false) => "no verdict, cut",
        (true, true) => "held",
        (false, true) => "NOT held",
    }
}

/// Whether what the log has to keep was kept, in a line each.
fn write_verdicts(row: &Row, rival: Option<&Row>, out: &mut String) -> std::fmt::Result {
    let per_s = |row: &Row| row.median(|it| it.churned.per_s);
    let (_, above) = row.looks_above();
    let never = row.samples.iter().filter(|it| it.shrunk.held_after_s.is_none()).count();
    let written = row.median(|it| it.write_amplification.unwrap_or(f64::NAN));
    let worst_busy_ms = row.worst_busy_ms();
    let worst_ms = row.most(|it| it.churned.worst_ms).max(worst_busy_ms);
    let of_quiet = row.median_of_pairs(Pair::of_quiet);
    let bare_of_quiet = row.median_of_pairs(Pair::bare_of_quiet);
    let is_whole = !row.any(|it| it.is_cut);
    let mut say = |what: &str, verdict: &str| {
        let (size, keys, engine) = (row.size.name(), row.keys.name(), row.engine);
        writeln!(out, "{size} {keys} {engine}: {what}: {verdict}")
    };
    // What was broken in a part of a run is broken.
    let of_most = |is_held: bool| verdict(is_held, is_whole || !is_held);
    say(&format!("{above} looks above the bound of space"), of_most(above == 0))?;
    let is_counted = is_whole && !row.any(|it| !it.is_settled);
    let is_held = written <= written_max(row.keys);
    say(&format!("{written:.2} bytes written a byte"), verdict(is_held, is_counted))?;
    if let Some(rival) = rival {
        let of_rival = per_s(row) / per_s(rival);
        let are_whole = is_whole && !rival.any(|it| it.is_cut);
        let verdict = verdict(of_rival >= OF_RIVAL_MIN, are_whole);
        say(&format!("{of_rival:.2} of {RIVAL}'s overwrites"), verdict)?;
    }
    let still = row.still_ms().map_or_else(|| "-".to_owned(), |time| format!("{time:.0}"));
    let worst = format!(
        "a worst put of {worst_ms:.1} ms (at half the rate {worst_busy_ms:.1}, without a store \
         {:.1}; the device stood still for {still})",
        row.bare_worst_ms()
    );
    say(&worst, of_most(worst_ms <= WORST_MS_MAX))?;
    let are_whole = !row.any(Sample::is_any_pair_cut);
    let is_held = of_quiet <= P99_OF_QUIET_MAX;
    let p99 =
        format!("a p99 of {of_quiet:.2} of the quiet one, without a store {bare_of_quiet:.2}");
    say(&p99, verdict(is_held, are_whole))?;
    say(&format!("{never} times space did not come back"), verdict(never == 0, true))
}

fn write_shrunk(row: &Row, out: &mut String) -> std::fmt::Result {
    for Shrunk { bound, removes_per_s, held_after_s, looks } in
        row.samples.iter().map(|sample| &sample.shrunk)
    {
        let last = looks.last();
        let mib = last.map_or(0, |look| look.bytes >> 20);
        let own = last.and_then(|look| look.own);
        let own = own.map_or_else(|| "-".to_owned(), |own| format!("{}, {}", own.open, own.free));
        let (most_mib, held) = if bound.is_promised() {
            let held = held_after_s.map_or_else(|| "never".to_owned(), |time| format!("{time:.1}"));
            ((bound.most_bytes() >> 20).to_string(), held)
        } else {
            ("-".to_owned(), "-".to_owned())
        };
        let engine = row.engine;
        writeln!(out, "| {engine} | {removes_per_s:.0} | {mib} | {most_mib} | {own} | {held} |")?;
    }
    Ok(())
}

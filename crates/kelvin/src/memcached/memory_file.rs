//! The file of `-e`: what a memcached may have left there.

use std::path::Path;

use super::refusal::Refusal;

/// Behind the name of a memcached's file of memory, the file that says what is in it. A memcached
/// writes it when it ends and removes it when it starts.
const META: &str = ".meta";

/// Refuses the file of a memcached that has ended: it would be written over in the end.
///
/// # Errors
/// There is such a file.
pub(super) fn check(path: Option<&str>) -> Result<(), Refusal> {
    let Some(path) = path else { return Ok(()) };
    let meta = format!("{path}{META}");
    match Path::new(&meta).symlink_metadata() {
        Ok(_) => Err(Refusal::failure(format!(
            "{meta} is there, so a memcached has left {path}: remove both, or name another file"
        ))),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_a_memcached_has_left_is_not_written_over() {
        let path = std::env::temp_dir().join(format!("kelvin-memory-{}", std::process::id()));
        let path = path.to_string_lossy().into_owned();
        assert_eq!((check(None), check(Some(&path))), (Ok(()), Ok(())));
        let meta = format!("{path}.meta");
        std::fs::write(&meta, "").expect("the temporary directory can be written");
        let refusal = check(Some(&path)).expect_err("it is there");
        let _ = std::fs::remove_file(&meta);
        assert_eq!((refusal.code, refusal.message.contains(&meta)), (1, true));
    }
}

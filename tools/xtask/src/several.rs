//! Work for several threads: what is waited for in one goes on in the others.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

/// Does `work` to every item, so many at a time, those before others first. `report` gets what came
/// of each as it ends, and its answer is returned.
pub(crate) fn at_a_time<Item: Send, Done: Send, Answer>(
    count: usize,
    items: impl IntoIterator<Item = Item>,
    work: impl Fn(Item) -> Done + Sync,
    report: impl FnOnce(mpsc::IntoIter<Done>) -> Answer,
) -> Answer {
    let queue = Mutex::new(items.into_iter().collect::<VecDeque<_>>());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (sender, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..count {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(item) = next() {
                    if sender.send(work(item)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        report(done.into_iter())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::at_a_time;

    #[test]
    fn every_item_is_worked_on_once() {
        let mut done = at_a_time(3, 0..100, |item| item * 2, Vec::from_iter);
        done.sort_unstable();
        assert_eq!(done, Vec::from_iter((0..100).map(|item| item * 2)));
        assert_eq!(at_a_time(1, 0..5, |item| item, Vec::from_iter), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn so_many_are_worked_on_together() {
        // Ends only if three come together.
        let meeting = Barrier::new(3);
        assert_eq!(at_a_time(3, 0..3, |_| _ = meeting.wait(), Iterator::count), 3);
    }
}

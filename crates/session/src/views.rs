//! What a log showed at earlier positions.

use lookback_engine::transcript::Position;
use lookback_engine::view::View;

use super::log::fold;
use super::walk::{Step, walk};
use lookback_store::{LogName, Store, StoreError};

/// Returns what a log showed right before a position: for the position of an answer, what the model was sent.
///
/// # Errors
/// Returns an error if the store fails. What was there before contents were erased is not known: the view is that of a
/// later position then.
pub async fn view_at(store: &dyn Store, log: &LogName, position: Position) -> Result<View, StoreError> {
    let head = store.head(log, Some(position)).await?;
    fold(store, log, head.and_then(|head| head.checkpoint), position).await
}

/// Goes through a log once, and gives what it showed right before each of these positions, which increase.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn each_view(
    store: &dyn Store,
    log: &LogName,
    positions: &[Position],
    on_view: &mut (dyn FnMut(&View) + Send),
) -> Result<(), StoreError> {
    let (mut view, mut positions) = (View::default(), positions.iter().peekable());
    walk(store, log, &mut |step| match step {
        Step::Begin(_, begun) | Step::GoBack(_, begun) => view = begun,
        Step::Read(position, entry) => {
            if positions.next_if(|next| **next == position).is_some() {
                on_view(&view);
            }
            view.apply(position, entry);
        }
    })
    .await
}

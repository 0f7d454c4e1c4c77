//! The views of a log at earlier positions.

use lookback_engine::transcript::Position;
use lookback_engine::view::View;

use super::log::fold;
use super::walk::{Step, walk};
use lookback_store::{LogName, Store, StoreError};

/// Returns the view of a log directly before a position. For the position of an answer, that is the window that the
/// model was sent.
///
/// If earlier contents were erased, the view may be that of a later position.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn view_at(store: &dyn Store, log: &LogName, position: Position) -> Result<View, StoreError> {
    let head = store.head(log, Some(position)).await?;
    fold(store, log, head.and_then(|head| head.checkpoint), position).await
}

/// Reads a log once, and calls `on_view` with the view directly before each of these positions. The positions must be
/// in ascending order.
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

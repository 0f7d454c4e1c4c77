//! The timeline of a session, read from its log.

use lookback_core::tokens::TokenCounter;
use lookback_core::transcript::Position;
use lookback_core::view::View;

use super::log::fold;
use super::walk::{Step, walk};
use crate::prices::Price;
use crate::store::{LogName, Store, StoreError};
use crate::timeline::{Builder, Timeline};

/// Reads what each call of a session saw (see [`timeline`](crate::timeline)). The session need not be open. The cost of
/// this grows with the whole history.
///
/// The counter and the price are those of a [receipt](super::receipt()). A log that does not exist has no calls.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn timeline(
    store: &dyn Store,
    log: &LogName,
    counter: &dyn TokenCounter,
    price: &Price,
) -> Result<Timeline, StoreError> {
    let mut builder = Builder::new(price, counter);
    walk(store, log, &mut |step| match step {
        Step::Begin(at, view) => builder.begin(at, view),
        Step::Read(position, entry) => builder.read(position, entry),
        Step::GoBack(end, view) => builder.go_back(end, view),
    })
    .await?;
    Ok(builder.timeline())
}

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

//! The errors of the REST API, in the form of the gateway's other errors.

use axum::body::Body;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use lookback_facts::{BadFactId, MemoryError, Refused};
use lookback_session::Error;
use lookback_store::BadName;
use lookback_store::StoreError;
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

use crate::gateway::http::answers;

/// The reason that a call is not answered.
#[derive(Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    message: String,
}

/// The responses of calls that fail.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "for the document")]
pub(super) enum Faults {
    /// The request is invalid, is not allowed, or names something that does not exist.
    #[response(status = "4XX")]
    Request(FaultBody),
    /// The store failed.
    #[response(status = "5XX")]
    Store(FaultBody),
}

/// An error.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(super) struct FaultBody {
    /// The error.
    error: FaultText,
}

/// The kind and the message of an error.
#[derive(Serialize, ToSchema)]
#[schema(as = ErrorText)]
pub(super) struct FaultText {
    /// The message, for people.
    message: String,
    /// The kind of error, such as `not_found_error`.
    r#type: String,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl ToString) -> Fault {
        Fault { status, message: message.to_string() }
    }

    pub(super) fn missing(what: impl std::fmt::Display) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, format_args!("there is no {what}"))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response<Body> {
        answers::error(self.status, &self.message, None)
    }
}

impl From<BadName> for Fault {
    fn from(error: BadName) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, error)
    }
}

impl From<BadFactId> for Fault {
    fn from(error: BadFactId) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, error)
    }
}

impl From<StoreError> for Fault {
    /// Replaces the message of the store, which may reveal its location.
    fn from(error: StoreError) -> Fault {
        match error {
            StoreError::Damaged { .. } => Fault::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the session is damaged; `lookback store verify` says where",
            ),
            StoreError::ReadOnly { .. } => Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the store is read-only"),
            _ => Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer; try again later"),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Name(error) => error.into(),
            Error::Store(error) => error.into(),
            error => Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error),
        }
    }
}

impl From<MemoryError> for Fault {
    fn from(error: MemoryError) -> Fault {
        match error {
            MemoryError::Name(error) => error.into(),
            MemoryError::Store(error) => error.into(),
            MemoryError::Refused(error @ Refused::Gone { .. }) => Fault::new(StatusCode::NOT_FOUND, error),
            MemoryError::Refused(error @ (Refused::Empty { .. } | Refused::Long { .. } | Refused::Many { .. })) => {
                Fault::new(StatusCode::BAD_REQUEST, error)
            }
            MemoryError::Refused(error) => Fault::new(StatusCode::CONFLICT, error),
            error => Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error),
        }
    }
}

impl From<PathRejection> for Fault {
    fn from(error: PathRejection) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, error.body_text())
    }
}

impl From<QueryRejection> for Fault {
    fn from(error: QueryRejection) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, error.body_text())
    }
}

impl From<JsonRejection> for Fault {
    fn from(error: JsonRejection) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, error.body_text())
    }
}

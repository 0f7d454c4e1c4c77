//! HTTP as the gateway speaks it: headers, bodies, encodings, endpoints and its own answers.

pub(crate) mod answers;
pub(crate) mod body;
pub(crate) mod copy;
pub(crate) mod encoding;
pub(crate) mod endpoint;
pub(crate) mod headers;

//! The faults of a folder of KB Labs, and of the files in it.

use std::io::{self, ErrorKind};

use lookback_wire::dialect::SyntaxError;

use crate::refused::Refused;
use lookback_store::BadName;

/// The reason why something in the folder could not be imported. It contains nothing of the files' contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KbFault {
    /// The system could not read it.
    #[error("{0}")]
    Io(ErrorKind),
    /// It is a link out of the folder.
    #[error("it leads out of the folder, and is not followed")]
    Outside,
    /// A file name belongs to something other than a file.
    #[error("not a file")]
    NotAFile,
    /// The file is too large.
    #[error("larger than 16 MiB")]
    TooLarge,
    /// The contents of the file are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// The name of the file or folder is not UTF-8.
    #[error("its name is not UTF-8")]
    NameNotUtf8,
    /// The file is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(SyntaxError),
    /// The shared memory is not a JSON object.
    #[error("not a shared memory: not an object")]
    NotAnObject,
    /// The entry has no text.
    #[error("not an entry: no text in `content`")]
    NoText,
    /// Some entries of the file have no text. The others were imported.
    #[error("{count} of its entries have no text")]
    SomeWithoutText {
        /// The number of such entries.
        count: usize,
    },
    /// The file has another form.
    #[error("not in the form of KB Labs")]
    OtherForm,
    /// The name of a session is invalid.
    #[error(transparent)]
    Name(BadName),
    /// The memory does not accept a fact.
    #[error(transparent)]
    Refused(Refused),
}

impl From<io::Error> for KbFault {
    fn from(error: io::Error) -> Self {
        KbFault::Io(error.kind())
    }
}

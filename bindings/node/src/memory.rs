//! A memory: facts that outlive the window and the session.

use std::path::PathBuf;

use lookback_bindings as bindings;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::work::{Work, promise};

/// The memory of one session.
#[napi]
#[derive(Debug)]
pub struct NativeMemory(bindings::Memory);

impl From<bindings::Memory> for NativeMemory {
    fn from(memory: bindings::Memory) -> NativeMemory {
        NativeMemory(memory)
    }
}

/// Opens the memory of a session.
#[napi]
pub fn open_memory(session: String, store: Option<String>, workspace: Option<String>) -> AsyncTask<Work<NativeMemory>> {
    promise(move || {
        let store = store.map(PathBuf::from);
        bindings::Memory::open(&session, store.as_deref(), workspace.as_deref()).map(NativeMemory)
    })
}

impl NativeMemory {
    fn promise<T: Send + napi::bindgen_prelude::ToNapiValue + napi::bindgen_prelude::TypeName + 'static>(
        &self,
        work: impl FnOnce(&bindings::Memory) -> Result<T, bindings::Failure> + Send + 'static,
    ) -> AsyncTask<Work<T>> {
        let memory = self.0.clone();
        promise(move || work(&memory))
    }
}

#[napi]
impl NativeMemory {
    /// Writes a fact. Takes it and returns its `id` and judgment as JSON.
    #[napi]
    pub fn remember(&self, statement: String) -> AsyncTask<Work<String>> {
        self.promise(move |memory| memory.remember(&statement))
    }

    /// Returns the current facts, as JSON.
    #[napi]
    pub fn facts(&self) -> AsyncTask<Work<String>> {
        self.promise(bindings::Memory::facts)
    }

    /// Returns the current facts that contain any of these words as JSON.
    #[napi]
    pub fn search(&self, query: String, limit: u32) -> AsyncTask<Work<String>> {
        self.promise(move |memory| memory.search(&query, limit as usize))
    }

    /// Marks a blocker as resolved.
    #[napi]
    pub fn resolve(&self, id: String, by: String) -> AsyncTask<Work<()>> {
        self.promise(move |memory| memory.resolve(&id, &by))
    }

    /// Removes a fact from the fact sheet.
    #[napi]
    pub fn forget(&self, id: String, why: Option<String>) -> AsyncTask<Work<()>> {
        self.promise(move |memory| memory.forget(&id, why.as_deref()))
    }

    /// Returns the history of a fact as JSON.
    #[napi]
    pub fn history(&self, id: String) -> AsyncTask<Work<String>> {
        self.promise(move |memory| memory.history(&id))
    }

    /// Returns the fact sheet, as JSON.
    #[napi]
    pub fn sheet(&self, budget: Option<u32>, model: Option<String>) -> AsyncTask<Work<String>> {
        self.promise(move |memory| memory.sheet(budget.map(u64::from), model.as_deref()))
    }

    /// Returns the memory tools for a model as JSON.
    #[napi]
    pub fn tools(&self, dialect: String) -> AsyncTask<Work<String>> {
        self.promise(move |memory| memory.tools(&dialect))
    }

    /// Runs a tool call of the model, and returns the reply as JSON.
    #[napi]
    pub fn call(&self, tool: String, arguments: String) -> AsyncTask<Work<String>> {
        self.promise(move |memory| memory.call(&tool, &arguments))
    }
}
